use bytes::Bytes;
use mooncake_types::{
    ErrorCode, Grant, Located, Pong, Prefetch, Remains, Reply, ScanPage, Seal, SegmentAddress,
};

use crate::generated_fields::response as field;
use crate::{
    Kind, column, drain, drop, follow, frame, generated as proto, mount, remains, replica_lists,
    status, task,
};

/// The bytes of `ExistKeyResponse::exists` and `PrefetchResponse::in_memory`.
pub(crate) mod answer {
    pub(crate) const NO: u8 = 0;
    pub(crate) const YES: u8 = 1;
    pub(crate) const REFUSED: u8 = 2;
}

/// Appends a [`Kind::Reply`] frame.
///
/// Changes some replies:
/// - A reply that does not fit a frame becomes [`Reply::Refused`] with `BufferOverflow`: the side that asked decides
///   how to ask for less.
/// - An error whose code is `Ok` becomes `InternalError`.
/// - A message of a task, of a drain job or of a page of segments is cut to [`mooncake_types::limits::MAX_TASK_MESSAGE_BYTES`].
pub fn encode_reply(out: &mut Vec<u8>, request_id: u64, reply: &Reply) {
    let fit =
        frame::ReplyWriter { out, frame: (Kind::Reply, request_id), refused: &field::REFUSED };
    match reply {
        Reply::Pong(pong) => fit.append(&field::PONG, &from_pong(pong)),
        Reply::Done(result) => {
            fit.append(&field::DONE, &status::to_message(status::from_result(*result)));
        }
        Reply::Mounted(outcome) => fit.append(&field::MOUNTED, &mount::from_outcome(*outcome)),
        Reply::Drops(drops) => fit.append(&field::DROPS, &drop::from_fetched(drops)),
        Reply::Granted { results, segments } => {
            fit.append(&field::GRANTED, &from_granted(results, segments));
        }
        Reply::Statuses(results) => fit.append(&field::STATUSES, &status::from_results(results)),
        Reply::Remaining { results, remains } => {
            let message = proto::RemainingResponse {
                status_codes: status::from_results(results).status_codes,
                remains: Some(remains::from_remains(remains)),
            };
            fit.append(&field::REMAINING, &message);
        }
        Reply::Located { results, successors, predecessors, segments, lease_ms } => {
            let mut located = from_located(results, successors, segments);
            located.lease_ttl_ms = *lease_ms;
            if !predecessors.is_empty() {
                located.predecessors = Some(remains::from_predecessors(predecessors));
            }
            fit.append(&field::LOCATED, &located);
        }
        Reply::Exist(results) => fit.append(&field::EXIST, &from_exist(results)),
        Reply::PrefixLen(key_count) => fit.append(&field::PREFIX_LEN, &from_prefix_len(*key_count)),
        Reply::Prefetched(results) => fit.append(&field::PREFETCHED, &from_prefetched(results)),
        Reply::Scanned(page) => fit.append(&field::SCANNED, &from_page(page)),
        Reply::TaskCreated(id) => fit.append(&field::TASK_CREATED, &task::from_created(*id)),
        Reply::TaskReported(report) => {
            fit.append(&field::TASK_REPORTED, &task::from_report(report));
        }
        Reply::TasksFetched(orders) => {
            fit.append(&field::TASKS_FETCHED, &task::from_orders(orders));
        }
        Reply::Draining(report) => fit.append(&field::DRAINING, &drain::from_report(report)),
        Reply::Segments(page) => fit.append(&field::SEGMENTS, &follow::from_segments(page)),
        Reply::Refused(code) => {
            fit.append(&field::REFUSED, &status::to_message(status::from_error(*code)));
        }
    }
}

fn from_pong(pong: &Pong) -> proto::PingResponse {
    proto::PingResponse {
        need_remount: pong.need_remount,
        epoch: pong.epoch.0,
        client_ttl_ms: pong.client_ttl_ms,
        has_tasks: pong.has_tasks,
        has_drops: pong.has_drops,
        routes_ms: pong.routes_ms,
        is_unreached: pong.is_unreached,
    }
}

