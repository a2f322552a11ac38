use mooncake_ops::{GetItem, GetOp, MoveError, Op, RoutesOp, Step};
use mooncake_types::{Chance, ErrorCode, RangeRead, Reply, Request, Seal, SegmentId, Tick, limits};

use crate::script::{Turn, failures, found, found_after, located, play, segments, version};

const OK: Result<(), MoveError> = Ok(());
const STALE: Result<(), MoveError> = Err(MoveError::Stale);
const BROKEN: Result<(), MoveError> = Err(MoveError::Broken);
const MISS: ErrorCode = ErrorCode::ObjectNotFound;

fn item(key: &str) -> GetItem<'_> {
    GetItem::whole(key, Some(100))
}

fn look<'a>(keys: &[&'a str]) -> Request<'a> {
    Request::GetReplicaList { keys: keys.to_vec() }
}

/// Plays a script for these items, in a process that hosts segment 3.
fn play_get<'a>(items: &'a [GetItem<'a>], turns: Vec<Turn<'a>>) -> Vec<Result<u64, ErrorCode>> {
    play(GetOp::new(items, &[SegmentId(3)], Chance::new(1)), turns)
}

/// Gets one object with a single replica in segment 0, whose first and second read have these results.
fn single(first: Result<(), MoveError>, second: Result<(), MoveError>) -> Result<u64, ErrorCode> {
    let items = [item("a")];
    let route = || found(vec![located(7, 10, &[(0, 0, 64, 10)])]);
    let turns = vec![
        Turn::Call(0, look(&["a"]), route()),
        Turn::Read(1, vec![(0, 0, 64)], vec![first]),
        Turn::Call(2, look(&["a"]), route()),
        Turn::Read(3, vec![(0, 0, 64)], vec![second]),
    ];
    play_get(&items, turns)[0]
}

#[test]
fn a_get_is_one_lookup_and_one_read() {
    let items = [item("a")];
    let mut op = GetOp::new(&items, &[], Chance::new(1));
    assert_eq!(op.next(Tick(5)), Step::Call(look(&["a"])));
    op.on_reply(found(vec![located(7, 10, &[(0, 2, 64, 10)])]));
    let Step::Read(fetches) = op.next(Tick(6)) else { panic!("it does not read") };
    let segment = segments()[2].clone();
    let range = RangeRead {
        segment: segment.id,
        offset: 64,
        version: version(7),
        object_offset: 0,
        from: 0,
        len: 10,
        seal: Seal::NONE,
    };
    assert_eq!(fetches.len(), 1);
    assert_eq!((fetches[0].range, &fetches[0].endpoint), (range, &segment.endpoint));
    op.on_transfer(vec![OK]);
    assert_eq!(op.next(Tick(7)), Step::Done);
    assert_eq!(op.finish(), vec![Ok(10)]);
}

#[test]
fn a_failed_read_is_followed_by_one_fresh_lookup_and_then_an_error() {
    for (first, second, expected) in [
        (STALE, OK, Ok(10)),
        (BROKEN, OK, Ok(10)),
        (STALE, STALE, Err(MISS)),
        (BROKEN, BROKEN, Err(ErrorCode::TransferFail)),
        // A certain failure outweighs stale routes.
        (STALE, BROKEN, Err(ErrorCode::TransferFail)),
        (BROKEN, STALE, Err(ErrorCode::TransferFail)),
        (STALE, Err(MoveError::Refused(ErrorCode::IllegalClient)), Err(ErrorCode::IllegalClient)),
        (STALE, Err(MoveError::Refused(ErrorCode::Ok)), Err(ErrorCode::InternalError)),
    ] {
        assert_eq!(single(first, second), expected, "{first:?}, {second:?}");
    }
}

/// A node that was started again has a new key, and tells it to the master a moment after the master names it again.
#[test]
fn an_item_whose_seal_a_node_does_not_know_is_looked_up_again_after_a_pause() {
    const DENIED: Result<(), MoveError> = Err(MoveError::Refused(ErrorCode::PermissionDenied));
    let items = [item("a")];
    let route = || found(vec![located(7, 10, &[(0, 1, 64, 10)])]);
    let read = |at, result| Turn::Read(at, vec![(0, 1, 64)], vec![result]);
    let turns = vec![
        Turn::Call(0, look(&["a"]), route()),
        read(1, DENIED),
        // Another replica may have been named.
        Turn::Call(2, look(&["a"]), route()),
        read(3, DENIED),
        Turn::Wait(3, 103),
        Turn::Call(103, look(&["a"]), route()),
        read(104, OK),
    ];
    assert_eq!(play_get(&items, turns), vec![Ok(10)]);
}

