//! Puts that wait while the master makes room.

use mooncake_ops::{Deadline, Op, PrefetchOp, PutOp, StartOp, Step};
use mooncake_types::{
    ErrorCode, Grant, Prefetch, PutEnd, PutItem, PutStart, ReplicateConfig, Reply, Request, Tick,
};

use crate::script::{Turn, grant, granted, play, statuses, version};

const MAKING_ROOM: Result<Grant, ErrorCode> = Err(ErrorCode::UnavailableInCurrentStatus);
const FULL: Result<(), ErrorCode> = Err(ErrorCode::NoAvailableHandle);

fn items<'a>(keys: &[&'a str]) -> Vec<PutItem<'a>> {
    keys.iter().map(|key| PutItem::new(key, 10)).collect()
}

fn start<'a>(keys: &[&'a str]) -> Request<'a> {
    Request::PutStart(PutStart { puts: items(keys), ..PutStart::default() })
}

fn end(key: &str, counter: u64) -> Request<'_> {
    let version = version(counter);
    let put = PutEnd { key, version, failed_replicas: 0, held_replicas: 0 };
    Request::PutEnd { puts: vec![put] }
}

fn put<'a>(items: &'a [PutItem<'a>]) -> PutOp<'a> {
    PutOp::new(items, &ReplicateConfig::default())
}

#[test]
fn a_put_asks_again_until_there_is_room() {
    let turns = vec![
        Turn::Call(0, start(&["a"]), granted(vec![MAKING_ROOM])),
        Turn::Wait(0, 1),
        Turn::Call(1, start(&["a"]), granted(vec![MAKING_ROOM])),
        Turn::Wait(1, 3),
        Turn::Call(3, start(&["a"]), granted(vec![MAKING_ROOM])),
        Turn::Wait(3, 7),
        Turn::Call(7, start(&["a"]), granted(vec![grant(5, &[(0, 1, 0, 10)])])),
        Turn::Write(7, 1, vec![(0, 1, 0)], vec![Ok(())]),
        Turn::Call(8, end("a", 5), statuses(vec![Ok(())])),
    ];
    assert_eq!(play(put(&items(&["a"])), turns), [Ok(())]);
}

/// A granted put reserves memory that no other object can use until it is complete.
#[test]
fn what_was_granted_is_written_before_the_rest_is_waited_for() {
    let turns = vec![
        Turn::Call(
            0,
            start(&["a", "b", "c"]),
            granted(vec![MAKING_ROOM, grant(5, &[(0, 1, 0, 10)]), FULL.map(|()| Grant::default())]),
        ),
        Turn::Write(0, 1, vec![(1, 1, 0)], vec![Ok(())]),
        Turn::Call(1, end("b", 5), statuses(vec![Ok(())])),
        Turn::Wait(1, 2),
        Turn::Call(2, start(&["a"]), granted(vec![grant(6, &[(0, 1, 16, 10)])])),
        Turn::Write(2, 1, vec![(0, 1, 16)], vec![Ok(())]),
        Turn::Call(3, end("a", 6), statuses(vec![Ok(())])),
    ];
    assert_eq!(play(put(&items(&["a", "b", "c"])), turns), [Ok(()), Ok(()), FULL]);
}

/// Runs an operation whose master always answers that it makes room. Returns its result and when it ended.
fn wait_in_vain<'a, O: Op<'a>>(mut op: O) -> (O::Output, u64) {
    let (mut now, mut deadline) = (Tick(0), Deadline::of_ms(500));
    loop {
        match deadline.next(&mut op, now) {
            Step::Call(Request::PutStart(start)) => {
                op.on_reply(granted(vec![MAKING_ROOM; start.puts.len()]));
            }
            Step::Wait(until) => {
                assert!(until.since_ms(now) <= 16, "pauses are short");
                now = until;
            }
            Step::Done => return (op.finish(), now.0),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_put_that_waits_until_its_deadline_found_no_room() {
    let items = items(&["a", "b"]);
    let (results, ended) = wait_in_vain(put(&items));
    assert_eq!(results, [FULL, FULL]);
    assert!((500..516).contains(&ended), "{ended}");
    let (results, _) = wait_in_vain(StartOp::new(&items, &ReplicateConfig::default(), 1_000));
    assert!(results.into_iter().all(|result| result.map(|_| ()) == FULL));
}

/// Memory that was just read is leased. The caller would rather wait for the leases than be refused.
#[test]
fn a_put_into_a_pool_that_is_full_of_leases_waits_if_its_caller_wants_that() {
    let full = || granted(vec![Err(ErrorCode::NoAvailableHandle)]);
    let turns = vec![
        Turn::Call(0, start(&["a"]), full()),
        Turn::Wait(0, 10),
        Turn::Call(10, start(&["a"]), full()),
        Turn::Wait(10, 30),
        Turn::Call(30, start(&["a"]), granted(vec![MAKING_ROOM])),
        Turn::Wait(30, 34),
        Turn::Call(34, start(&["a"]), granted(vec![grant(5, &[(0, 1, 0, 10)])])),
        Turn::Write(34, 1, vec![(0, 1, 0)], vec![Ok(())]),
        Turn::Call(35, end("a", 5), statuses(vec![Ok(())])),
    ];
    assert_eq!(play(put(&items(&["a"])).patient(1_000), turns), [Ok(())]);
    let turns = vec![
        Turn::Call(0, start(&["a"]), full()),
        Turn::Wait(0, 10),
        Turn::Call(10, start(&["a"]), full()),
        Turn::Wait(10, 30),
        Turn::Call(30, start(&["a"]), full()),
    ];
    assert_eq!(play(put(&items(&["a"])).patient(30), turns), [FULL], "its patience is over");
    let turns = vec![Turn::Call(0, start(&["a"]), full())];
    assert_eq!(play(put(&items(&["a"])), turns), [FULL]);
    let items = items(&["a"]);
    let session = StartOp::new(&items, &ReplicateConfig::default(), 1_000).patient(1_000);
    let turns = vec![
        Turn::Call(0, start(&["a"]), full()),
        Turn::Wait(0, 10),
        Turn::Call(10, start(&["a"]), granted(vec![grant(5, &[(0, 1, 0, 10)])])),
    ];
    assert!(play(session, turns)[0].is_ok());
}

#[test]
fn a_put_in_parts_waits_for_room_too() {
    let turns = vec![
        Turn::Call(0, start(&["a"]), granted(vec![MAKING_ROOM])),
        Turn::Wait(0, 1),
        Turn::Call(1, start(&["a"]), granted(vec![grant(5, &[(0, 1, 0, 10)])])),
    ];
    let items = items(&["a"]);
    let results = play(StartOp::new(&items, &ReplicateConfig::default(), 1_000), turns);
    assert!(results[0].is_ok());
}

#[test]
fn a_prefetch_says_what_it_came_to() {
    let answers = [Ok(Prefetch::InMemory), Ok(Prefetch::UnderWay), Err(ErrorCode::ObjectNotFound)];
    let keys = ["a", "b", "c"];
    let ask = Request::Prefetch { keys: keys.to_vec() };
    let turns = vec![Turn::Call(0, ask, Ok(Reply::Prefetched(answers.to_vec())))];
    assert_eq!(play(PrefetchOp::new(&keys), turns), answers);
}
