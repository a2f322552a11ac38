use bytes::Bytes;
use mooncake_types::limits::MAX_SEGMENTS;
use mooncake_types::{
    CreateTask, DEFAULT_TENANT, PutEnd, PutItem, PutRevoke, PutStart, Request, Scan, ScanAction,
    SegmentId, TaskId,
};
use prost::Message;

use crate::generated::request::Operation;
use crate::{
    DecodeError, column, drop, exist, generated as proto, generated_fields as fields, inventory,
    mount, put_config, reads, shape, status, task,
};

/// The decoded body of a [`crate::Kind::Request`] frame. It owns the bytes that its [`Request`] borrows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestMessage {
    operation: Operation,
}

/// Decodes the body of a [`crate::Kind::Request`] frame. Does not copy keys: the message keeps the frame's memory
/// alive.
///
/// # Errors
/// If the body is not a message of this kind, or a list is longer than its limit. Does not refuse empty or too long
/// keys and group names: the master answers for each key.
pub fn decode_request(body: Bytes) -> Result<RequestMessage, DecodeError> {
    shape::check(&body, fields::request::FIELDS)?;
    let operation = proto::Request::decode(body)?.operation;
    Ok(RequestMessage { operation: operation.ok_or(DecodeError::Missing { what: "operation" })? })
}

impl RequestMessage {
    /// The request, which borrows from this message.
    ///
    /// # Errors
    /// If a key or a group is not UTF-8, a column has the wrong length, or a number is undefined.
    pub fn request(&self) -> Result<Request<'_>, DecodeError> {
        Ok(match &self.operation {
            Operation::Ping(ping) => Request::Ping {
                segments: segments("segment_ids", &ping.segment_ids)?,
                unreachable: segments("unreachable_segment_ids", &ping.unreachable_segment_ids)?,
                reads: ping.reads.as_ref().map(reads::to_report).map(Box::new),
            },
            Operation::Leave(leave) => {
                Request::Leave { reads: leave.reads.as_ref().map(reads::to_report).map(Box::new) }
            }
            Operation::MountSegment(mount) => Request::MountSegment(mount::to_mount(mount)?),
            Operation::ReportInventory(page) => Request::ReportInventory(inventory::to_page(page)?),
            Operation::ReportChanges(page) => Request::ReportChanges(inventory::to_changes(page)?),
            Operation::ListSegments(list) => {
                Request::ListSegments { from: list.from, limit: list.limit }
            }
            Operation::FetchDrops(fetch) => drop::to_fetch(fetch)?,
            Operation::UnmountSegment(unmount) => Request::UnmountSegment {
                id: SegmentId(column::to_id("segment_id", &unmount.segment_id)?),
                grace_ms: unmount.grace_period_ms,
                failure: &unmount.failure,
            },
            Operation::PutStart(start) => Request::PutStart(put_start(start)?),
            Operation::PutEnd(end) => Request::PutEnd { puts: put_end(end)? },
            Operation::PutRevoke(revoke) => Request::PutRevoke { puts: put_revoke(revoke)? },
            Operation::GetReplicaList(get) => look_up(get)?,
            Operation::ExistKey(asked) => Request::ExistKey {
                keys: column::to_keys(&asked.keys)?,
                options: exist::to_options(asked),
            },
            Operation::PrefixLen(prefix) => Request::PrefixLen {
                keys: column::to_keys(&prefix.keys)?,
                leased_from: prefix.leased_from,
            },
            Operation::Prefetch(prefetch) => {
                Request::Prefetch { keys: column::to_keys(&prefetch.keys)? }
            }
            Operation::Remove(remove) => {
                Request::Remove { keys: column::to_keys(&remove.keys)?, force: remove.force }
            }
            Operation::Dropped(dropped) => drop::to_dropped(dropped)?,
            Operation::Retract(retract) => {
                let ranges = drop::to_retract(retract)?;
                Request::Retract { keys: column::to_keys(&retract.keys)?, ranges }
            }
            Operation::ReportLosses(losses) => {
                let keys = column::to_keys(&losses.keys)?;
                let ranges = drop::to_losses(losses)?;
                Request::ReportLosses { keys, ranges }
            }
            Operation::Scan(page) => Request::Scan(scan(page)?),
            Operation::ClearReplicas(clear) => Request::ClearReplicas {
                keys: column::to_keys(&clear.keys)?,
                segment: &clear.segment_name,
            },
            Operation::CreateTask(task) => Request::CreateTask(create_task(task)?),
            Operation::QueryTask(query) => Request::QueryTask { id: task_id(&query.task_id)? },
            Operation::FetchTasks(fetch) => {
                Request::FetchTasks { limit: fetch.limit, wait_ms: fetch.wait_ms }
            }
            Operation::DrainSegments(drain) => {
                Request::DrainSegments { segments: segments("segment_ids", &drain.segment_ids)? }
            }
            Operation::EndTask(end) => Request::EndTask {
                id: task_id(&end.task_id)?,
                outcome: status::to_result(end.status_code),
            },
        })
    }
}