/// A later leader might find the older version, and return it after the newer one was read.
#[test]
fn what_is_older_is_dropped_before_anything_is_read() {
    let items = [item("a"), item("b")];
    let places = || vec![located(7, 10, &[(0, 1, 16, 10)]), located(8, 10, &[(0, 1, 32, 10)])];
    let older = [(1, 2, 64, 3), (1, 0, 0, 4)];
    let look_up = || Turn::Call(0, look(&["a", "b"]), found_after(places(), &older));
    let drop = |results| Turn::Drop(1, vec![(2, 64, 3), (0, 0, 4)], results);
    let turns = vec![
        look_up(),
        drop(vec![OK, OK]),
        Turn::Read(2, vec![(0, 1, 16), (1, 1, 32)], vec![OK, OK]),
    ];
    assert_eq!(play_get(&items, turns), vec![Ok(10), Ok(10)]);
}

/// By the next lookup, another leader may know more, or the node may have been declared lost.
#[test]
fn what_is_older_and_was_not_dropped_is_looked_up_a_few_times_again() {
    let items = [item("a"), item("b")];
    let place = |counter| located(counter, 10, &[(0, 1, 16 * counter, 10)]);
    let both = || found_after(vec![place(7), place(8)], &[(1, 2, 64, 3), (1, 0, 0, 4)]);
    let again = || found_after(vec![place(8)], &[(0, 2, 64, 3), (0, 0, 0, 4)]);
    let first = || {
        vec![
            Turn::Call(0, look(&["a", "b"]), both()),
            Turn::Drop(1, vec![(2, 64, 3), (0, 0, 4)], vec![BROKEN, OK]),
            Turn::Wait(1, 101),
        ]
    };
    let mut turns = first();
    turns.extend([
        Turn::Call(101, look(&["b"]), again()),
        // The other older entry is dropped already.
        Turn::Drop(102, vec![(2, 64, 3)], vec![OK]),
        Turn::Read(103, vec![(0, 1, 112), (1, 1, 128)], vec![OK, OK]),
    ]);
    assert_eq!(play_get(&items, turns), vec![Ok(10), Ok(10)]);
    let mut turns = first();
    for attempt in 1..6 {
        let at = 101 * attempt;
        turns.push(Turn::Call(at, look(&["b"]), again()));
        turns.push(Turn::Drop(at + 1, vec![(2, 64, 3)], vec![BROKEN]));
        if attempt < 5 {
            turns.push(Turn::Wait(at + 1, at + 101));
        }
    }
    turns.push(Turn::Read(606, vec![(0, 1, 112)], vec![OK]));
    assert_eq!(play_get(&items, turns), vec![Ok(10), Err(ErrorCode::ObjectReplicaBusy)]);
}

/// Every lookup names an older version of one key that is not dropped. Meanwhile the leases of both routes end.
#[test]
fn leases_that_end_while_another_key_waits_are_no_error() {
    let items = [item("a"), item("b")];
    let place = |counter| located(counter, 10, &[(0, 1, 16 * counter, 10)]);
    let both = || found_after(vec![place(7), place(8)], &[(1, 2, 64, 3)]);
    let mut turns = Vec::new();
    for attempt in 0..5 {
        turns.push(Turn::Call(5_200 * attempt, look(&["a", "b"]), both()));
        turns.push(Turn::Drop(5_200 * attempt + 1, vec![(2, 64, 3)], vec![BROKEN]));
        turns.push(Turn::Wait(5_200 * attempt + 1, 5_200 * attempt + 101));
    }
    turns.push(Turn::Call(26_000, look(&["a", "b"]), both()));
    turns.push(Turn::Drop(26_001, vec![(2, 64, 3)], vec![OK]));
    turns.push(Turn::Read(26_002, vec![(0, 1, 112), (1, 1, 128)], vec![OK, OK]));
    assert_eq!(play_get(&items, turns), vec![Ok(10), Ok(10)]);
}

