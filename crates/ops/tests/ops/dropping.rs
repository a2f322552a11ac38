//! Nodes drop removed and replaced objects before the operation returns.

use mooncake_ops::{
    CallError, CloseOp, CloseOutcome, Closing, MoveError, PutOp, RemoveOp, RemoveScanOp,
};
use mooncake_types::{
    ErrorCode, PutEnd, PutItem, PutStart, Remains, ReplicateConfig, Reply, Request, Scan,
    ScanAction, ScanPage, limits,
};

use crate::script::{
    Turn, done, dropped, failures, grant, granted, play, remaining, retract, statuses, version,
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

/// A lease that has ended does not prove that the entry is gone, nor does a node that cannot be reached: it may
/// return.
#[test]
fn a_node_that_does_not_confirm_is_asked_until_the_master_names_it_no_more() {
    let named = |results| remaining(results, &[(1, 64, 5), (2, 0, 6)], 50);
    let turns = vec![
        Turn::Call(0, remove(&["a", "b"]), named(vec![Ok(()), NOT_FOUND])),
        Turn::Drop(0, vec![(1, 64, 5), (2, 0, 6)], vec![OK, BROKEN]),
        Turn::Call(0, dropped(&[(1, 64, 5)]), done()),
        Turn::Wait(10, 110),
        // The operation does not repeat the removal, which would remove a newer object of this key.
        Turn::Call(110, retract(&["a"], &[(2, 0, 6)]), remaining(vec![Ok(())], &[(2, 0, 6)], 0)),
        Turn::Drop(120, vec![(2, 0, 6)], vec![BROKEN]),
        Turn::Wait(130, 230),
        Turn::Call(230, retract(&["a"], &[(2, 0, 6)]), statuses(vec![Ok(())])),
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
        Turn::Call(100, retract(&["a"], &[(1, 64, 5)]), named()),
        Turn::Drop(29_900, vec![(1, 64, 5)], vec![BROKEN]),
        Turn::Wait(29_900, 30_000),
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
            Turn::Call(100, retract(&["a"], &[(1, 64, 5)]), Err(error)),
        ];
        assert_eq!(play(RemoveOp::new(&["a"], false), turns), vec![Err(code)]);
    }
}

#[test]
fn a_removal_of_which_another_leader_says_nothing_is_unknown() {
    let refusal = ErrorCode::UnavailableInCurrentStatus;
    let turns = vec![
        Turn::Call(0, remove(&["a", "b"]), remaining(vec![Ok(()), NOT_FOUND], &[(1, 64, 5)], 0)),
        Turn::Drop(0, vec![(1, 64, 5)], vec![BROKEN]),
        Turn::Wait(0, 100),
        Turn::Call(100, retract(&["a"], &[(1, 64, 5)]), Ok(Reply::Refused(refusal))),
    ];
    let expected = vec![Err(refusal), NOT_FOUND];
    assert_eq!(play(RemoveOp::new(&["a", "b"], false), turns), expected);
}

#[test]
fn more_than_one_question_holds_is_asked_bit_by_bit() {
    let most = u64::from(limits::MAX_FETCHED_DROPS);
    let ranges: Vec<(u128, u64, u64)> = (0..most + 1).map(|offset| (1, offset, 5)).collect();
    let (first, rest) = ranges.split_at(limits::MAX_FETCHED_DROPS as usize);
    let named: Vec<(u32, u64, u64)> = ranges.iter().map(|range| (1, range.1, 5)).collect();
    let turns = vec![
        Turn::Call(0, remove(&["a"]), remaining(vec![Ok(())], &named, 0)),
        Turn::Drop(0, ranges.clone(), vec![BROKEN; ranges.len()]),
        Turn::Wait(0, 100),
        Turn::Call(100, retract(&["a"], first), statuses(vec![Ok(())])),
        Turn::Drop(100, rest.to_vec(), vec![OK]),
    ];
    assert_eq!(play(RemoveOp::new(&["a"], false), turns), vec![Ok(())]);
}

/// The master keeps each tombstone until it learns that the node dropped the entry.
#[test]
fn the_master_is_told_of_many_drops_at_once() {
    let ranges: Vec<(u128, u64, u64)> = (0..256).map(|offset| (1, offset, 5)).collect();
    let named: Vec<(u32, u64, u64)> = ranges.iter().map(|range| (1, range.1, 5)).collect();
    let turns = vec![
        Turn::Call(0, remove(&["a"]), remaining(vec![Ok(())], &named, 0)),
        Turn::Drop(0, ranges.clone(), vec![OK; ranges.len()]),
        Turn::Call(0, dropped(&ranges), done()),
    ];
    assert_eq!(play(RemoveOp::new(&["a"], false), turns), vec![Ok(())]);
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
        Turn::Call(31_100, retract(second, &[(1, 64, 5)]), statuses(vec![Ok(())])),
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
        // Without the key: a later leader would otherwise remove every replica of the object.
        Turn::Call(100, retract(&[], &[(1, 64, 5)]), statuses(vec![])),
    ];
    assert_eq!(play(RemoveOp::replicas(&["a"], "s"), turns), vec![Ok(())]);
}

