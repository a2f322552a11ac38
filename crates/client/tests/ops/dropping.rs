//! What went is dropped by its nodes before anybody is told that it went.

use mooncake_client::ReplicateConfig;
use mooncake_client::ops::{
    CallError, ClearOp, CloseOp, Closed, Closing, MoveError, PutOp, RemoveOp, RemoveScanOp,
};
use mooncake_types::{
    ErrorCode, PutEnd, PutItem, PutStart, Remains, Reply, Request, Scan, ScanAction, ScanPage,
    limits,
};

use crate::script::{
    Turn, done, dropped, failures, grant, granted, play, remaining, statuses, version,
};

const OK: Result<(), MoveError> = Ok(());
const BROKEN: Result<(), MoveError> = Err(MoveError::Broken);
const NOT_FOUND: Result<(), ErrorCode> = Err(ErrorCode::ObjectNotFound);

fn remove<'a>(keys: &[&'a str]) -> Request<'a> {
    Request::Remove { keys: keys.to_vec(), force: false }
}

#[test]
fn a_removal_is_over_when_the_nodes_have_confirmed_it() {
    let turns = vec![
        Turn::Call(0, remove(&["a"]), remaining(vec![Ok(())], &[(1, 64, 5), (2, 0, 5)], 0)),
        Turn::Drop(0, vec![(1, 64, 5), (2, 0, 5)], vec![OK, OK]),
    ];
    assert_eq!(play(RemoveOp::new(&["a"], false), turns), vec![Ok(())]);
}

#[test]
fn what_was_leased_is_free_as_soon_as_the_master_is_told() {
    let told = dropped(&[(1, 64, 5), (2, 0, 5)]);
    for answer in [done(), Err(CallError::TimedOut { after_ms: 1 })] {
        let named = remaining(vec![Ok(())], &[(1, 64, 5), (2, 0, 5)], 5_000);
        let turns = vec![
            Turn::Call(0, remove(&["a"]), named),
            Turn::Drop(0, vec![(1, 64, 5), (2, 0, 5)], vec![OK, OK]),
            Turn::Call(0, told.clone(), answer),
        ];
        assert_eq!(play(RemoveOp::new(&["a"], false), turns), vec![Ok(())]);
    }
}

/// Neither a lease that is over nor a port where nobody listens is a proof: the node may come back.
#[test]
fn a_node_that_does_not_confirm_is_asked_until_the_master_names_it_no_more() {
    let named = |results| remaining(results, &[(1, 64, 5), (2, 0, 6)], 50);
    let turns = vec![
        Turn::Call(0, remove(&["a", "b"]), named(vec![Ok(()), NOT_FOUND])),
        Turn::Drop(0, vec![(1, 64, 5), (2, 0, 6)], vec![OK, BROKEN]),
        Turn::Call(0, dropped(&[(1, 64, 5)]), done()),
        Turn::Wait(10, 110),
        // Only what went is asked for again; that it is not there any more is no news.
        Turn::Call(110, remove(&["a"]), remaining(vec![NOT_FOUND], &[(2, 0, 6)], 0)),
        Turn::Drop(120, vec![(2, 0, 6)], vec![BROKEN]),
        Turn::Wait(130, 230),
        Turn::Call(230, remove(&["a"]), statuses(vec![NOT_FOUND])),
    ];
    assert_eq!(play(RemoveOp::new(&["a", "b"], false), turns), vec![Ok(()), NOT_FOUND]);
}

#[test]
fn a_removal_that_is_not_confirmed_in_time_is_an_error() {
    let named = || remaining(vec![Ok(())], &[(1, 64, 5)], 0);
    let turns = vec![
        Turn::Call(0, remove(&["a"]), named()),
        Turn::Drop(0, vec![(1, 64, 5)], vec![BROKEN]),
        Turn::Wait(0, 100),
        Turn::Call(100, remove(&["a"]), named()),
        Turn::Drop(30_000, vec![(1, 64, 5)], vec![BROKEN]),
    ];
    let late = Err(ErrorCode::RpcTimeout);
    assert_eq!(play(RemoveOp::new(&["a"], false), turns), vec![late]);
}

#[test]
fn a_removal_whose_master_is_lost_in_between_is_an_error() {
    for (error, code) in failures() {
        let turns = vec![
            Turn::Call(0, remove(&["a"]), remaining(vec![Ok(())], &[(1, 64, 5)], 0)),
            Turn::Drop(0, vec![(1, 64, 5)], vec![BROKEN]),
            Turn::Wait(0, 100),
            Turn::Call(100, remove(&["a"]), Err(error)),
        ];
        assert_eq!(play(RemoveOp::new(&["a"], false), turns), vec![Err(code)]);
    }
}