#[test]
fn what_was_dropped_already_is_not_dropped_again_when_the_lease_has_run_out_meanwhile() {
    let items = [item("a")];
    let look_up = |at| {
        let places = vec![located(7, 10, &[(0, 1, 16, 10)])];
        Turn::Call(at, look(&["a"]), found_after(places, &[(0, 2, 64, 3)]))
    };
    let dropped = Turn::Drop(1, vec![(2, 64, 3)], vec![OK]);
    let read = Turn::Read(6000, vec![(0, 1, 16)], vec![OK]);
    let turns = vec![look_up(0), dropped, look_up(5000), read];
    assert_eq!(play_get(&items, turns), vec![Ok(10)]);
}

#[test]
fn what_is_older_is_dropped_before_a_route_is_held() {
    let place = |counter| located(counter, 10, &[(0, 1, 16 * counter, 10)]);
    let both = found_after(vec![place(7), place(8)], &[(1, 2, 64, 3)]);
    let turns = vec![
        Turn::Call(0, look(&["a", "b"]), both),
        Turn::Drop(1, vec![(2, 64, 3)], vec![BROKEN]),
        Turn::Wait(1, 101),
        Turn::Call(101, look(&["b"]), found_after(vec![place(9)], &[(0, 2, 64, 3)])),
        Turn::Drop(102, vec![(2, 64, 3)], vec![OK]),
    ];
    let found = play(RoutesOp::new(&["a", "b"]), turns);
    let versions: Vec<_> = found.into_iter().map(|route| route.map(|it| it.version())).collect();
    assert_eq!(versions, [Ok(version(7)), Ok(version(9))]);
    let both = found_after(vec![place(7), place(8)], &[(1, 2, 64, 3)]);
    let mut turns = vec![Turn::Call(0, look(&["a", "b"]), both)];
    for attempt in 1..6 {
        turns.push(Turn::Drop(101 * attempt, vec![(2, 64, 3)], vec![BROKEN]));
        turns.push(Turn::Wait(101 * attempt, 101 * attempt + 100));
        let again = found_after(vec![place(8)], &[(0, 2, 64, 3)]);
        turns.push(Turn::Call(101 * attempt + 100, look(&["b"]), again));
    }
    turns.push(Turn::Drop(700, vec![(2, 64, 3)], vec![BROKEN]));
    let found = play(RoutesOp::new(&["a", "b"]), turns);
    let codes: Vec<_> = found.into_iter().map(|route| route.map(|it| it.version())).collect();
    assert_eq!(codes, [Ok(version(7)), Err(ErrorCode::ObjectReplicaBusy)]);
}

#[test]
fn the_next_replica_comes_before_a_fresh_lookup() {
    let items = [item("a")];
    let ranges = [(0, 3, 0, 10), (1, 1, 16, 10)];
    let route = || found(vec![located(7, 10, &ranges)]);
    for error in [STALE, BROKEN] {
        let turns = vec![
            Turn::Call(0, look(&["a"]), route()),
            // The replica on this node comes first.
            Turn::Read(1, vec![(0, 3, 0)], vec![error]),
            Turn::Read(2, vec![(0, 1, 16)], vec![OK]),
        ];
        assert_eq!(play_get(&items, turns), vec![Ok(10)]);
    }
    let turns = vec![
        Turn::Call(0, look(&["a"]), route()),
        Turn::Read(1, vec![(0, 3, 0)], vec![BROKEN]),
        Turn::Read(2, vec![(0, 1, 16)], vec![BROKEN]),
        Turn::Call(
            3,
            look(&["a"]),
            Ok(Reply::Located {
                results: vec![Err(MISS)],
                successors: vec![],
                predecessors: vec![],
                segments: vec![],
                lease_ms: 5000,
            }),
        ),
    ];
    assert_eq!(play_get(&items, turns), vec![Err(MISS)]);
}

#[test]
fn the_replica_of_this_node_is_read_wherever_it_stands() {
    let items = [item("a")];
    let ranges = [(0, 0, 0, 10), (1, 1, 0, 10), (2, 3, 48, 10)];
    let turns = vec![
        Turn::Call(0, look(&["a"]), found(vec![located(7, 10, &ranges)])),
        Turn::Read(1, vec![(0, 3, 48)], vec![OK]),
    ];
    assert_eq!(play_get(&items, turns), vec![Ok(10)]);
}