#[test]
fn a_page_of_a_scan_is_over_when_its_nodes_have_confirmed_it() {
    let scan = |cursor| {
        let action = ScanAction::Remove { force: true };
        Request::Scan(Scan {
            tenant: Some("default"),
            pattern: None,
            action,
            cursor,
            limit: limits::MAX_SCAN_OBJECTS,
        })
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
        Turn::Call(100, retract(&[], &[(1, 64, 5)]), remaining(vec![], &[(1, 64, 5)], 0)),
        Turn::Drop(100, vec![(1, 64, 5)], vec![OK]),
        Turn::Call(100, scan(7), page(None)),
    ];
    assert_eq!(play(RemoveScanOp::new(None, true), turns), Ok(2));
    let refusal = Ok(Reply::Refused(ErrorCode::InvalidVersion));
    let turns = vec![
        begin(),
        Turn::Drop(0, vec![(1, 64, 5)], vec![BROKEN]),
        Turn::Wait(0, 100),
        Turn::Call(100, retract(&[], &[(1, 64, 5)]), refusal),
    ];
    let another_leads = Err(ErrorCode::InvalidVersion);
    assert_eq!(play(RemoveScanOp::new(None, true), turns), another_leads);
    let broken = Turn::Drop(29_900, vec![(1, 64, 5)], vec![BROKEN]);
    let turns = vec![begin(), broken, Turn::Wait(30_950, 31_050)];
    assert_eq!(play(RemoveScanOp::new(None, true), turns), Err(ErrorCode::RpcTimeout));
}

/// An earlier `PutEnd` may have succeeded, and the object may have been removed since.
#[test]
fn a_put_whose_end_is_unknown_is_not_written_again() {
    let items = [PutItem::new("a", 10), PutItem::new("b", 10)];
    let unknown = Err(ErrorCode::RpcFail);
    let both = end(&[("a", 5), ("b", 6)]);
    let rest = vec![Turn::Call(0, both, statuses(vec![Ok(()), unknown]))];
    assert_eq!(ended(&items, rest), vec![Ok(()), unknown]);
    let put = |key| {
        Closing::End(PutEnd { key, version: version(5), failed_replicas: 0, held_replicas: 0 })
    };
    let closings = [put("a")];
    let turns = vec![Turn::Call(0, end(&[("a", 5)]), statuses(vec![unknown]))];
    let expected = vec![CloseOutcome::Unknown(ErrorCode::RpcFail)];
    assert_eq!(play(CloseOp::new(&closings), turns), expected);
}

fn start<'a>(items: &[PutItem<'a>]) -> Request<'a> {
    Request::PutStart(PutStart { puts: items.to_vec(), ..PutStart::default() })
}

fn end<'a>(keys: &[(&'a str, u64)]) -> Request<'a> {
    let put = |&(key, counter)| PutEnd {
        key,
        version: version(counter),
        failed_replicas: 0,
        held_replicas: 0,
    };
    Request::PutEnd { puts: keys.iter().map(put).collect() }
}

/// Writes two puts as versions 5 and 6, plays `rest`, and returns their results.
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
        // The second object has been removed since, or a new leader does not know it.
        Turn::Call(200, end(&[("a", 5), ("b", 6)]), statuses(vec![Ok(()), NOT_FOUND])),
    ];
    assert_eq!(ended(&items, rest), vec![Ok(()), NOT_FOUND]);
}

/// Both objects stay: other clients may have read them already.
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
    late.push(Turn::Drop(29_900, vec![(3, 8, 2)], vec![BROKEN]));
    late.push(Turn::Wait(29_900, 30_000));
    assert_eq!(ended(&items, late), vec![Err(ErrorCode::RpcTimeout); 2]);
    let mut refused = begin();
    let refusal = Ok(Reply::Refused(ErrorCode::UnavailableInCurrentStatus));
    refused.push(Turn::Call(100, both(), refusal));
    let expected = vec![Err(ErrorCode::UnavailableInCurrentStatus); 2];
    assert_eq!(ended(&items, refused), expected);
}

#[test]
fn a_session_ends_again_until_nothing_is_left_of_what_it_took_the_place_of() {
    let put = |key, counter| {
        Closing::End(PutEnd {
            key,
            version: version(counter),
            failed_replicas: 0,
            held_replicas: 0,
        })
    };
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
    let expected = vec![CloseOutcome::Settled(Ok(())), CloseOutcome::Settled(NOT_FOUND)];
    assert_eq!(play(CloseOp::new(&closings), turns), expected);
    let mut turns = begin();
    turns.push(Turn::Call(100, end(&[("a", 5)]), remaining(vec![Ok(())], &[(3, 8, 2)], 0)));
    turns.push(Turn::Drop(29_900, vec![(3, 8, 2)], vec![BROKEN]));
    turns.push(Turn::Wait(29_900, 30_000));
    let expected =
        vec![CloseOutcome::Unknown(ErrorCode::RpcTimeout), CloseOutcome::Settled(NOT_FOUND)];
    assert_eq!(play(CloseOp::new(&closings), turns), expected);
}
