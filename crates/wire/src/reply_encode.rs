use bytes::Bytes;
use mooncake_types::{
    ErrorCode, Grant, Located, Pong, Prefetch, Remains, Reply, ScanPage, SegmentAddress,
};

use crate::{
    Kind, column, drain, follow, frame, generated as proto, mount, remains, replica_lists, status,
    task,
};

/// The field numbers of the results in the message `Response`.
pub(crate) mod tag {
    pub(crate) const PONG: u32 = 1;
    pub(crate) const DONE: u32 = 2;
    pub(crate) const GRANTED: u32 = 3;
    pub(crate) const STATUSES: u32 = 4;
    pub(crate) const LOCATED: u32 = 5;
    pub(crate) const EXIST: u32 = 6;
    pub(crate) const SCANNED: u32 = 7;
    pub(crate) const REFUSED: u32 = 8;
    pub(crate) const TASK_CREATED: u32 = 9;
    pub(crate) const TASK_REPORTED: u32 = 10;
    pub(crate) const TASKS_FETCHED: u32 = 11;
    pub(crate) const REMAINING: u32 = 12;
    pub(crate) const MOUNTED: u32 = 13;
    pub(crate) const DROPS: u32 = 14;
    pub(crate) const DRAINING: u32 = 15;
    pub(crate) const SEGMENTS: u32 = 16;
    pub(crate) const PREFETCHED: u32 = 17;
    pub(crate) const PREFIX_LEN: u32 = 18;
}

/// The bytes of `ExistKeyResponse::exists` and `PrefetchResponse::in_memory`.
pub(crate) mod answer {
    pub(crate) const NO: u8 = 0;
    pub(crate) const YES: u8 = 1;
    pub(crate) const REFUSED: u8 = 2;
}

/// Appends a [`Kind::Reply`] frame.
///
/// A reply that does not fit a frame is sent as [`Reply::Refused`] with `BufferOverflow`: the side that asked decides how to
/// ask for less. An error that claims to be `Ok` is sent as `InternalError`. The message of a task is cut
/// to [`mooncake_types::limits::MAX_TASK_MESSAGE_BYTES`].
pub fn encode_reply(out: &mut Vec<u8>, request_id: u64, reply: &Reply) {
    let fit = frame::Fit { out, frame: (Kind::Reply, request_id), refused: tag::REFUSED };
    match reply {
        Reply::Pong(pong) => fit.append(tag::PONG, &from_pong(pong)),
        Reply::Done(result) => {
            fit.append(tag::DONE, &status::to_message(status::from_result(*result)));
        }
        Reply::Mounted(outcome) => fit.append(tag::MOUNTED, &mount::from_outcome(*outcome)),
        Reply::Drops(drops) => fit.append(tag::DROPS, &mount::from_fetched(drops)),
        Reply::Granted { results, segments } => {
            fit.append(tag::GRANTED, &from_granted(results, segments));
        }
        Reply::Statuses(results) => fit.append(tag::STATUSES, &status::from_results(results)),
        Reply::Remaining { results, remains } => {
            let message = proto::RemainingResponse {
                status_codes: status::from_results(results).status_codes,
                remains: Some(remains::from_remains(remains)),
            };
            fit.append(tag::REMAINING, &message);
        }
        Reply::Located { results, successors, predecessors, segments, lease_ms } => {
            let mut located = from_located(results, successors, segments);
            located.lease_ttl_ms = *lease_ms;
            if !predecessors.is_empty() {
                located.predecessors = Some(remains::from_predecessors(predecessors));
            }
            fit.append(tag::LOCATED, &located);
        }
        Reply::Exist(results) => fit.append(tag::EXIST, &from_exist(results)),
        Reply::PrefixLen(key_count) => fit.append(tag::PREFIX_LEN, &from_prefix_len(*key_count)),
        Reply::Prefetched(results) => fit.append(tag::PREFETCHED, &from_prefetched(results)),
        Reply::Scanned(page) => fit.append(tag::SCANNED, &from_page(page)),
        Reply::TaskCreated(id) => fit.append(tag::TASK_CREATED, &task::from_created(*id)),
        Reply::TaskReported(report) => fit.append(tag::TASK_REPORTED, &task::from_report(report)),
        Reply::TasksFetched(orders) => fit.append(tag::TASKS_FETCHED, &task::from_orders(orders)),
        Reply::Draining(report) => fit.append(tag::DRAINING, &drain::from_report(report)),
        Reply::Segments(page) => fit.append(tag::SEGMENTS, &follow::from_segments(page)),
        Reply::Refused(code) => {
            fit.append(tag::REFUSED, &status::to_message(status::from_error(*code)));
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
    proto::PutStartResponse {
        replica_lists: Some(replica_lists::from_rows(rows, segments)),
        attributes: column::from_attributes(attributes),
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

/// A byte for each answer, and the status code of each byte [`answer::REFUSED`].
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
    proto::ScanResponse {
        next_cursor: page.next_cursor,
        removed_count: page.removed,
        remains: (*page.remains != Remains::default())
            .then(|| remains::from_remains(&page.remains)),
        ..from_objects(&page.objects, &page.segments)
    }
}

/// Objects with their keys, and the segments that their placements point into.
pub(crate) fn from_objects(
    objects: &[(String, Located)],
    segments: &[SegmentAddress],
) -> proto::ScanResponse {
    let rows = objects.iter().map(|(_, at)| Ok((at.version, &at.placements[..])));
    proto::ScanResponse {
        keys: objects.iter().map(|(key, _)| key.clone().into()).collect(),
        replica_lists: Some(replica_lists::from_rows(rows, segments)),
        value_lengths: objects.iter().map(|(_, at)| at.len).collect(),
        ..proto::ScanResponse::default()
    }
}