#[test]
fn other_replicas_are_spread_by_chance() {
    let ranges = [(0, 0, 0, 10), (1, 1, 0, 10), (2, 2, 0, 10)];
    let mut chosen = [0; 3];
    for start in 0..300 {
        let items = [item("a")];
        let mut op = GetOp::new(&items, &[], Chance::new(start));
        assert_eq!(op.next(Tick(0)), Step::Call(look(&["a"])));
        op.on_reply(found(vec![located(7, 10, &ranges)]));
        let Step::Read(fetches) = op.next(Tick(0)) else { panic!("it does not read") };
        chosen[fetches[0].range.segment.0 as usize] += 1;
    }
    assert!(chosen.iter().all(|&count| count > 60), "{chosen:?}");
}

#[test]
fn a_route_is_not_used_after_its_lease_has_run_out() {
    let items = [item("a")];
    let ranges = [(0, 3, 0, 10), (1, 1, 16, 10)];
    let route = || found(vec![located(7, 10, &ranges)]);
    // The first replica fails so late that the route's lease has ended.
    let turns = vec![
        Turn::Call(0, look(&["a"]), route()),
        Turn::Read(4999, vec![(0, 3, 0)], vec![BROKEN]),
        Turn::Call(5000, look(&["a"]), route()),
        Turn::Read(5001, vec![(0, 1, 16)], vec![OK]),
    ];
    assert_eq!(play_get(&items, turns), vec![Ok(10)]);
    // A reply whose lease has ended on arrival is asked for again after a pause. A lease counts from when the client
    // asked.
    let mut op = GetOp::new(&items, &[], Chance::new(1));
    for (heard_at, asked_at) in [(0, 0), (6000, 6001), (11_001, 11_003), (16_003, 16_007)] {
        if asked_at > heard_at {
            assert_eq!(op.next(Tick(heard_at)), Step::Wait(Tick(asked_at)));
        }
        assert_eq!(op.next(Tick(asked_at)), Step::Call(look(&["a"])));
        op.on_reply(route());
    }
    assert_eq!(op.next(Tick(21_007)), Step::Done);
    assert_eq!(op.finish(), vec![Err(ErrorCode::LeaseExpired)]);
}

/// A replaced version keeps its lease, and no reader of the new version gets a longer one. Just before the lease ends,
/// the remaining time is shorter than a round trip.
#[test]
fn a_lease_that_is_about_to_end_is_waited_for() {
    let items = [item("a")];
    let place = || vec![located(7, 10, &[(0, 1, 16, 10)])];
    let ending = || match found(place()) {
        Ok(Reply::Located { results, successors, predecessors, segments, .. }) => {
            Ok(Reply::Located { results, successors, predecessors, segments, lease_ms: 1 })
        }
        other => other,
    };
    let turns = vec![
        Turn::Call(0, look(&["a"]), ending()),
        Turn::Wait(1, 2),
        Turn::Call(2, look(&["a"]), ending()),
        Turn::Wait(3, 5),
        Turn::Call(5, look(&["a"]), found(place())),
        Turn::Read(6, vec![(0, 1, 16)], vec![OK]),
    ];
    assert_eq!(play_get(&items, turns), vec![Ok(10)]);
}

/// Here each lookup names a newer version, and an older one that takes longer to drop than the lease lasts.
#[test]
fn a_route_that_ends_while_others_are_dropped_counts_as_not_tried() {
    let items = [item("a")];
    let place = |counter| vec![located(counter, 10, &[(0, 1, 16, 10)])];
    let mut turns = Vec::new();
    for round in 0..8 {
        let mut reply = found_after(place(8 + round), &[(0, 2, 0, 7 + round)]);
        if let Ok(Reply::Located { lease_ms, .. }) = &mut reply {
            *lease_ms = 2;
        }
        turns.push(Turn::Call(10 * round, look(&["a"]), reply));
        turns.push(Turn::Drop(10 * round + 1, vec![(2, 0, 7 + round)], vec![OK]));
    }
    turns.push(Turn::Call(80, look(&["a"]), found(place(16))));
    turns.push(Turn::Read(81, vec![(0, 1, 16)], vec![OK]));
    assert_eq!(play_get(&items, turns), vec![Ok(10)]);
}

