use mooncake_ops::{GetItem, GetOp, MoveError, Op, Part, RangeToRead, Route, RoutesOp, Step};
use mooncake_types::{Chance, ErrorCode, Reply, Request, SegmentId, Tick};

use crate::script::{Range, Turn, failures, found, located, play};

const OK: Result<(), MoveError> = Ok(());
const STALE: Result<(), MoveError> = Err(MoveError::Stale);
const BROKEN: Result<(), MoveError> = Err(MoveError::Broken);

fn part(from: u64, len: u64) -> Part {
    Part { from, len }
}

fn look<'a>(keys: &[&'a str]) -> Request<'a> {
    Request::GetReplicaList { keys: keys.to_vec() }
}

/// The reads: offset of the entry in its segment, first byte in the entry, length, offset in the item's memory.
fn places(fetches: &[RangeToRead]) -> Vec<(u64, u64, u64, u64)> {
    let place = |it: &RangeToRead| (it.range.offset, it.range.from, it.range.len, it.at);
    fetches.iter().map(place).collect()
}

/// The reads of these parts of an object of ten bytes that lies in these ranges.
fn fetches(parts: &[Part], ranges: &[Range]) -> Vec<(u64, u64, u64, u64)> {
    let items = [GetItem::parts("a", parts)];
    let mut op = GetOp::new(&items, &[], Chance::new(1));
    assert_eq!(op.next(Tick(0)), Step::Call(look(&["a"])));
    op.on_reply(found(vec![located(7, 10, ranges)]));
    let Step::Read(fetches) = op.next(Tick(0)) else { panic!("it does not read") };
    op.on_transfer(vec![OK; fetches.len()]);
    assert_eq!(op.next(Tick(0)), Step::Done);
    assert_eq!(op.finish(), vec![Ok(10)]);
    places(&fetches)
}

#[test]
fn parts_are_read_where_they_lie_and_nothing_else_is() {
    let one = [(0, 0, 64, 10)];
    let striped = [(0, 0, 64, 4), (0, 1, 32, 3), (0, 2, 0, 3)];
    for (parts, ranges, expected) in [
        (vec![part(0, 10)], one.as_slice(), vec![(64, 0, 10, 0)]),
        (vec![part(3, 2), part(8, 2)], &one, vec![(64, 3, 2, 0), (64, 8, 2, 2)]),
        (vec![part(2, 2), part(4, 3)], &one, vec![(64, 2, 5, 0)]),
        (vec![part(5, 1), part(5, 1)], &one, vec![(64, 5, 1, 0), (64, 5, 1, 1)]),
        (vec![part(3, 5)], &striped, vec![(64, 3, 1, 0), (32, 0, 3, 1), (0, 0, 1, 4)]),
        (vec![part(8, 2), part(0, 2)], &striped, vec![(0, 1, 2, 0), (64, 0, 2, 2)]),
        // Bytes beyond the end of the object are not read, but keep their place in the item's memory.
        (vec![part(9, 2), part(0, 2)], &one, vec![(64, 0, 2, 2)]),
        (vec![part(9, 2), part(10, 0), part(u64::MAX, 1)], &one, vec![]),
        (vec![], &one, vec![]),
    ] {
        assert_eq!(fetches(&parts, ranges), expected, "{parts:?}");
    }
}

#[test]
fn all_parts_of_an_item_are_of_one_version() {
    let parts = [part(0, 2), part(5, 2)];
    let items = [GetItem::parts("a", &parts)];
    let twice = |offset| vec![(0, 0, offset), (0, 0, offset)];
    // The second part is gone. The operation reads both parts again, from the new version.
    let turns = vec![
        Turn::Call(0, look(&["a"]), found(vec![located(7, 10, &[(0, 0, 64, 10)])])),
        Turn::Read(1, twice(64), vec![OK, STALE]),
        Turn::Call(2, look(&["a"]), found(vec![located(8, 20, &[(0, 0, 128, 20)])])),
        Turn::Read(3, twice(128), vec![OK, OK]),
    ];
    let results = play(GetOp::new(&items, &[], Chance::new(1)), turns);
    assert_eq!(results, vec![Ok(20)]);
}

#[test]
fn one_lookup_serves_all_parts_of_all_items() {
    let parts: Vec<Part> = (0..1000).map(|number| part(number * 2, 1)).collect();
    let items = [GetItem::parts("a", &parts), GetItem::parts("a", &parts)];
    let mut op = GetOp::new(&items, &[], Chance::new(1));
    assert_eq!(op.next(Tick(0)), Step::Call(look(&["a", "a"])));
    let here = || located(7, 2000, &[(0, 0, 0, 2000)]);
    op.on_reply(found(vec![here(), here()]));
    let Step::Read(fetches) = op.next(Tick(0)) else { panic!("it does not read") };
    assert_eq!(fetches.len(), 2000);
    op.on_transfer(vec![OK; 2000]);
    assert_eq!(op.next(Tick(0)), Step::Done);
    assert_eq!(op.finish(), vec![Ok(2000); 2]);
}