/// The new one found it again at the node that did not confirm.
#[test]
fn a_removal_that_another_leader_refuses_is_no_removal() {
    let turns = vec![
        Turn::Call(0, remove(&["a", "b"]), remaining(vec![Ok(()); 2], &[(1, 64, 5)], 0)),
        Turn::Drop(0, vec![(1, 64, 5)], vec![BROKEN]),
        Turn::Wait(0, 100),
        Turn::Call(
            100,
            remove(&["a", "b"]),
            statuses(vec![Err(ErrorCode::ObjectHasLease), NOT_FOUND]),
        ),
    ];
    let expected = vec![Err(ErrorCode::ObjectHasLease), Ok(())];
    assert_eq!(play(RemoveOp::new(&["a", "b"], false), turns), expected);
}

#[test]
fn each_batch_has_its_own_time() {
    let names: Vec<String> = (0..limits::MAX_BATCH_KEYS + 1).map(|it| it.to_string()).collect();
    let keys: Vec<&str> = names.iter().map(String::as_str).collect();
    let (first, second) = keys.split_at(limits::MAX_BATCH_KEYS);
    let named = |count| remaining(vec![Ok(()); count], &[(1, 64, 5)], 0);
    let turns = vec![
        Turn::Call(0, remove(first), named(first.len())),
        Turn::Drop(29_000, vec![(1, 64, 5)], vec![OK]),
        Turn::Call(29_000, remove(second), named(1)),
        Turn::Drop(29_000, vec![(1, 64, 5)], vec![BROKEN]),
        Turn::Wait(31_000, 31_100),
        Turn::Call(31_100, remove(second), statuses(vec![NOT_FOUND])),
    ];
    assert_eq!(play(RemoveOp::new(&keys, false), turns), vec![Ok(()); keys.len()]);
}

#[test]
fn replicas_that_are_cleared_are_dropped_too() {
    let clear = || Request::ClearReplicas { keys: vec!["a"], segment: "s" };
    let turns = vec![
        Turn::Call(0, clear(), remaining(vec![Ok(())], &[(1, 64, 5)], 0)),
        Turn::Drop(0, vec![(1, 64, 5)], vec![BROKEN]),
        Turn::Wait(0, 100),
        Turn::Call(100, clear(), statuses(vec![Err(ErrorCode::ReplicaNotFound)])),
    ];
    assert_eq!(play(ClearOp::new(&["a"], "s"), turns), vec![Ok(())]);
}

/// A page is not asked for again: only its nodes can say that it is over.
#[test]
fn a_page_of_a_scan_is_over_when_its_nodes_have_confirmed_it() {
    let scan = |cursor| {
        let action = ScanAction::Remove { force: true };
        Request::Scan(Scan { pattern: None, action, cursor, limit: limits::MAX_SCAN_OBJECTS })
    };
    let page = |next_cursor: Option<u64>| {
        let Ok(Reply::Remaining { remains, .. }) = remaining(vec![], &[(1, 64, 5)], 0) else {
            unreachable!()
        };
        let remains = Box::new(if next_cursor.is_some() { remains } else { Remains::default() });
        Ok(Reply::Scanned(ScanPage { next_cursor, removed: 1, remains, ..ScanPage::default() }))
    };
    let begin = || Turn::Call(0, scan(0), page(Some(7)));
    let turns = vec![
        begin(),
        Turn::Drop(0, vec![(1, 64, 5)], vec![BROKEN]),
        Turn::Wait(0, 100),
        Turn::Drop(100, vec![(1, 64, 5)], vec![OK]),
        Turn::Call(100, scan(7), page(None)),
    ];
    assert_eq!(play(RemoveScanOp::new(None, true), turns), Ok(2));
    let turns = vec![begin(), Turn::Drop(30_000, vec![(1, 64, 5)], vec![BROKEN])];
    assert_eq!(play(RemoveScanOp::new(None, true), turns), Err(ErrorCode::RpcTimeout));
}

fn start<'a>(items: &[PutItem<'a>]) -> Request<'a> {
    Request::PutStart(PutStart { puts: items.to_vec(), ..PutStart::default() })
}

fn end<'a>(keys: &[(&'a str, u64)]) -> Request<'a> {
    let put = |&(key, counter)| PutEnd { key, version: version(counter), failed_replicas: 0 };
    Request::PutEnd { puts: keys.iter().map(put).collect() }
}