fn segments(what: &'static str, ids: &[u8]) -> Result<Vec<SegmentId>, DecodeError> {
    column::to_segment_list(what, ids, MAX_SEGMENTS)
}

fn task_id(id: &[u8]) -> Result<TaskId, DecodeError> {
    column::to_id("task_id", id).map(TaskId)
}

fn create_task(task: &proto::CreateTaskRequest) -> Result<CreateTask<'_>, DecodeError> {
    Ok(CreateTask {
        key: column::to_key((0, &task.key))?,
        kind: task::to_kind(task.kind)?,
        source: &task.source_segment,
        targets: task.target_segments.iter().map(String::as_str).collect(),
    })
}

/// A message with `uses` is a [`Request::RenewRoutes`].
fn look_up(get: &proto::GetReplicaListRequest) -> Result<Request<'_>, DecodeError> {
    let keys = column::to_keys(&get.keys)?;
    if get.uses.is_empty() {
        return Ok(Request::GetReplicaList { keys });
    }
    column::check_len("uses", &get.uses, keys.len())?;
    Ok(Request::RenewRoutes { keys, uses: get.uses.clone() })
}

fn put_start(start: &proto::PutStartRequest) -> Result<PutStart<'_>, DecodeError> {
    column::check_len("value_lengths", &start.value_lengths, start.keys.len())?;
    let put = |(key, &len)| Ok(PutItem::new(column::to_key(key)?, len));
    let puts = start.keys.iter().enumerate().zip(&start.value_lengths).map(put);
    let mut puts = puts.collect::<Result<Vec<_>, DecodeError>>()?;
    let groups = put_config::to_labels("groups", &start.groups, puts.len())?;
    let sessions = put_config::to_labels("sessions", &start.sessions, puts.len())?;
    for (put, (group, session)) in puts.iter_mut().zip(groups.zip(sessions)) {
        (put.group, put.session) = (group?, session?);
    }
    let config = put_config::to_config(start.config.as_ref())?;
    Ok(PutStart { puts, config, mode: put_config::to_mode(start.mode)? })
}

fn put_end(end: &proto::PutEndRequest) -> Result<Vec<PutEnd<'_>>, DecodeError> {
    let count = end.keys.len();
    let versions = column::to_versions("versions", &end.versions, count)?;
    column::check_len("failed_replicas", &end.failed_replicas, count)?;
    let held = held_replicas(&end.held_replicas, count)?;
    let rows = end.keys.iter().enumerate().zip(versions).zip(&end.failed_replicas).zip(held);
    rows.map(|(((key, version), &failed_replicas), held_replicas)| {
        Ok(PutEnd { key: column::to_key(key)?, version, failed_replicas, held_replicas })
    })
    .collect()
}

/// Decodes one set for each of `count` keys. If the column is absent, all sets are empty.
fn held_replicas(sets: &[u32], count: usize) -> Result<impl Iterator<Item = u32>, DecodeError> {
    if !sets.is_empty() {
        column::check_len("held_replicas", sets, count)?;
    }
    Ok(sets.iter().copied().chain(std::iter::repeat(0)))
}

fn put_revoke(revoke: &proto::PutRevokeRequest) -> Result<Vec<PutRevoke<'_>>, DecodeError> {
    let count = revoke.keys.len();
    let versions = column::to_versions("versions", &revoke.versions, count)?;
    let held = held_replicas(&revoke.held_replicas, count)?;
    let rows = revoke.keys.iter().enumerate().zip(versions).zip(held);
    rows.map(|((key, version), held_replicas)| {
        Ok(PutRevoke { key: column::to_key(key)?, version, held_replicas })
    })
    .collect()
}

fn scan(page: &proto::ScanRequest) -> Result<Scan<'_>, DecodeError> {
    let action = match proto::ScanAction::try_from(page.action) {
        Ok(proto::ScanAction::List) => ScanAction::List,
        Ok(proto::ScanAction::Remove) => ScanAction::Remove { force: false },
        Ok(proto::ScanAction::RemoveForced) => ScanAction::Remove { force: true },
        Ok(proto::ScanAction::Unspecified) | Err(_) => {
            return Err(DecodeError::OutOfRange { what: "action", value: page.action.into() });
        }
    };
    let pattern = page.key_regex.as_deref();
    let tenant = match &*page.tenant {
        _ if page.all_tenants => None,
        "" => Some(DEFAULT_TENANT),
        name => Some(name),
    };
    Ok(Scan { tenant, pattern, action, cursor: page.cursor, limit: page.limit })
}