/// A route looked up at 0 ms, with a lease of five seconds.
fn route(ranges: &[Range]) -> Route {
    let turns = vec![Turn::Call(0, look(&["a"]), found(vec![located(7, 10, ranges)]))];
    play(RoutesOp::new(&["a"]), turns).remove(0).expect("it was found")
}

/// Reads through this route, in a process that hosts segment 3.
fn play_held(parts: &[Part], route: Option<Route>, turns: Vec<Turn<'_>>) -> Result<u64, ErrorCode> {
    let items = [GetItem::parts("a", parts)];
    play(GetOp::held(&items, vec![route], &[SegmentId(3)], Chance::new(1)), turns)[0]
}

#[test]
fn a_held_route_is_read_without_a_lookup() {
    let parts = [part(2, 3)];
    let one = [(0, 0, 64, 10)];
    let two = [(0, 0, 0, 10), (1, 3, 16, 10)];
    for (ranges, turns, expected) in [
        (one.as_slice(), vec![Turn::Read(1, vec![(0, 0, 64)], vec![OK])], Ok(10)),
        // The replica on this node comes first.
        (
            &two,
            vec![
                Turn::Read(1, vec![(0, 3, 16)], vec![BROKEN]),
                Turn::Read(2, vec![(0, 0, 0)], vec![OK]),
            ],
            Ok(10),
        ),
        (
            &two,
            vec![
                Turn::Read(1, vec![(0, 3, 16)], vec![BROKEN]),
                Turn::Read(2, vec![(0, 0, 0)], vec![STALE]),
            ],
            Err(ErrorCode::TransferFail),
        ),
        (&one, vec![Turn::Read(1, vec![(0, 0, 64)], vec![STALE])], Err(ErrorCode::ObjectNotFound)),
        // The lease ends before the second replica is read.
        (
            &two,
            vec![Turn::Read(4999, vec![(0, 3, 16)], vec![BROKEN])],
            Err(ErrorCode::TransferFail),
        ),
    ] {
        let is_cut_short = expected == Err(ErrorCode::TransferFail) && turns.len() == 1;
        if is_cut_short {
            let items = [GetItem::parts("a", &parts)];
            let mut op =
                GetOp::held(&items, vec![Some(route(ranges))], &[SegmentId(3)], Chance::new(1));
            assert!(matches!(op.next(Tick(4999)), Step::Read(_)));
            op.on_transfer(vec![BROKEN]);
            assert_eq!(op.next(Tick(5000)), Step::Done);
            assert_eq!(op.finish(), vec![Err(ErrorCode::LeaseExpired)]);
            continue;
        }
        assert_eq!(play_held(&parts, Some(route(ranges)), turns), expected, "{ranges:?}");
    }
}

#[test]
fn a_held_route_that_is_absent_or_too_short_is_not_read() {
    let one = [(0, 0, 64, 10)];
    for (parts, held, expected) in [
        (vec![part(0, 1)], None, Err(ErrorCode::InvalidParams)),
        (vec![part(0, 1), part(9, 2)], Some(route(&one)), Err(ErrorCode::InvalidParams)),
        (vec![part(u64::MAX, 2)], Some(route(&one)), Err(ErrorCode::InvalidParams)),
    ] {
        assert_eq!(play_held(&parts, held, vec![]), expected, "{parts:?}");
    }
    let items = [GetItem::parts("a", &[])];
    let mut op = GetOp::held(&items, vec![Some(route(&one))], &[], Chance::new(1));
    assert_eq!(op.next(Tick(5000)), Step::Done);
    assert_eq!(op.finish(), vec![Err(ErrorCode::LeaseExpired)]);
}

#[test]
fn a_route_is_leased_from_the_moment_of_asking() {
    let mut op = RoutesOp::new(&["a", "b", "c"]);
    assert_eq!(op.next(Tick(100)), Step::Call(look(&["a", "b", "c"])));
    let miss = Err(ErrorCode::ObjectNotFound);
    let senseless = located(9, 10, &[(0, 0, 0, 9)]);
    op.on_reply(found(vec![located(7, 10, &[(0, 0, 64, 10)]), miss, senseless]));
    assert_eq!(op.next(Tick(900)), Step::Done);
    let routes = op.finish().into_iter();
    let told: Vec<_> = routes.map(|it| it.map(|it| (it.object_len(), it.lease_end()))).collect();
    let expected =
        vec![Ok((10, Tick(5100))), Err(ErrorCode::ObjectNotFound), Err(ErrorCode::InternalError)];
    assert_eq!(told, expected);
}

#[test]
fn a_hold_that_is_not_answered_is_an_error() {
    for (error, code) in failures() {
        let turns = vec![Turn::Call(0, look(&["a"]), Err(error))];
        let held = play(RoutesOp::new(&["a"]), turns);
        assert_eq!(held, vec![Err(code)]);
    }
    let turns = vec![Turn::Call(0, look(&["a"]), Ok(Reply::Statuses(vec![])))];
    assert_eq!(play(RoutesOp::new(&["a"]), turns), vec![Err(ErrorCode::InternalError)]);
}
