use mooncake_ops::{CarryOp, MoveError, Op, RemoveOp, Step, TaskOp};
use mooncake_types::{
    CreateTask, ErrorCode, Placement, Reply, Request, Seal, TaskId, TaskKind, TaskOrder,
    TaskOrders, TaskReport, Tick, limits,
};

use crate::script::{Turn, done, failures, play, remaining, segments, statuses, version};

const OK: Result<(), MoveError> = Ok(());

fn range(replica: u32, segment: u32, offset: u64, len: u64) -> Placement {
    Placement { replica, segment, offset, len, seal: Seal::NONE }
}

fn order() -> TaskOrder {
    TaskOrder {
        id: TaskId(77),
        key: "a".to_owned(),
        version: version(5),
        len: 10,
        grant: version(9),
        source: vec![range(3, 0, 64, 10)],
        targets: vec![range(0, 1, 0, 4), range(0, 1, 32, 6), range(1, 2, 16, 10)],
        attributes: Vec::new(),
    }
}

fn end<'a>(outcome: Result<(), ErrorCode>) -> Turn<'a> {
    let request = Request::EndTask { id: TaskId(77), outcome };
    Turn::Call(0, request, Ok(Reply::Done(Ok(()))))
}

/// The moves of each step: offset of the range, first byte in it, length, offset in the window.
fn steps(order: &TaskOrder, window_bytes: u64) -> Vec<Vec<(u64, u64, u64, u64)>> {
    let mut op = CarryOp::new(order, segments(), window_bytes);
    let mut steps = Vec::new();
    loop {
        match op.next(Tick(0)) {
            Step::Read(fetches) => {
                assert!(fetches.iter().all(|it| it.range.version == version(5)));
                let place = |it: &mooncake_ops::RangeToRead| {
                    (it.range.offset, it.range.from, it.range.len, it.at)
                };
                steps.push(fetches.iter().map(place).collect());
                op.on_transfer(vec![OK; fetches.len()]);
            }
            Step::Write(epoch, deposits) => {
                assert_eq!(epoch, version(9).epoch);
                let under = |it: &mooncake_ops::RangeToWrite<'_>| {
                    (it.range.version, it.range.grant) == (version(5), version(9))
                };
                assert!(deposits.iter().all(under));
                let place = |it: &mooncake_ops::RangeToWrite<'_>| {
                    (it.range.offset, it.range.from, it.range.len, it.at)
                };
                steps.push(deposits.iter().map(place).collect());
                op.on_transfer(vec![OK; deposits.len()]);
            }
            Step::Drop(_) | Step::Wait(_) => panic!("there is nothing to drop"),
            Step::Call(request) => {
                assert_eq!(request, Request::EndTask { id: TaskId(77), outcome: Ok(()) });
                op.on_reply(Ok(Reply::Done(Ok(()))));
            }
            Step::Done => break,
        }
    }
    assert_eq!(op.finish(), Ok(()));
    steps
}

#[test]
fn a_small_object_is_read_once_and_written_whole() {
    let whole = vec![vec![(64, 0, 10, 0)], vec![(0, 0, 4, 0), (32, 0, 6, 4), (16, 0, 10, 0)]];
    assert_eq!(steps(&order(), 10), whole);
    assert_eq!(steps(&order(), 1 << 20), whole);
}

#[test]
fn a_long_object_goes_window_by_window() {
    let expected = vec![
        vec![(64, 0, 6, 0)],
        vec![(0, 0, 4, 0), (32, 0, 2, 4), (16, 0, 6, 0)],
        vec![(64, 6, 4, 0)],
        vec![(32, 2, 4, 0), (16, 6, 4, 0)],
    ];
    assert_eq!(steps(&order(), 6), expected);
    let striped = TaskOrder { source: vec![range(0, 0, 0, 3), range(0, 3, 8, 7)], ..order() };
    assert_eq!(steps(&striped, 6)[0], vec![(0, 0, 3, 0), (8, 0, 3, 3)]);
}