fn from_granted(
    results: &[Result<Grant, ErrorCode>],
    segments: &[SegmentAddress],
) -> proto::PutStartResponse {
    let rows = results.iter().map(|result| match result {
        Ok(grant) => Ok((grant.version, &grant.placements[..])),
        Err(code) => Err(*code),
    });
    let attributes = results.iter().flatten().map(|grant| &grant.attributes[..]);
    let drop_seals = results.iter().flatten().flat_map(|grant| {
        let sealed = grant.drop_seals.iter().copied().chain(std::iter::repeat(Seal::NONE));
        sealed.take(grant.placements.len())
    });
    proto::PutStartResponse {
        replica_lists: Some(replica_lists::from_rows(rows, segments)),
        attributes: column::from_attributes(attributes),
        drop_seals: column::from_seals(drop_seals),
    }
}

pub(crate) fn from_located(
    results: &[Result<Located, ErrorCode>],
    successors: &[(u32, Located)],
    segments: &[SegmentAddress],
) -> proto::GetReplicaListResponse {
    let found = results.iter().flatten().chain(successors.iter().map(|(_, located)| located));
    let rows = results.iter().map(|result| result.as_ref().map_err(|code| *code));
    let mut rows: Vec<_> = rows.collect();
    rows.extend(successors.iter().map(|(_, located)| Ok(located)));
    let rows = rows.iter().map(|row| row.map(|it| (it.version, &it.placements[..])));
    proto::GetReplicaListResponse {
        replica_lists: Some(replica_lists::from_rows(rows, segments)),
        value_lengths: found.map(|located| located.len).collect(),
        lease_ttl_ms: 0,
        successor_keys: successors.iter().map(|(position, _)| *position).collect(),
        predecessors: None,
    }
}

pub(crate) fn from_exist(results: &[Result<bool, ErrorCode>]) -> proto::ExistKeyResponse {
    let (exists, status_codes) = from_answers(results.iter().copied());
    proto::ExistKeyResponse { exists, status_codes }
}

pub(crate) fn from_prefix_len(key_count: u32) -> proto::PrefixLenResponse {
    proto::PrefixLenResponse { key_count }
}

fn from_prefetched(results: &[Result<Prefetch, ErrorCode>]) -> proto::PrefetchResponse {
    let is_there = |result: &Result<Prefetch, ErrorCode>| result.map(|it| it == Prefetch::InMemory);
    let (in_memory, status_codes) = from_answers(results.iter().map(is_there));
    proto::PrefetchResponse { in_memory, status_codes }
}

/// Encodes one byte for each answer, and the status code of each byte [`answer::REFUSED`].
fn from_answers(answers: impl Iterator<Item = Result<bool, ErrorCode>>) -> (Bytes, Vec<i32>) {
    let mut status_codes = Vec::new();
    let byte = |result| match result {
        Ok(false) => answer::NO,
        Ok(true) => answer::YES,
        Err(code) => {
            status_codes.push(status::from_error(code));
            answer::REFUSED
        }
    };
    let bytes: Vec<u8> = answers.map(byte).collect();
    (bytes.into(), status_codes)
}

fn from_page(page: &ScanPage) -> proto::ScanResponse {
    let listed = from_objects(&page.objects, &page.segments);
    proto::ScanResponse {
        next_cursor: page.next_cursor,
        removed_count: page.removed,
        remains: (*page.remains != Remains::default())
            .then(|| remains::from_remains(&page.remains)),
        keys: listed.keys,
        replica_lists: listed.replica_lists,
        value_lengths: listed.value_lengths,
    }
}

/// Encodes objects with their keys, and the segments to which their placements refer.
pub(crate) fn from_objects(
    objects: &[(String, Located)],
    segments: &[SegmentAddress],
) -> proto::ListResponse {
    let rows = objects.iter().map(|(_, at)| Ok((at.version, &at.placements[..])));
    proto::ListResponse {
        keys: objects.iter().map(|(key, _)| key.clone().into()).collect(),
        replica_lists: Some(replica_lists::from_rows(rows, segments)),
        value_lengths: objects.iter().map(|(_, at)| at.len).collect(),
    }
}
