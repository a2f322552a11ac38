use mooncake_types::{Reply, Request, ScanAction, TaskKind};

/// The operation of a request, under the name in its metrics. Requests about one key and about several are counted
/// apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Operation {
    Ping,
    Leave,
    MountSegment,
    ReportInventory,
    ReportChanges,
    ListSegments,
    FetchDrops,
    UnmountSegment,
    PutStart,
    PutEnd,
    PutRevoke,
    GetReplicaList,
    ExistKey,
    PrefixLen,
    Prefetch,
    Remove,
    GetReplicaListByRegex,
    RemoveByRegex,
    RemoveAll,
    GetAllKeys,
    CreateCopyTask,
    CreateMoveTask,
    QueryTask,
    FetchTasks,
    Dropped,
    DrainSegments,
    UpdateTask,
    BatchPutStart,
    BatchPutEnd,
    BatchPutRevoke,
    BatchGetReplicaList,
    BatchExistKey,
    BatchRemove,
    BatchReplicaClear,
}

impl Operation {
    pub(crate) const COUNT: usize = Operation::BatchReplicaClear as usize + 1;

    pub(crate) const ALL: [(Operation, &'static str); Operation::COUNT] = [
        (Operation::Ping, "ping"),
        (Operation::Leave, "leave"),
        (Operation::MountSegment, "mount_segment"),
        (Operation::ReportInventory, "report_inventory"),
        (Operation::ReportChanges, "report_changes"),
        (Operation::ListSegments, "list_segments"),
        (Operation::FetchDrops, "fetch_drops"),
        (Operation::UnmountSegment, "unmount_segment"),
        (Operation::PutStart, "put_start"),
        (Operation::PutEnd, "put_end"),
        (Operation::PutRevoke, "put_revoke"),
        (Operation::GetReplicaList, "get_replica_list"),
        (Operation::ExistKey, "exist_key"),
        (Operation::PrefixLen, "prefix_len"),
        (Operation::Prefetch, "prefetch"),
        (Operation::Remove, "remove"),
        (Operation::GetReplicaListByRegex, "get_replica_list_by_regex"),
        (Operation::RemoveByRegex, "remove_by_regex"),
        (Operation::RemoveAll, "remove_all"),
        (Operation::GetAllKeys, "get_all_keys"),
        (Operation::CreateCopyTask, "create_copy_task"),
        (Operation::CreateMoveTask, "create_move_task"),
        (Operation::QueryTask, "query_task"),
        (Operation::FetchTasks, "fetch_tasks"),
        (Operation::Dropped, "dropped"),
        (Operation::DrainSegments, "drain_segments"),
        (Operation::UpdateTask, "update_task"),
        (Operation::BatchPutStart, "batch_put_start"),
        (Operation::BatchPutEnd, "batch_put_end"),
        (Operation::BatchPutRevoke, "batch_put_revoke"),
        (Operation::BatchGetReplicaList, "batch_get_replica_list"),
        (Operation::BatchExistKey, "batch_exist_key"),
        (Operation::BatchRemove, "batch_remove"),
        (Operation::BatchReplicaClear, "batch_replica_clear"),
    ];

    pub(crate) fn of(request: &Request<'_>) -> Operation {
        match request {
            Request::Ping { .. } => Operation::Ping,
            Request::Leave { .. } => Operation::Leave,
            Request::MountSegment(_) => Operation::MountSegment,
            Request::ReportInventory(_) => Operation::ReportInventory,
            Request::ReportChanges(_) => Operation::ReportChanges,
            Request::ListSegments { .. } => Operation::ListSegments,
            Request::FetchDrops { .. } | Request::ReportLosses { .. } => Operation::FetchDrops,
            Request::UnmountSegment { .. } => Operation::UnmountSegment,
            Request::PutStart(start) if start.puts.len() == 1 => Operation::PutStart,
            Request::PutStart(_) => Operation::BatchPutStart,
            Request::PutEnd { puts } if puts.len() == 1 => Operation::PutEnd,
            Request::PutEnd { .. } => Operation::BatchPutEnd,
            Request::PutRevoke { puts } if puts.len() == 1 => Operation::PutRevoke,
            Request::PutRevoke { .. } => Operation::BatchPutRevoke,
            Request::GetReplicaList { keys } | Request::RenewRoutes { keys, .. }
                if keys.len() == 1 =>
            {
                Operation::GetReplicaList
            }
            Request::GetReplicaList { .. } | Request::RenewRoutes { .. } => {
                Operation::BatchGetReplicaList
            }
            Request::ExistKey { keys, .. } if keys.len() == 1 => Operation::ExistKey,
            Request::ExistKey { .. } => Operation::BatchExistKey,
            Request::PrefixLen { .. } => Operation::PrefixLen,
            Request::Prefetch { .. } => Operation::Prefetch,
            Request::Remove { keys, .. } if keys.len() == 1 => Operation::Remove,
            Request::Remove { .. } => Operation::BatchRemove,
            Request::Scan(scan) => match (scan.action, scan.pattern) {
                (ScanAction::List, Some(_)) => Operation::GetReplicaListByRegex,
                (ScanAction::List, None) => Operation::GetAllKeys,
                (ScanAction::Remove { .. }, Some(_)) => Operation::RemoveByRegex,
                (ScanAction::Remove { .. }, None) => Operation::RemoveAll,
            },
            Request::ClearReplicas { .. } => Operation::BatchReplicaClear,
            Request::CreateTask(task) => match task.kind {
                TaskKind::Copy => Operation::CreateCopyTask,
                TaskKind::Move => Operation::CreateMoveTask,
            },
            Request::QueryTask { .. } => Operation::QueryTask,
            Request::FetchTasks { .. } => Operation::FetchTasks,
            Request::Dropped { .. } | Request::Retract { .. } => Operation::Dropped,
            Request::DrainSegments { .. } => Operation::DrainSegments,
            Request::EndTask { .. } => Operation::UpdateTask,
        }
    }

    /// Its name in metrics.
    pub(crate) fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    pub(crate) fn is_batch(self) -> bool {
        self as usize >= Operation::BatchPutStart as usize
    }
}

/// How many results a reply holds, and how many of them are errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestOutcome {
    pub(crate) items: u64,
    pub(crate) failed: u64,
}

