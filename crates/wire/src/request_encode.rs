use crate::frame::RequestWriter;
use crate::generated_fields::request as field;
use crate::{
    Kind, column, drop, exist, generated as proto, inventory, mount, put_config, reads, status,
    task,
};
use bytes::Bytes;
use mooncake_types::{
    CreateTask, DEFAULT_TENANT, ErrorCode, PutEnd, PutRevoke, PutStart, ReadReport, Request, Scan,
    ScanAction, SegmentId, TaskId,
};

/// Appends a [`Kind::Request`] frame.
///
/// # Panics
/// If the body is longer than [`mooncake_types::limits::MAX_FRAME_BODY_BYTES`]. A request within the limits on the
/// length of a key and the number of keys in a batch fits.
pub fn encode_request(out: &mut Vec<u8>, request_id: u64, request: &Request<'_>) {
    let mut body = RequestWriter { out, frame: (Kind::Request, request_id) };
    match request {
        Request::Ping { segments, unreachable, reads } => {
            body.message(&field::PING, &ping(segments, unreachable, reads.as_deref()));
        }
        Request::Leave { reads } => body.message(&field::LEAVE, &leave(reads.as_deref())),
        Request::MountSegment(mount) => {
            body.message(&field::MOUNT_SEGMENT, &mount::from_mount(mount));
        }
        Request::ReportInventory(page) => {
            body.message(&field::REPORT_INVENTORY, &inventory::from_page(page));
        }
        Request::ReportChanges(page) => {
            body.message(&field::REPORT_CHANGES, &inventory::from_changes(page));
        }
        Request::ListSegments { from, limit } => {
            let list = proto::ListSegmentsRequest { from: *from, limit: *limit };
            body.message(&field::LIST_SEGMENTS, &list);
        }
        Request::FetchDrops { dropped, limit } => {
            body.message(&field::FETCH_DROPS, &drop::from_fetch(dropped, *limit));
        }
        Request::UnmountSegment { id, grace_ms, failure } => {
            body.message(&field::UNMOUNT_SEGMENT, &unmount_segment(*id, *grace_ms, failure));
        }
        Request::PutStart(start) => {
            let keys = start.puts.iter().map(|put| put.key);
            body.keyed(&field::PUT_START, keys, &put_start(start));
        }
        Request::PutEnd { puts } => {
            body.keyed(&field::PUT_END, puts.iter().map(|put| put.key), &put_end(puts));
        }
        Request::PutRevoke { puts } => {
            body.keyed(&field::PUT_REVOKE, puts.iter().map(|put| put.key), &put_revoke(puts));
        }
        Request::GetReplicaList { keys } => look_up(&mut body, keys, &[]),
        Request::RenewRoutes { keys, uses } => look_up(&mut body, keys, uses),
        Request::ExistKey { keys, options } => {
            body.keys(&field::EXIST_KEY, keys, &exist::from_options(*options));
        }
        Request::PrefixLen { keys, leased_from } => {
            body.keys(&field::PREFIX_LEN, keys, &exist::from_prefix(*leased_from));
        }
        Request::Prefetch { keys } => body.keys(&field::PREFETCH, keys, &prefetch()),
        Request::Remove { keys, force } => body.keys(&field::REMOVE, keys, &remove(*force)),
        Request::Dropped { dropped } => body.message(&field::DROPPED, &drop::from_dropped(dropped)),
        Request::Retract { keys, ranges } => {
            body.message(&field::RETRACT, &drop::from_retract(keys, ranges));
        }
        Request::ReportLosses { keys, ranges } => {
            body.message(&field::REPORT_LOSSES, &drop::from_losses(keys, ranges));
        }
        Request::Scan(page) => body.message(&field::SCAN, &scan(page)),
        Request::ClearReplicas { keys, segment } => {
            body.keys(&field::CLEAR_REPLICAS, keys, &clear_replicas(segment));
        }
        Request::CreateTask(task) => body.message(&field::CREATE_TASK, &create_task(task)),
        Request::QueryTask { id } => body.message(&field::QUERY_TASK, &query_task(*id)),
        Request::FetchTasks { limit, wait_ms } => {
            body.message(&field::FETCH_TASKS, &fetch_tasks(*limit, *wait_ms));
        }
        Request::DrainSegments { segments } => {
            body.message(&field::DRAIN_SEGMENTS, &drain_segments(segments));
        }
        Request::EndTask { id, outcome } => {
            body.message(&field::END_TASK, &end_task(*id, *outcome));
        }
    }
}

fn clear_replicas(segment: &str) -> proto::ClearReplicasRequest {
    proto::ClearReplicasRequest { keys: Vec::new(), segment_name: segment.to_owned() }
}

