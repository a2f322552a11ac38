use bytes::Bytes;
use mooncake_types::limits::{MAX_BATCH_KEYS, MAX_DUMMY_LISTED_OBJECTS, MAX_DUMMY_PIECES};
use mooncake_types::{DummyReply, ErrorCode};
use prost::Message;

use crate::generated::dummy_response;
use crate::generated_fields::dummy_response as field;
use crate::{
    DecodeError, Kind, column, frame, generated as proto, replica_lists, reply_decode,
    reply_encode, shape, status,
};

/// Appends a [`Kind::DummyReply`] frame. If the reply does not fit a frame, sends [`DummyReply::Refused`] with
/// `BufferOverflow` instead.
pub fn encode_dummy_reply(out: &mut Vec<u8>, request_id: u64, reply: &DummyReply) {
    let fit =
        frame::ReplyWriter { out, frame: (Kind::DummyReply, request_id), refused: &field::REFUSED };
    match reply {
        DummyReply::Attached { attachment, hostname } => {
            let (attachment_id, hostname) = (column::from_id(*attachment), hostname.clone());
            fit.append(&field::ATTACHED, &proto::AttachResponse { attachment_id, hostname });
        }
        DummyReply::MemoryShared { map } => {
            fit.append(&field::MEMORY_SHARED, &proto::ShareMemoryResponse { map: *map });
        }
        DummyReply::Statuses(results) => {
            fit.append(&field::STATUSES, &status::from_results(results));
        }
        DummyReply::Health(is_healthy) => {
            fit.append(&field::HEALTH, &proto::HealthResponse { is_healthy: *is_healthy });
        }
        DummyReply::Lengths(results) => fit.append(&field::LENGTHS, &from_lengths(results)),
        DummyReply::Exist(results) => fit.append(&field::EXIST, &reply_encode::from_exist(results)),
        DummyReply::PrefixLen(key_count) => {
            fit.append(&field::PREFIX_LEN, &reply_encode::from_prefix_len(*key_count));
        }
        DummyReply::Located { results, segments } => {
            fit.append(&field::LOCATED, &reply_encode::from_located(results, &[], segments));
        }
        DummyReply::Removed(removed_count) => {
            let removed_count = *removed_count;
            fit.append(&field::REMOVED, &proto::RemoveMatchingResponse { removed_count });
        }
        DummyReply::Listed { objects, segments } => {
            fit.append(&field::LISTED, &reply_encode::from_objects(objects, segments));
        }
        DummyReply::Refused(code) => {
            fit.append(&field::REFUSED, &status::to_message(status::from_error(*code)));
        }
    }
}

/// Decodes the body of a [`Kind::DummyReply`] frame. The caller must check that the reply answers its request and has
/// one result for each row.
///
/// # Errors
/// If one of these holds:
/// - the body is not a message of this kind;
/// - a list is longer than its limit;
/// - a column is not as long as its table;
/// - a placement refers to a segment that the reply does not list.
pub fn decode_dummy_reply(body: Bytes) -> Result<DummyReply, DecodeError> {
    use dummy_response::Result as Proto;
    shape::check(&body, field::FIELDS)?;
    let result = proto::DummyResponse::decode(body)?.result;
    Ok(match result.ok_or(DecodeError::Missing { what: "result" })? {
        Proto::Attached(attached) => DummyReply::Attached {
            attachment: column::to_id("attachment_id", &attached.attachment_id)?,
            hostname: attached.hostname,
        },
        Proto::MemoryShared(shared) => DummyReply::MemoryShared { map: shared.map },
        Proto::Statuses(list) => DummyReply::Statuses(status::to_results(list, MAX_BATCH_KEYS)?),
        Proto::Health(health) => DummyReply::Health(health.is_healthy),
        Proto::Lengths(list) => DummyReply::Lengths(to_lengths(&list)?),
        Proto::Exist(exist) => DummyReply::Exist(reply_decode::to_exist(&exist)?),
        Proto::PrefixLen(prefix) => DummyReply::PrefixLen(prefix.key_count),
        Proto::Located(located) => {
            let lists = replica_lists::required(located.replica_lists.as_ref())?;
            let lens = &located.value_lengths;
            let (results, segments) = reply_decode::to_places(lists, lens, MAX_BATCH_KEYS)?;
            DummyReply::Located { results, segments }
        }
        Proto::Removed(removed) => DummyReply::Removed(removed.removed_count),
        Proto::Listed(listed) => {
            let lists = listed.replica_lists.as_ref();
            let columns = (&listed.keys[..], lists, &listed.value_lengths[..]);
            let (objects, segments) = reply_decode::to_objects(columns, MAX_DUMMY_LISTED_OBJECTS)?;
            DummyReply::Listed { objects, segments }
        }
        Proto::Refused(refused) => DummyReply::Refused(status::to_error(refused.status_code)),
    })
}

fn from_lengths(results: &[Result<u64, ErrorCode>]) -> proto::LengthListResponse {
    let status = |result: &Result<u64, ErrorCode>| status::from_result(result.map(|_| ()));
    proto::LengthListResponse {
        status_codes: results.iter().map(status).collect(),
        sizes: results.iter().flatten().copied().collect(),
    }
}

fn to_lengths(
    list: &proto::LengthListResponse,
) -> Result<Vec<Result<u64, ErrorCode>>, DecodeError> {
    let limit = MAX_BATCH_KEYS.max(MAX_DUMMY_PIECES);
    if list.status_codes.len() > limit {
        return Err(DecodeError::TooMany { what: "status_codes", limit });
    }
    let results = list.status_codes.iter().map(|&number| status::to_result(number));
    column::check_len("sizes", &list.sizes, results.clone().flatten().count())?;
    let mut sizes = list.sizes.iter();
    let length = |result: Result<(), ErrorCode>| {
        result.map(|()| *sizes.next().expect("one length for each status that is 0"))
    };
    Ok(results.map(length).collect())
}
