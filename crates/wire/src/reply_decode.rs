use bytes::Bytes;
use mooncake_types::limits::{MAX_BATCH_KEYS, MAX_SCAN_OBJECTS, MAX_SUCCESSORS};
use mooncake_types::{
    Epoch, ErrorCode, Grant, Located, Placement, Pong, Prefetch, Remains, Reply, ScanPage,
    SegmentAddress,
};
use prost::Message;

use crate::generated::response;
use crate::reply_encode::answer;
use crate::{
    DecodeError, column, drain, drop, follow, generated as proto, generated_fields as fields,
    mount, remains, replica_lists, shape, status, task,
};

/// Decodes the body of a [`crate::Kind::Reply`] frame. The caller must check that the reply answers its request and
/// has one result for each key.
///
/// # Errors
/// If one of these holds:
/// - the body is not a message of this kind;
/// - a list is longer than its limit;
/// - a column is not as long as its table;
/// - a placement refers to a segment that the reply does not list.
pub fn decode_reply(body: Bytes) -> Result<Reply, DecodeError> {
    shape::check(&body, fields::response::FIELDS)?;
    let result = proto::Response::decode(body)?.result;
    Ok(match result.ok_or(DecodeError::Missing { what: "result" })? {
        response::Result::Pong(pong) => Reply::Pong(Pong {
            need_remount: pong.need_remount,
            epoch: Epoch(pong.epoch),
            client_ttl_ms: pong.client_ttl_ms,
            has_tasks: pong.has_tasks,
            has_drops: pong.has_drops,
            routes_ms: pong.routes_ms,
            is_unreached: pong.is_unreached,
        }),
        response::Result::Done(done) => Reply::Done(status::to_result(done.status_code)),
        response::Result::Mounted(mounted) => Reply::Mounted(mount::to_outcome(&mounted)?),
        response::Result::Drops(drops) => Reply::Drops(drop::to_fetched(&drops)?),
        response::Result::Granted(granted) => to_granted(granted)?,
        response::Result::Statuses(list) => {
            Reply::Statuses(status::to_results(list, MAX_BATCH_KEYS)?)
        }
        response::Result::Remaining(remaining) => {
            let proto::RemainingResponse { status_codes, remains } = remaining;
            let list = proto::StatusListResponse { status_codes };
            let remains = remains.ok_or(DecodeError::Missing { what: "remains" })?;
            let results = status::to_results(list, MAX_BATCH_KEYS)?;
            Reply::Remaining { results, remains: remains::to_remains(&remains)? }
        }
        response::Result::Located(located) => to_located(located)?,
        response::Result::Exist(exist) => Reply::Exist(to_exist(&exist)?),
        response::Result::PrefixLen(it) => Reply::PrefixLen(it.key_count),
        response::Result::Prefetched(it) => Reply::Prefetched(to_prefetched(&it)?),
        response::Result::Scanned(page) => Reply::Scanned(to_page(&page)?),
        response::Result::TaskCreated(task) => Reply::TaskCreated(task::to_created(&task)?),
        response::Result::TaskReported(report) => Reply::TaskReported(task::to_report(report)?),
        response::Result::TasksFetched(tasks) => Reply::TasksFetched(task::to_orders(&tasks)?),
        response::Result::Draining(report) => Reply::Draining(Box::new(drain::to_report(report)?)),
        response::Result::Segments(page) => Reply::Segments(follow::to_segments(&page)?),
        response::Result::Refused(refused) => Reply::Refused(status::to_error(refused.status_code)),
    })
}

fn to_granted(granted: proto::PutStartResponse) -> Result<Reply, DecodeError> {
    let lists = replica_lists::required(granted.replica_lists)?;
    let found = replica_lists::found(&lists);
    let mut attributes = column::to_attributes(&granted.attributes, found)?;
    let mut drop_seals =
        column::to_seals("drop_seals", &granted.drop_seals, lists.handle_sizes.len())?;
    let are_sealed = !granted.drop_seals.is_empty();
    let grant = |version, placements: Vec<Placement>| {
        let attributes = attributes.next().unwrap_or_default().to_vec();
        let sealed = if are_sealed { placements.len() } else { 0 };
        let drop_seals = drop_seals.by_ref().take(sealed).collect();
        Grant { version, placements, attributes, drop_seals }
    };
    let (results, segments) = replica_lists::to_rows(&lists, MAX_BATCH_KEYS, grant)?;
    Ok(Reply::Granted { results, segments })
}