impl RequestOutcome {
    pub(crate) fn of(reply: &Reply) -> RequestOutcome {
        match reply {
            Reply::Pong(_)
            | Reply::Mounted(_)
            | Reply::Drops(_)
            | Reply::Scanned(_)
            | Reply::PrefixLen(_)
            | Reply::TaskCreated(_)
            | Reply::TaskReported(_)
            | Reply::TasksFetched(_)
            | Reply::Draining(_)
            | Reply::Segments(_) => RequestOutcome { items: 1, failed: 0 },
            Reply::Refused(_) => RequestOutcome { items: 1, failed: 1 },
            Reply::Done(result) => RequestOutcome { items: 1, failed: result.is_err().into() },
            Reply::Granted { results, .. } => count(results),
            Reply::Statuses(results) | Reply::Remaining { results, .. } => count(results),
            Reply::Located { results, .. } => count(results),
            Reply::Exist(results) => count(results),
            Reply::Prefetched(results) => count(results),
        }
    }
}

fn count<T, E>(results: &[Result<T, E>]) -> RequestOutcome {
    let failed = results.iter().filter(|result| result.is_err()).count();
    RequestOutcome { items: results.len() as u64, failed: failed as u64 }
}

#[cfg(test)]
mod tests {
    use mooncake_types::{ErrorCode, Scan};

    use super::*;

    #[test]
    fn every_operation_has_its_place_in_the_table() {
        for (index, (operation, name)) in Operation::ALL.iter().enumerate() {
            assert_eq!(*operation as usize, index, "{name}");
            assert_eq!(operation.is_batch(), name.starts_with("batch_"), "{name}");
        }
    }

    #[test]
    fn one_key_and_several_are_told_apart() {
        let scan = |pattern, action| {
            Request::Scan(Scan { tenant: Some("default"), pattern, action, cursor: 0, limit: 1 })
        };
        let cases = [
            (Request::Ping { segments: vec![], unreachable: vec![], reads: None }, Operation::Ping),
            (Request::exist(vec!["a"]), Operation::ExistKey),
            (Request::exist(vec!["a", "b"]), Operation::BatchExistKey),
            (Request::Remove { keys: vec!["a"], force: true }, Operation::Remove),
            (scan(None, ScanAction::List), Operation::GetAllKeys),
            (scan(Some("x"), ScanAction::List), Operation::GetReplicaListByRegex),
            (scan(None, ScanAction::Remove { force: false }), Operation::RemoveAll),
            (scan(Some("x"), ScanAction::Remove { force: true }), Operation::RemoveByRegex),
        ];
        for (request, expected) in cases {
            assert_eq!(Operation::of(&request), expected);
        }
    }

    #[test]
    fn errors_are_counted() {
        let statuses = vec![Ok(()), Err(ErrorCode::ObjectNotFound), Ok(())];
        assert_eq!(
            RequestOutcome::of(&Reply::Statuses(statuses)),
            RequestOutcome { items: 3, failed: 1 }
        );
        assert_eq!(
            RequestOutcome::of(&Reply::Refused(ErrorCode::InvalidParams)),
            RequestOutcome { items: 1, failed: 1 }
        );
        assert_eq!(
            RequestOutcome::of(&Reply::Exist(vec![Ok(false)])),
            RequestOutcome { items: 1, failed: 0 }
        );
    }
}