fn prefetch() -> proto::PrefetchRequest {
    proto::PrefetchRequest { keys: Vec::new() }
}

fn remove(force: bool) -> proto::RemoveRequest {
    proto::RemoveRequest { keys: Vec::new(), force }
}

fn look_up(body: &mut RequestWriter<'_>, keys: &[&str], uses: &[u32]) {
    let rest = proto::GetReplicaListRequest { keys: Vec::new(), uses: uses.to_vec() };
    body.keyed(&field::GET_REPLICA_LIST, keys.iter().copied(), &rest);
}

fn ping(
    segments: &[SegmentId],
    unreachable: &[SegmentId],
    reads: Option<&ReadReport>,
) -> proto::PingRequest {
    proto::PingRequest {
        reads: reads.map(reads::from_report),
        segment_ids: column::from_segments(segments.iter().copied()),
        unreachable_segment_ids: column::from_segments(unreachable.iter().copied()),
    }
}

fn leave(reads: Option<&ReadReport>) -> proto::LeaveRequest {
    proto::LeaveRequest { reads: reads.map(reads::from_report) }
}

fn unmount_segment(
    id: SegmentId,
    grace_period_ms: u64,
    failure: &str,
) -> proto::UnmountSegmentRequest {
    let (segment_id, failure) = (column::from_id(id.0), failure.to_owned());
    proto::UnmountSegmentRequest { segment_id, grace_period_ms, failure }
}

fn query_task(id: TaskId) -> proto::QueryTaskRequest {
    proto::QueryTaskRequest { task_id: column::from_id(id.0) }
}

fn end_task(id: TaskId, outcome: Result<(), ErrorCode>) -> proto::EndTaskRequest {
    let status_code = status::from_result(outcome);
    proto::EndTaskRequest { task_id: column::from_id(id.0), status_code }
}

fn drain_segments(segments: &[SegmentId]) -> proto::DrainSegmentsRequest {
    proto::DrainSegmentsRequest { segment_ids: column::from_segments(segments.iter().copied()) }
}

fn fetch_tasks(limit: u32, wait_ms: u32) -> proto::FetchTasksRequest {
    proto::FetchTasksRequest { limit, wait_ms }
}

fn put_start(start: &PutStart<'_>) -> proto::PutStartRequest {
    proto::PutStartRequest {
        keys: Vec::new(),
        value_lengths: start.puts.iter().map(|put| put.len).collect(),
        config: Some(put_config::from_config(&start.config)),
        mode: put_config::from_mode(start.mode),
        groups: put_config::from_labels(start.puts.iter().map(|put| put.group)),
        sessions: put_config::from_labels(start.puts.iter().map(|put| put.session)),
    }
}

fn put_end(puts: &[PutEnd<'_>]) -> proto::PutEndRequest {
    proto::PutEndRequest {
        keys: Vec::new(),
        versions: column::from_versions(puts.iter().map(|put| put.version)),
        failed_replicas: puts.iter().map(|put| put.failed_replicas).collect(),
        held_replicas: held_replicas(puts.iter().map(|put| put.held_replicas)),
    }
}

/// Encodes the column of held replicas. It is nearly always absent: no replica of any put is held.
fn held_replicas(sets: impl Iterator<Item = u32> + Clone) -> Vec<u32> {
    match sets.clone().any(|set| set != 0) {
        true => sets.collect(),
        false => Vec::new(),
    }
}

fn put_revoke(puts: &[PutRevoke<'_>]) -> proto::PutRevokeRequest {
    let versions = column::from_versions(puts.iter().map(|put| put.version));
    let held_replicas = held_replicas(puts.iter().map(|put| put.held_replicas));
    proto::PutRevokeRequest { keys: Vec::new(), versions, held_replicas }
}

fn create_task(task: &CreateTask<'_>) -> proto::CreateTaskRequest {
    proto::CreateTaskRequest {
        key: Bytes::copy_from_slice(task.key.as_bytes()),
        kind: task::from_kind(task.kind),
        source_segment: task.source.to_owned(),
        target_segments: task.targets.iter().map(|&name| name.into()).collect(),
    }
}

fn scan(page: &Scan<'_>) -> proto::ScanRequest {
    let action = match page.action {
        ScanAction::List => proto::ScanAction::List,
        ScanAction::Remove { force: false } => proto::ScanAction::Remove,
        ScanAction::Remove { force: true } => proto::ScanAction::RemoveForced,
    };
    proto::ScanRequest {
        key_regex: page.pattern.map(str::to_owned),
        action: action.into(),
        cursor: page.cursor,
        limit: page.limit,
        tenant: page.tenant.filter(|&name| name != DEFAULT_TENANT).unwrap_or_default().to_owned(),
        all_tenants: page.tenant.is_none(),
    }
}