#[test]
fn a_striped_replica_is_read_whole_or_not_at_all() {
    let items = [item("a")];
    let ranges = [(0, 3, 0, 6), (0, 3, 100, 4), (1, 1, 16, 10)];
    let turns = vec![
        Turn::Call(0, look(&["a"]), found(vec![located(7, 10, &ranges)])),
        Turn::Read(1, vec![(0, 3, 0), (0, 3, 100)], vec![OK, STALE]),
        Turn::Read(2, vec![(0, 1, 16)], vec![OK]),
    ];
    assert_eq!(play_get(&items, turns), vec![Ok(10)]);

    let mut op = GetOp::new(&items, &[SegmentId(3)], Chance::new(1));
    op.next(Tick(0));
    op.on_reply(found(vec![located(7, 10, &ranges)]));
    let Step::Read(fetches) = op.next(Tick(0)) else { panic!("it does not read") };
    let parts = fetches.iter().map(|it| (it.at, it.range.len, it.object_len));
    assert_eq!(parts.collect::<Vec<_>>(), vec![(0, 6, 10), (6, 4, 10)]);
}

#[test]
fn every_position_has_its_own_result_and_duplicates_are_read_each() {
    let long = "k".repeat(limits::MAX_KEY_BYTES + 1);
    let items = [
        item("a"),
        item(""),
        item("b"),
        item("a"),
        item(&long),
        GetItem::whole("c", Some(9)),
        GetItem::whole("d", None),
    ];
    let here = |offset| located(7, 10, &[(0, 0, offset, 10)]);
    let big = located(9, 1 << 40, &[(0, 1, 0, 1 << 40)]);
    let turns = vec![
        Turn::Call(
            0,
            look(&["a", "b", "a", "c", "d"]),
            found(vec![here(0), Err(MISS), here(0), here(32), big]),
        ),
        Turn::Read(1, vec![(0, 0, 0), (3, 0, 0), (6, 1, 0)], vec![OK, STALE, OK]),
        Turn::Call(2, look(&["a"]), found(vec![here(64)])),
        Turn::Read(3, vec![(3, 0, 64)], vec![OK]),
    ];
    let expected = vec![
        Ok(10),
        Err(ErrorCode::InvalidKey),
        Err(MISS),
        Ok(10),
        Err(ErrorCode::InvalidKey),
        Err(ErrorCode::InvalidParams),
        Ok(1 << 40),
    ];
    assert_eq!(play_get(&items, turns), expected);
}

#[test]
fn a_master_that_is_gone_ends_what_needs_it_and_nothing_else() {
    for (error, code) in failures() {
        let items = [item("a"), item("b")];
        let turns = vec![Turn::Call(0, look(&["a", "b"]), Err(error.clone()))];
        assert_eq!(play_get(&items, turns), vec![Err(code), Err(code)]);

        let routes = vec![located(7, 10, &[(0, 0, 0, 10)]), located(8, 20, &[(0, 1, 0, 20)])];
        let turns = vec![
            Turn::Call(0, look(&["a", "b"]), found(routes)),
            Turn::Read(1, vec![(0, 0, 0), (1, 1, 0)], vec![OK, STALE]),
            Turn::Call(2, look(&["b"]), Err(error)),
        ];
        assert_eq!(play_get(&items, turns), vec![Ok(10), Err(code)]);
    }
}

#[test]
fn a_master_that_is_gone_is_not_asked_for_the_next_batch() {
    let keys: Vec<String> = (0..limits::MAX_BATCH_KEYS + 5).map(|i| format!("key {i}")).collect();
    let items: Vec<GetItem<'_>> = keys.iter().map(|key| item(key)).collect();
    let [(error, code), ..] = failures();
    let mut op = GetOp::new(&items, &[], Chance::new(1));
    let Step::Call(Request::GetReplicaList { keys: asked }) = op.next(Tick(0)) else {
        panic!("it does not look up")
    };
    assert_eq!(asked.len(), limits::MAX_BATCH_KEYS);
    op.on_reply(Err(error));
    assert_eq!(op.next(Tick(0)), Step::Done);
    assert_eq!(op.finish(), vec![Err(code); items.len()]);
}