#[test]
fn a_task_that_fails_is_reported_with_its_code() {
    let order = order();
    let read = |result| Turn::Read(0, vec![(0, 0, 64)], vec![result]);
    let write =
        |result| Turn::Write(0, 1, vec![(0, 1, 0), (0, 1, 32), (0, 2, 16)], vec![OK, OK, result]);
    let refused = |code| Err(MoveError::Refused(code));
    for (turns, code) in [
        (vec![read(Err(MoveError::Stale))], ErrorCode::ReplicaIsGone),
        (vec![read(Err(MoveError::Broken))], ErrorCode::TransferFail),
        (vec![read(refused(ErrorCode::IllegalClient))], ErrorCode::IllegalClient),
        (vec![read(OK), write(Err(MoveError::Broken))], ErrorCode::TransferFail),
        (vec![read(OK), write(Err(MoveError::Stale))], ErrorCode::TransferFail),
        (vec![read(OK), write(refused(ErrorCode::InvalidVersion))], ErrorCode::InvalidVersion),
        (vec![read(OK), write(refused(ErrorCode::Ok))], ErrorCode::TransferFail),
    ] {
        let turns = turns.into_iter().chain([end(Err(code))]).collect();
        assert_eq!(play(CarryOp::new(&order, segments(), 64), turns), Err(code));
    }
}

#[test]
fn an_order_that_makes_no_sense_is_reported_and_moves_nothing() {
    for senseless in [
        TaskOrder { source: vec![], ..order() },
        TaskOrder { source: vec![range(0, 0, 0, 9)], ..order() },
        TaskOrder { source: vec![range(0, 0, 0, 10), range(1, 1, 0, 10)], ..order() },
        TaskOrder { source: vec![range(0, 9, 0, 10)], ..order() },
        TaskOrder { targets: vec![], ..order() },
        TaskOrder { targets: vec![range(0, 1, 0, 11)], ..order() },
        TaskOrder { len: 0, ..order() },
    ] {
        let turns = vec![end(Err(ErrorCode::InternalError))];
        let carried = play(CarryOp::new(&senseless, segments(), 64), turns);
        assert_eq!(carried, Err(ErrorCode::InternalError), "{senseless:?}");
    }
}

#[test]
fn a_task_that_is_cancelled_is_reported_and_what_the_master_says_counts() {
    let order = order();
    let mut op = CarryOp::new(&order, segments(), 64);
    assert!(matches!(op.next(Tick(0)), Step::Read(_)));
    op.on_transfer(vec![OK]);
    op.cancel();
    let left = ErrorCode::UnavailableInCurrentStatus;
    let report = Request::EndTask { id: TaskId(77), outcome: Err(left) };
    assert_eq!(op.next(Tick(0)), Step::Call(report));
    op.on_reply(Ok(Reply::Done(Ok(()))));
    op.cancel();
    assert_eq!(op.next(Tick(0)), Step::Done);
    assert_eq!(op.finish(), Err(left));

    let moved = || {
        let places = vec![(0, 1, 0), (0, 1, 32), (0, 2, 16)];
        vec![Turn::Read(0, vec![(0, 0, 64)], vec![OK]), Turn::Write(0, 1, places, vec![OK; 3])]
    };
    let report = || Request::EndTask { id: TaskId(77), outcome: Ok(()) };
    let told = |reply| {
        let turns = moved().into_iter().chain([Turn::Call(0, report(), reply)]).collect();
        play(CarryOp::new(&order, segments(), 64), turns)
    };
    let gone = Err(ErrorCode::ReplicaIsGone);
    assert_eq!(told(Ok(Reply::Done(gone))), gone);
    assert_eq!(told(Ok(Reply::Statuses(vec![]))), Err(ErrorCode::InternalError));
    for (error, code) in failures() {
        assert_eq!(told(Err(error)), Err(code));
    }
}