fn to_located(message: proto::GetReplicaListResponse) -> Result<Reply, DecodeError> {
    let lists = replica_lists::required(message.replica_lists)?;
    let (lens, keys) = (&message.value_lengths, &message.successor_keys);
    let (mut results, segments) = to_places(&lists, lens, MAX_BATCH_KEYS + MAX_SUCCESSORS)?;
    let what = "successor_keys";
    let count = results.len().checked_sub(keys.len());
    let count = count.ok_or(DecodeError::TooMany { what, limit: results.len() })?;
    if count > MAX_BATCH_KEYS || keys.len() > MAX_SUCCESSORS {
        return Err(DecodeError::TooMany { what: "status_codes", limit: MAX_BATCH_KEYS });
    }
    let newer = results.split_off(count).into_iter().zip(keys);
    let successor = |(place, &key): (Result<Located, ErrorCode>, &u32)| match place {
        Ok(located) if (key as usize) < count => Ok((key, located)),
        Ok(_) => Err(DecodeError::OutOfRange { what, value: key.into() }),
        Err(code) => {
            let what = "status_codes";
            Err(DecodeError::OutOfRange { what, value: code.number().into() })
        }
    };
    let successors = newer.map(successor).collect::<Result<_, _>>()?;
    let predecessors = match &message.predecessors {
        Some(ranges) => remains::to_predecessors(ranges, (count, segments.len()))?,
        None => Vec::new(),
    };
    let lease_ms = message.lease_ttl_ms;
    Ok(Reply::Located { results, successors, predecessors, segments, lease_ms })
}

/// One result for each object, and the segments to which their placements refer.
type Places = (Vec<Result<Located, ErrorCode>>, Vec<SegmentAddress>);

pub(crate) fn to_places(
    lists: &proto::ReplicaLists,
    lens: &[u64],
    limit: usize,
) -> Result<Places, DecodeError> {
    column::check_len("value_lengths", lens, replica_lists::found(lists))?;
    let mut lens = lens.iter();
    replica_lists::to_rows(lists, limit, |version, placements| {
        let len = *lens.next().expect("one length for each object that has a place");
        Located { version, len, placements }
    })
}

pub(crate) fn to_exist(
    message: &proto::ExistKeyResponse,
) -> Result<Vec<Result<bool, ErrorCode>>, DecodeError> {
    to_answers("exists", &message.exists, &message.status_codes)
}

fn to_prefetched(
    message: &proto::PrefetchResponse,
) -> Result<Vec<Result<Prefetch, ErrorCode>>, DecodeError> {
    let answers = to_answers("in_memory", &message.in_memory, &message.status_codes)?;
    let prefetch = |is_there| if is_there { Prefetch::InMemory } else { Prefetch::UnderWay };
    Ok(answers.into_iter().map(|answer| answer.map(prefetch)).collect())
}

/// Decodes one answer per byte. Each byte [`answer::REFUSED`] takes the next of the status codes.
fn to_answers(
    what: &'static str,
    bytes: &[u8],
    status_codes: &[i32],
) -> Result<Vec<Result<bool, ErrorCode>>, DecodeError> {
    let limit = MAX_BATCH_KEYS;
    if bytes.len() > limit {
        return Err(DecodeError::TooMany { what, limit });
    }
    let refused = bytes.iter().filter(|&&byte| byte == answer::REFUSED).count();
    column::check_len("status_codes", status_codes, refused)?;
    let mut codes = status_codes.iter();
    let result = |&byte| match byte {
        answer::NO => Ok(Ok(false)),
        answer::YES => Ok(Ok(true)),
        answer::REFUSED => {
            let code = *codes.next().expect("one code for each key that was refused");
            Ok(Err(status::to_error(code)))
        }
        _ => Err(DecodeError::OutOfRange { what, value: byte.into() }),
    };
    bytes.iter().map(result).collect()
}

fn to_page(message: &proto::ScanResponse) -> Result<ScanPage, DecodeError> {
    let lists = message.replica_lists.as_ref();
    let columns = (&message.keys[..], lists, &message.value_lengths[..]);
    let (objects, segments) = to_objects(columns, MAX_SCAN_OBJECTS as usize)?;
    Ok(ScanPage {
        next_cursor: message.next_cursor,
        removed: message.removed_count,
        remains: Box::new(to_remains_if_any(message.remains.as_ref())?),
        objects,
        segments,
    })
}

/// Objects with their keys, and the segments to which their placements refer.
type Objects = (Vec<(String, Located)>, Vec<SegmentAddress>);

/// Decodes at most `limit` objects of a page from their keys, replica lists and lengths.
pub(crate) fn to_objects(
    (keys, lists, lens): (&[Bytes], Option<&proto::ReplicaLists>, &[u64]),
    limit: usize,
) -> Result<Objects, DecodeError> {
    let lists = replica_lists::required(lists)?;
    column::check_len("status_codes", &lists.status_codes, keys.len())?;
    let (places, segments) = to_places(lists, lens, limit)?;
    let object = |(key, place): (_, Result<Located, ErrorCode>)| {
        let place = place.map_err(|code| DecodeError::OutOfRange {
            what: "status_codes",
            value: code.number().into(),
        })?;
        Ok((column::to_key(key)?.to_owned(), place))
    };
    let objects = keys.iter().enumerate().zip(places).map(object);
    Ok((objects.collect::<Result<_, DecodeError>>()?, segments))
}

fn to_remains_if_any(message: Option<&proto::Remains>) -> Result<Remains, DecodeError> {
    message.map(remains::to_remains).transpose().map(Option::unwrap_or_default)
}