#[test]
fn long_batches_are_cut_and_each_part_is_read_before_the_next_is_looked_up() {
    let keys: Vec<String> = (0..limits::MAX_BATCH_KEYS + 5).map(|i| format!("key {i}")).collect();
    let items: Vec<GetItem<'_>> = keys.iter().map(|key| item(key)).collect();
    let mut op = GetOp::new(&items, &[], Chance::new(1));
    let mut parts = Vec::new();
    loop {
        match op.next(Tick(0)) {
            Step::Call(Request::GetReplicaList { keys }) => {
                parts.push(keys.len());
                let one = || located(7, 10, &[(0, 0, 0, 10)]);
                op.on_reply(found(keys.iter().map(|_| one()).collect()));
            }
            Step::Read(fetches) => {
                assert_eq!(Some(&fetches.len()), parts.last());
                op.on_transfer(vec![OK; fetches.len()]);
            }
            Step::Done => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(parts, vec![limits::MAX_BATCH_KEYS, 5]);
    assert_eq!(op.finish(), vec![Ok(10); items.len()]);
}

#[test]
fn replies_that_make_no_sense_are_errors() {
    let items = [item("a")];
    for (reply, expected) in [
        (found(vec![]), ErrorCode::InternalError),
        (found(vec![Err(MISS), Err(MISS)]), ErrorCode::InternalError),
        (Ok(Reply::Done(Ok(()))), ErrorCode::InternalError),
        (Ok(Reply::Refused(ErrorCode::InvalidParams)), ErrorCode::InvalidParams),
        (Ok(Reply::Refused(ErrorCode::Ok)), ErrorCode::InternalError),
        (found(vec![located(7, 10, &[])]), ErrorCode::InternalError),
        (found(vec![located(7, 10, &[(0, 9, 0, 10)])]), ErrorCode::InternalError),
        (found(vec![located(7, 10, &[(0, 0, 0, 9)])]), ErrorCode::InternalError),
    ] {
        let turns = vec![Turn::Call(0, look(&["a"]), reply.clone())];
        assert_eq!(play_get(&items, turns), vec![Err(expected)], "{reply:?}");
    }
}

#[test]
fn a_master_that_names_ever_new_places_is_given_up() {
    let items = [item("a")];
    let mut op = GetOp::new(&items, &[], Chance::new(1));
    let mut steps = 0;
    for counter in 1.. {
        match op.next(Tick(counter * 5000)) {
            Step::Call(_) => {
                let route = found(vec![located(counter, 10, &[(0, 0, counter, 10)])]);
                op.on_reply(route);
            }
            Step::Read(_) => op.on_transfer(vec![STALE]),
            Step::Wait(_) => {}
            Step::Done => break,
            other => panic!("{other:?}"),
        }
        steps += 1;
        assert!(steps < 1000, "it goes on for ever");
    }
    // Every lease had ended before its route could be used.
    assert_eq!(op.finish(), vec![Err(ErrorCode::LeaseExpired)]);
}

#[test]
fn an_object_that_moves_and_is_replaced_during_a_get_is_found() {
    let items = [item("a")];
    let at = |counter, offset| found(vec![located(counter, 10, &[(0, 0, offset, 10)])]);
    let turns = vec![
        Turn::Call(0, look(&["a"]), at(7, 64)),
        Turn::Read(1, vec![(0, 0, 64)], vec![STALE]),
        Turn::Call(2, look(&["a"]), at(7, 96)),
        Turn::Read(3, vec![(0, 0, 96)], vec![STALE]),
        Turn::Call(4, look(&["a"]), at(8, 128)),
        Turn::Read(5, vec![(0, 0, 128)], vec![OK]),
    ];
    assert_eq!(play_get(&items, turns), vec![Ok(10)]);
}

#[test]
fn an_object_that_moves_for_ever_is_given_up() {
    let items = [item("a")];
    let mut op = GetOp::new(&items, &[], Chance::new(1));
    let mut reads = 0;
    loop {
        match op.next(Tick(1)) {
            Step::Call(_) => {
                op.on_reply(found(vec![located(7, 10, &[(0, 0, 16 * reads, 10)])]));
            }
            Step::Read(_) => {
                reads += 1;
                assert!(reads < 1000, "it goes on for ever");
                op.on_transfer(vec![STALE]);
            }
            Step::Done => break,
            other => panic!("{other:?}"),
        }
    }
    assert!(reads > 2, "{reads}");
    assert_eq!(op.finish(), vec![Err(MISS)]);
}

#[test]
fn nothing_to_get_is_done_at_once() {
    assert_eq!(play_get(&[], vec![]), vec![]);
}