#[test]
fn a_move_whose_source_was_dropped_has_succeeded_although_it_is_cancelled() {
    let order = order();
    let report = || Step::Call(Request::EndTask { id: TaskId(77), outcome: Ok(()) });
    let mut op = CarryOp::new(&order, segments(), 64);
    assert!(matches!(op.next(Tick(0)), Step::Read(_)));
    op.on_transfer(vec![OK]);
    assert!(matches!(op.next(Tick(0)), Step::Write(..)));
    op.on_transfer(vec![OK; 3]);
    assert_eq!(op.next(Tick(0)), report());
    op.on_reply(remaining(vec![], &[(0, 64, 5)], 0));
    op.cancel();
    assert!(matches!(op.next(Tick(0)), Step::Drop(_)));
    op.on_transfer(vec![OK]);
    op.cancel();
    assert_eq!(op.next(Tick(0)), report());
    op.on_reply(done());
    assert_eq!(op.finish(), Ok(()));
}

fn create<'a>(kind: TaskKind, source: &'a str, targets: &[&'a str]) -> Request<'a> {
    Request::CreateTask(CreateTask { key: "a", kind, source, targets: targets.to_vec() })
}

#[test]
fn tasks_are_created_asked_after_and_fetched() {
    let id = TaskId(77);
    let created = || Ok(Reply::TaskCreated(id));
    let copy = create(TaskKind::Copy, "", &["x", "y"]);
    let turns = vec![Turn::Call(0, copy, created())];
    assert_eq!(play(TaskOp::copy("a", &["x", "y"]), turns), Ok(id));
    let turns = vec![Turn::Call(0, create(TaskKind::Move, "x", &["y"]), created())];
    assert_eq!(play(TaskOp::relocate("a", "x", "y"), turns), Ok(id));
    let report = TaskReport { id, ..TaskReport::default() };
    let reported = Ok(Reply::TaskReported(report.clone()));
    let turns = vec![Turn::Call(0, Request::QueryTask { id }, reported)];
    assert_eq!(play(TaskOp::query(id), turns), Ok(report));
    let fetched = Ok(Reply::TasksFetched(TaskOrders::default()));
    let turns = vec![Turn::Call(0, Request::FetchTasks { limit: 3, wait_ms: 9 }, fetched)];
    assert_eq!(play(TaskOp::fetch(3, 9), turns), Ok(TaskOrders::default()));
}

#[test]
fn tasks_that_make_no_sense_are_not_asked_for() {
    let long = "n".repeat(limits::MAX_NAME_BYTES + 1);
    let many = vec!["n"; limits::MAX_REPLICAS as usize + 1];
    for (op, code) in [
        (TaskOp::copy("", &["x"]), ErrorCode::InvalidKey),
        (TaskOp::copy("a", &[]), ErrorCode::InvalidParams),
        (TaskOp::copy("a", &["x", ""]), ErrorCode::InvalidParams),
        (TaskOp::copy("a", &[&long]), ErrorCode::InvalidParams),
        (TaskOp::copy("a", &many), ErrorCode::InvalidParams),
        (TaskOp::relocate("a", "", "x"), ErrorCode::InvalidParams),
        (TaskOp::relocate("a", &long, "x"), ErrorCode::InvalidParams),
        (TaskOp::relocate("a", "x", ""), ErrorCode::InvalidParams),
    ] {
        assert_eq!(play(op, vec![]), Err(code));
    }
}

#[test]
fn answers_about_tasks_that_are_none_are_errors() {
    let id = TaskId(77);
    let query = || Request::QueryTask { id };
    for (reply, code) in [
        (Ok(Reply::Refused(ErrorCode::TaskNotFound)), ErrorCode::TaskNotFound),
        (Ok(Reply::Done(Ok(()))), ErrorCode::InternalError),
    ]
    .into_iter()
    .chain(failures().map(|(error, code)| (Err(error), code)))
    {
        let turns = vec![Turn::Call(0, query(), reply)];
        assert_eq!(play(TaskOp::query(id), turns), Err(code));
    }
}

#[test]
fn replicas_are_cleared_by_key_and_segment() {
    let keys = ["a", "", "b"];
    let request = Request::ClearReplicas { keys: vec!["a", "b"], segment: "x" };
    let leased = Err(ErrorCode::ObjectHasLease);
    let turns = vec![Turn::Call(0, request, statuses(vec![Ok(()), leased]))];
    let expected = vec![Ok(()), Err(ErrorCode::InvalidKey), leased];
    assert_eq!(play(RemoveOp::replicas(&keys, "x"), turns), expected);
}
