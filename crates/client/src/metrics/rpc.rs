use mooncake_types::{PutMode, Request, ScanAction, TaskKind};

macro_rules! rpcs {
    ($($kind:ident,)*) => {
        /// A kind of request, as the C++ package names it. Requests for one key and for several are different kinds.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Rpc {
            $($kind,)*
        }

        impl Rpc {
            pub(super) const COUNT: usize = Self::ALL.len();

            /// Every kind with its name, in the order of the variants.
            pub(super) const ALL: &'static [(Self, &'static str)] =
                &[$((Self::$kind, stringify!($kind)),)*];
        }
    };
}

rpcs! {
    Ping,
    Leave,
    MountSegment,
    ReportInventory,
    ReportChanges,
    FetchDrops,
    UnmountSegment,
    GracefulUnmountSegment,
    PutStart,
    BatchPutStart,
    UpsertStart,
    BatchUpsertStart,
    PutEnd,
    BatchPutEnd,
    PutRevoke,
    BatchPutRevoke,
    GetReplicaList,
    BatchGetReplicaList,
    GetReplicaListByRegex,
    GetAllKeys,
    ExistKey,
    BatchExistKey,
    PrefixLen,
    Prefetch,
    Dropped,
    Remove,
    BatchRemove,
    RemoveByRegex,
    RemoveAll,
    BatchReplicaClear,
    CreateCopyTask,
    CreateMoveTask,
    QueryTask,
    FetchTasks,
    DrainSegments,
    ListSegments,
    MarkTaskToComplete,
}

impl Rpc {
    /// The kind of a request. Each page of a scan counts as one request.
    pub(super) fn of(request: &Request<'_>) -> Self {
        let either =
            |count: usize, one: Self, several: Self| if count == 1 { one } else { several };
        match request {
            Request::Ping { .. } => Self::Ping,
            Request::Leave { .. } => Self::Leave,
            Request::MountSegment(_) => Self::MountSegment,
            Request::ReportInventory(_) => Self::ReportInventory,
            Request::ReportChanges(_) => Self::ReportChanges,
            Request::FetchDrops { .. } | Request::ReportLosses { .. } => Self::FetchDrops,
            Request::UnmountSegment { grace_ms: 0, .. } => Self::UnmountSegment,
            Request::UnmountSegment { .. } => Self::GracefulUnmountSegment,
            Request::PutStart(start) => match start.mode {
                PutMode::Insert => either(start.puts.len(), Self::PutStart, Self::BatchPutStart),
                PutMode::Upsert => {
                    either(start.puts.len(), Self::UpsertStart, Self::BatchUpsertStart)
                }
            },
            Request::PutEnd { puts } => either(puts.len(), Self::PutEnd, Self::BatchPutEnd),
            Request::PutRevoke { puts } => {
                either(puts.len(), Self::PutRevoke, Self::BatchPutRevoke)
            }
            Request::GetReplicaList { keys } | Request::RenewRoutes { keys, .. } => {
                either(keys.len(), Self::GetReplicaList, Self::BatchGetReplicaList)
            }
            Request::ExistKey { keys, .. } => {
                either(keys.len(), Self::ExistKey, Self::BatchExistKey)
            }
            Request::PrefixLen { .. } => Self::PrefixLen,
            Request::Prefetch { .. } => Self::Prefetch,
            Request::Dropped { .. } | Request::Retract { .. } => Self::Dropped,
            Request::Remove { keys, .. } => either(keys.len(), Self::Remove, Self::BatchRemove),
            Request::Scan(scan) => match (scan.action, scan.pattern) {
                (ScanAction::List, Some(_)) => Self::GetReplicaListByRegex,
                (ScanAction::List, None) => Self::GetAllKeys,
                (ScanAction::Remove { .. }, Some(_)) => Self::RemoveByRegex,
                (ScanAction::Remove { .. }, None) => Self::RemoveAll,
            },
            Request::ClearReplicas { .. } => Self::BatchReplicaClear,
            Request::CreateTask(task) => match task.kind {
                TaskKind::Copy => Self::CreateCopyTask,
                TaskKind::Move => Self::CreateMoveTask,
            },
            Request::QueryTask { .. } => Self::QueryTask,
            Request::FetchTasks { .. } => Self::FetchTasks,
            Request::DrainSegments { .. } => Self::DrainSegments,
            Request::ListSegments { .. } => Self::ListSegments,
            Request::EndTask { .. } => Self::MarkTaskToComplete,
        }
    }
}

#[cfg(test)]
mod tests {
    use mooncake_types::{PutItem, PutStart, Scan, SegmentId};

    use super::*;

    #[test]
    fn one_key_and_several_are_told_apart() {
        let scan = |pattern, action| {
            Request::Scan(Scan { tenant: Some("default"), pattern, action, cursor: 0, limit: 1 })
        };
        let start = |count, mode| {
            let puts = vec![PutItem::new("k", 1); count];
            Request::PutStart(PutStart { puts, mode, ..PutStart::default() })
        };
        let cases = [
            (
                Request::UnmountSegment { id: SegmentId(1), grace_ms: 0, failure: "" },
                Rpc::UnmountSegment,
            ),
            (
                Request::UnmountSegment { id: SegmentId(1), grace_ms: 1, failure: "" },
                Rpc::GracefulUnmountSegment,
            ),
            (start(1, PutMode::Insert), Rpc::PutStart),
            (start(2, PutMode::Insert), Rpc::BatchPutStart),
            (start(1, PutMode::Upsert), Rpc::UpsertStart),
            (start(2, PutMode::Upsert), Rpc::BatchUpsertStart),
            (Request::exist(vec!["a"]), Rpc::ExistKey),
            (Request::exist(vec!["a", "b"]), Rpc::BatchExistKey),
            (Request::Remove { keys: vec!["a"], force: true }, Rpc::Remove),
            (scan(None, ScanAction::List), Rpc::GetAllKeys),
            (scan(Some("x"), ScanAction::List), Rpc::GetReplicaListByRegex),
            (scan(None, ScanAction::Remove { force: false }), Rpc::RemoveAll),
            (scan(Some("x"), ScanAction::Remove { force: true }), Rpc::RemoveByRegex),
        ];
        for (request, expected) in cases {
            assert_eq!(Rpc::of(&request), expected, "{request:?}");
        }
    }
}