/// What becomes of two puts that were written, as versions 5 and 6.
fn ended(items: &[PutItem<'_>], rest: Vec<Turn<'static>>) -> Vec<Result<(), ErrorCode>> {
    let grants = vec![grant(5, &[(0, 0, 0, 10)]), grant(6, &[(0, 1, 0, 10)])];
    let mut turns = vec![
        Turn::Call(0, start(items), granted(grants)),
        Turn::Write(0, 1, vec![(0, 0, 0), (1, 1, 0)], vec![OK, OK]),
    ];
    turns.extend(rest);
    play(PutOp::new(items, &ReplicateConfig::default()), turns)
}

#[test]
fn a_put_ends_again_until_nothing_is_left_of_what_it_took_the_place_of() {
    let items = [PutItem::new("a", 10), PutItem::new("b", 10)];
    let rest = vec![
        Turn::Call(0, end(&[("a", 5), ("b", 6)]), remaining(vec![Ok(()); 2], &[(3, 8, 2)], 0)),
        Turn::Drop(0, vec![(3, 8, 2)], vec![BROKEN]),
        Turn::Wait(0, 100),
        Turn::Call(100, end(&[("a", 5), ("b", 6)]), remaining(vec![Ok(()); 2], &[(3, 8, 2)], 0)),
        Turn::Drop(100, vec![(3, 8, 2)], vec![BROKEN]),
        Turn::Wait(100, 200),
        // One of them has gone since, or the master is another and does not know it.
        Turn::Call(200, end(&[("a", 5), ("b", 6)]), statuses(vec![Ok(()), NOT_FOUND])),
    ];
    assert_eq!(ended(&items, rest), vec![Ok(()), NOT_FOUND]);
}

/// The objects are there, and nobody may take them away again: others may have read them.
#[test]
fn a_put_whose_predecessor_cannot_be_dropped_is_an_error_and_stays() {
    let items = [PutItem::new("a", 10), PutItem::new("b", 10)];
    let both = || end(&[("a", 5), ("b", 6)]);
    let named = || remaining(vec![Ok(()); 2], &[(3, 8, 2)], 0);
    let begin = || {
        vec![
            Turn::Call(0, both(), named()),
            Turn::Drop(0, vec![(3, 8, 2)], vec![BROKEN]),
            Turn::Wait(0, 100),
        ]
    };
    let mut late = begin();
    late.push(Turn::Call(100, both(), named()));
    late.push(Turn::Drop(30_000, vec![(3, 8, 2)], vec![BROKEN]));
    assert_eq!(ended(&items, late), vec![Err(ErrorCode::RpcTimeout); 2]);
    let mut refused = begin();
    let refusal = Ok(Reply::Refused(ErrorCode::UnavailableInCurrentStatus));
    refused.push(Turn::Call(100, both(), refusal));
    let expected = vec![Err(ErrorCode::UnavailableInCurrentStatus); 2];
    assert_eq!(ended(&items, refused), expected);
}

#[test]
fn a_session_ends_again_until_nothing_is_left_of_what_it_took_the_place_of() {
    let put =
        |key, counter| Closing::End(PutEnd { key, version: version(counter), failed_replicas: 0 });
    let closings = [put("a", 5), put("b", 6)];
    let named = || remaining(vec![Ok(()), NOT_FOUND], &[(3, 8, 2)], 0);
    let begin = || {
        vec![
            Turn::Call(0, end(&[("a", 5), ("b", 6)]), named()),
            Turn::Drop(0, vec![(3, 8, 2)], vec![BROKEN]),
            Turn::Wait(0, 100),
        ]
    };
    let mut turns = begin();
    turns.push(Turn::Call(100, end(&[("a", 5)]), statuses(vec![Ok(())])));
    let expected = vec![Closed::Settled(Ok(())), Closed::Settled(NOT_FOUND)];
    assert_eq!(play(CloseOp::new(&closings), turns), expected);
    let mut turns = begin();
    turns.push(Turn::Call(100, end(&[("a", 5)]), remaining(vec![Ok(())], &[(3, 8, 2)], 0)));
    turns.push(Turn::Drop(30_000, vec![(3, 8, 2)], vec![BROKEN]));
    let expected = vec![Closed::Unknown(ErrorCode::RpcTimeout), Closed::Settled(NOT_FOUND)];
    assert_eq!(play(CloseOp::new(&closings), turns), expected);
}
