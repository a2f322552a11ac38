//! Upserts, groups, cleared replicas, copies and moves, over real sockets.

use mooncake_types::{
    ClientId, CreateTask, ErrorCode, Grant, PutEnd, PutItem, PutMode, PutStart, ReplicateConfig,
    Reply, Request, SegmentId, TaskId, TaskKind, TaskReport, TaskStatus, Version,
};

use crate::support::{Rpc, get, start};

fn begin(rpc: &mut Rpc, put: PutItem<'_>, mode: PutMode) -> Result<Grant, ErrorCode> {
    let config =
        ReplicateConfig { preferred_segments: vec!["node-a"], ..ReplicateConfig::default() };
    let request = Request::PutStart(PutStart { puts: vec![put], config, mode });
    match rpc.ask(&request) {
        Reply::Granted { mut results, .. } => results.remove(0),
        reply => panic!("{reply:?}"),
    }
}

fn end(rpc: &mut Rpc, key: &str, version: Version) -> Vec<Result<(), ErrorCode>> {
    let put = PutEnd { key, version, failed_replicas: 0, held_replicas: 0 };
    match rpc.ask(&Request::PutEnd { puts: vec![put] }) {
        // These tests ignore older versions that nodes may still hold.
        Reply::Statuses(results) | Reply::Remaining { results, .. } => results,
        reply => panic!("{reply:?}"),
    }
}

fn put(rpc: &mut Rpc, put: PutItem<'_>, mode: PutMode) -> Version {
    let version = begin(rpc, put, mode).expect("there is room").version;
    assert_eq!(end(rpc, put.key, version), [Ok(())]);
    version
}

fn report(rpc: &mut Rpc, id: TaskId) -> TaskReport {
    match rpc.ask(&Request::QueryTask { id }) {
        Reply::TaskReported(report) => report,
        reply => panic!("{reply:?}"),
    }
}

#[test]
fn an_upsert_takes_the_place_of_what_can_be_read() {
    let master = start();
    let mut rpc = master.connect(1);
    rpc.mount(5, "node-a", 1 << 20);
    let old = put(&mut rpc, PutItem::new("k", 100), PutMode::Insert);
    let taken = begin(&mut rpc, PutItem::new("k", 100), PutMode::Insert);
    assert_eq!(taken, Err(ErrorCode::ObjectAlreadyExists));
    let new = put(&mut rpc, PutItem::new("k", 200), PutMode::Upsert);
    assert!(new > old);
    let reply = rpc.ask(&Request::GetReplicaList { keys: vec!["k"] });
    let Reply::Located { results, .. } = reply else { panic!("{reply:?}") };
    let found = results[0].as_ref().map(|located| (located.version, located.len));
    assert_eq!(found, Ok((new, 200)));
}

#[test]
fn a_group_is_leased_together_and_replicas_are_cleared_by_their_writer() {
    let master = start();
    let mut rpc = master.connect(1);
    rpc.mount(5, "node-a", 1 << 20);
    for key in ["a", "b"] {
        put(&mut rpc, PutItem { group: "g", ..PutItem::new(key, 100) }, PutMode::Insert);
    }
    let other = begin(&mut rpc, PutItem { group: "h", ..PutItem::new("a", 100) }, PutMode::Upsert);
    assert_eq!(other, Err(ErrorCode::InvalidParams));
    rpc.ask(&Request::exist(vec!["a"]));
    let remove = Request::Remove { keys: vec!["b"], force: false };
    assert_eq!(rpc.ask(&remove), Reply::Statuses(vec![Err(ErrorCode::ObjectHasLease)]));
    let clear = Request::ClearReplicas { keys: vec!["a", "missing"], segment: "node-a" };
    let refused = vec![Err(ErrorCode::ObjectHasLease), Err(ErrorCode::ObjectNotFound)];
    assert_eq!(rpc.ask(&clear), Reply::Statuses(refused));
    let refused = vec![Err(ErrorCode::IllegalClient), Err(ErrorCode::ObjectNotFound)];
    assert_eq!(master.connect(2).ask(&clear), Reply::Statuses(refused));
}

#[test]
fn a_move_is_handed_to_the_host_of_its_replica() {
    let master = start();
    let host_id = ClientId(0x1234_5678_9abc << 80);
    let mut host = master.connect(host_id.0);
    host.mount(5, "node-a", 1 << 20);
    let mut other = master.connect(2);
    other.mount(6, "node-b", 1 << 20);
    let version = put(&mut host, PutItem::new("k", 100), PutMode::Insert);
    let wanted = |target| {
        let task =
            CreateTask { key: "k", kind: TaskKind::Move, source: "node-a", targets: vec![target] };
        Request::CreateTask(task)
    };
    assert_eq!(other.ask(&wanted("nobody")), Reply::Refused(ErrorCode::InvalidParams));
    let reply = other.ask(&wanted("node-b"));
    let Reply::TaskCreated(id) = reply else { panic!("{reply:?}") };
    assert_eq!(report(&mut other, id).status, TaskStatus::Pending);
    for (rpc, expected) in [(&mut host, true), (&mut other, false)] {
        let reply = rpc.ask(&Request::Ping { segments: vec![], unreachable: vec![], reads: None });
        let Reply::Pong(pong) = reply else { panic!("{reply:?}") };
        assert_eq!(pong.has_tasks, expected);
    }
    let reply = host.ask(&Request::FetchTasks { limit: 8, wait_ms: 0 });
    let Reply::TasksFetched(fetched) = reply else { panic!("{reply:?}") };
    let order = &fetched.orders[0];
    assert_eq!((order.id, &*order.key, order.version, order.len), (id, "k", version, 100));
    let target = order.targets[0].segment as usize;
    assert_eq!(fetched.segments[target].id, SegmentId(6));
    assert_eq!(host.ask(&Request::EndTask { id, outcome: Ok(()) }), Reply::Done(Ok(())));
    let ended = report(&mut other, id);
    let expected = TaskReport {
        id,
        kind: TaskKind::Move,
        status: TaskStatus::Success,
        assigned: ClientId(0x1234_5678 << 96),
        created_ms_ago: ended.created_ms_ago,
        updated_ms_ago: ended.updated_ms_ago,
        message: String::new(),
    };
    assert_eq!(ended, expected);
    let reply = other.ask(&Request::GetReplicaList { keys: vec!["k"] });
    let Reply::Located { segments, .. } = reply else { panic!("{reply:?}") };
    assert_eq!(segments.iter().map(|segment| segment.id).collect::<Vec<_>>(), [SegmentId(6)]);
    let missing = other.ask(&Request::QueryTask { id: TaskId(1) });
    assert_eq!(missing, Reply::Refused(ErrorCode::TaskNotFound));
    let metrics = get(master.admin, "/metrics").body;
    for line in [
        "master_create_move_task_requests_total 2",
        "master_create_move_task_failures_total 1",
        "master_fetch_tasks_requests_total 1",
        "master_update_task_requests_total 1",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} is not in\n{metrics}");
    }
}
