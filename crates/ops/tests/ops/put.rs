use mooncake_ops::{MoveError, Op, PutOp, Step};
use mooncake_types::{
    Epoch, ErrorCode, Grant, Placement, PutEnd, PutItem, PutMode, PutRevoke, PutStart, RangeWrite,
    ReplicateConfig, Reply, Request, Seal, SegmentId, Tick, Version, limits,
};

use crate::script::{Turn, failures, grant, granted, play, segments, statuses, version};

const OK: Result<(), MoveError> = Ok(());
const BROKEN: Result<(), MoveError> = Err(MoveError::Broken);
const FENCED: Result<(), MoveError> = Err(MoveError::Refused(ErrorCode::InvalidVersion));

fn item(key: &str) -> PutItem<'_> {
    PutItem::new(key, 10)
}

fn start<'a>(keys: &[&'a str], excluded: &[u128]) -> Request<'a> {
    let excluded_segments = excluded.iter().map(|&id| SegmentId(id)).collect();
    Request::PutStart(PutStart {
        puts: keys.iter().map(|key| item(key)).collect(),
        config: ReplicateConfig { excluded_segments, ..ReplicateConfig::default() },
        mode: PutMode::Insert,
    })
}

fn end<'a>(puts: &[(&'a str, u64, u32)]) -> Request<'a> {
    let put = |&(key, counter, failed_replicas)| put_end(key, counter, failed_replicas);
    Request::PutEnd { puts: puts.iter().map(put).collect() }
}

fn put_end(key: &str, counter: u64, failed_replicas: u32) -> PutEnd<'_> {
    PutEnd { key, version: version(counter), failed_replicas, held_replicas: 0 }
}

fn revoke_held<'a>(key: &'a str, counter: u64, held_replicas: u32) -> Request<'a> {
    let put = PutRevoke { held_replicas, ..PutRevoke::new(key, version(counter)) };
    Request::PutRevoke { puts: vec![put] }
}

fn revoke<'a>(puts: &[(&'a str, u64)]) -> Request<'a> {
    let put = |&(key, counter)| PutRevoke::new(key, version(counter));
    Request::PutRevoke { puts: puts.iter().map(put).collect() }
}

fn play_put<'a>(items: &'a [PutItem<'a>], turns: Vec<Turn<'a>>) -> Vec<Result<(), ErrorCode>> {
    play(PutOp::new(items, &ReplicateConfig::default()), turns)
}

#[test]
fn a_put_is_a_grant_a_write_and_an_end() {
    let items = [item("a")];
    let mut op = PutOp::new(&items, &ReplicateConfig::default());
    assert_eq!(op.next(Tick(0)), Step::Call(start(&["a"], &[])));
    let ranges = [(0, 1, 64, 10), (1, 2, 0, 4), (1, 2, 32, 6)];
    op.on_reply(granted(vec![grant(5, &ranges)]));
    let Step::Write(epoch, deposits) = op.next(Tick(0)) else { panic!("it does not write") };
    assert_eq!(epoch, Epoch(1));
    let whole = RangeWrite {
        segment: SegmentId(1),
        offset: 64,
        entry_len: 10,
        from: 0,
        len: 10,
        key: "a",
        version: version(5),
        grant: version(5),
        object_len: 10,
        object_offset: 0,
        attributes: &[],
        seal: Seal::NONE,
    };
    let first = RangeWrite { segment: SegmentId(2), offset: 0, entry_len: 4, len: 4, ..whole };
    let second = RangeWrite { offset: 32, entry_len: 6, len: 6, object_offset: 4, ..first };
    assert_eq!(deposits.iter().map(|it| it.range).collect::<Vec<_>>(), [whole, first, second]);
    let endpoints = [1, 2, 2].map(|number: usize| segments()[number].endpoint.clone());
    assert_eq!(deposits.iter().map(|it| it.endpoint.clone()).collect::<Vec<_>>(), endpoints);
    op.on_transfer(vec![OK; 3]);
    assert_eq!(op.next(Tick(0)), Step::Call(end(&[("a", 5, 0)])));
    op.on_reply(statuses(vec![Ok(())]));
    assert_eq!(op.next(Tick(0)), Step::Done);
    assert_eq!(op.finish(), vec![Ok(())]);
}

#[test]
fn replicas_that_failed_are_named_when_the_put_ends() {
    let items = [item("a")];
    let ranges = [(0, 0, 0, 10), (1, 1, 0, 4), (1, 1, 8, 6), (2, 2, 0, 10)];
    for (results, failed) in [
        (vec![OK, OK, OK, OK], 0b000),
        (vec![BROKEN, OK, OK, OK], 0b001),
        (vec![OK, OK, BROKEN, OK], 0b010),
        (vec![OK, FENCED, OK, BROKEN], 0b110),
    ] {
        let places = vec![(0, 0, 0), (0, 1, 0), (0, 1, 8), (0, 2, 0)];
        let turns = vec![
            Turn::Call(0, start(&["a"], &[]), granted(vec![grant(5, &ranges)])),
            Turn::Write(0, 1, places, results),
            Turn::Call(0, end(&[("a", 5, failed)]), statuses(vec![Ok(())])),
        ];
        assert_eq!(play_put(&items, turns), vec![Ok(())]);
    }
}

/// The result of a put whose first grant, in segments 0 and 1, failed with these errors.
fn second_attempt<'a>(
    items: &'a [PutItem<'a>],
    first: [MoveError; 2],
    excluded: &[u128],
    rest: Vec<Turn<'a>>,
) -> Result<(), ErrorCode> {
    let ranges = [(0, 0, 0, 10), (1, 1, 0, 10)];
    let mut turns = vec![
        Turn::Call(0, start(&["a"], &[]), granted(vec![grant(5, &ranges)])),
        Turn::Write(0, 1, vec![(0, 0, 0), (0, 1, 0)], first.map(Err).to_vec()),
        Turn::Call(0, revoke(&[("a", 5)]), statuses(vec![Ok(())])),
    ];
    if let [Turn::Call(_, request, _), ..] = rest.as_slice() {
        assert_eq!(*request, start(&["a"], excluded));
    }
    turns.extend(rest);
    play_put(items, turns)[0]
}

#[test]
fn a_put_that_failed_everywhere_is_revoked_and_tried_once_more_elsewhere() {
    let items = [item("a")];
    let both = [MoveError::Broken; 2];
    let again = || granted(vec![grant(6, &[(0, 2, 32, 10)])]);
    let ended = second_attempt(
        &items,
        both,
        &[0, 1],
        vec![
            Turn::Call(0, start(&["a"], &[0, 1]), again()),
            Turn::Write(0, 1, vec![(0, 2, 32)], vec![OK]),
            Turn::Call(0, end(&[("a", 6, 0)]), statuses(vec![Ok(())])),
        ],
    );
    assert_eq!(ended, Ok(()));
    let failed = second_attempt(
        &items,
        both,
        &[0, 1],
        vec![
            Turn::Call(0, start(&["a"], &[0, 1]), again()),
            Turn::Write(0, 1, vec![(0, 2, 32)], vec![BROKEN]),
            Turn::Call(0, revoke(&[("a", 6)]), statuses(vec![Ok(())])),
        ],
    );
    assert_eq!(failed, Err(ErrorCode::TransferFail));
}

const HELD: Result<(), MoveError> = Err(MoveError::Refused(ErrorCode::ObjectReplicaBusy));

/// A put of `a` in segment 0 under this grant; the range is pinned by a reader.
fn meets_a_holder<'a>(counter: u64) -> Vec<Turn<'a>> {
    let offset = 16 * counter;
    vec![
        Turn::Call(0, start(&["a"], &[]), granted(vec![grant(counter, &[(0, 0, offset, 10)])])),
        Turn::Write(0, 1, vec![(0, 0, offset)], vec![HELD]),
        Turn::Call(0, revoke_held("a", counter, 1), statuses(vec![Ok(())])),
    ]
}

#[test]
fn a_range_that_somebody_holds_is_given_up_and_another_one_tried() {
    let items = [item("a")];
    for holders in 0..=7 {
        let mut turns: Vec<_> = (1..=holders).flat_map(meets_a_holder).collect();
        turns.extend([
            Turn::Call(0, start(&["a"], &[]), granted(vec![grant(9, &[(0, 0, 0, 10)])])),
            Turn::Write(0, 1, vec![(0, 0, 0)], vec![OK]),
            Turn::Call(0, end(&[("a", 9, 0)]), statuses(vec![Ok(())])),
        ]);
        assert_eq!(play_put(&items, turns), vec![Ok(())], "{holders} holders");
    }
    let turns = (1..=8).flat_map(meets_a_holder).collect();
    assert_eq!(play_put(&items, turns), vec![Err(ErrorCode::TransferFail)]);
}

#[test]
fn of_several_replicas_the_held_ones_are_named_when_the_put_ends() {
    let items = [item("a")];
    let ranges = [(0, 0, 0, 10), (1, 1, 0, 10), (2, 2, 0, 10)];
    let put = PutEnd { held_replicas: 0b010, ..put_end("a", 5, 0b110) };
    let turns = vec![
        Turn::Call(0, start(&["a"], &[]), granted(vec![grant(5, &ranges)])),
        Turn::Write(0, 1, vec![(0, 0, 0), (0, 1, 0), (0, 2, 0)], vec![OK, HELD, BROKEN]),
        Turn::Call(0, Request::PutEnd { puts: vec![put] }, statuses(vec![Ok(())])),
    ];
    assert_eq!(play_put(&items, turns), vec![Ok(())]);
}

#[test]
fn a_put_whose_segments_left_before_it_ended_is_tried_once_more() {
    let items = [item("a"), item("b")];
    let gone = Err(ErrorCode::ObjectNotFound);
    for (ended, expected) in [(Ok(()), Ok(())), (gone, gone)] {
        let grants = granted(vec![grant(5, &[(0, 0, 0, 10)]), grant(6, &[(0, 1, 0, 10)])]);
        let mut turns = vec![
            Turn::Call(0, start(&["a", "b"], &[]), grants),
            Turn::Write(0, 1, vec![(0, 0, 0), (1, 1, 0)], vec![OK, OK]),
            Turn::Call(0, end(&[("a", 5, 0), ("b", 6, 0)]), statuses(vec![Ok(()), gone])),
            Turn::Drop(0, vec![(1, 0, 6)], vec![BROKEN]),
            Turn::Call(0, revoke(&[("b", 6)]), statuses(vec![gone])),
            Turn::Call(0, start(&["b"], &[]), granted(vec![grant(7, &[(0, 2, 0, 10)])])),
            Turn::Write(0, 1, vec![(1, 2, 0)], vec![OK]),
            Turn::Call(0, end(&[("b", 7, 0)]), statuses(vec![ended])),
        ];
        if ended.is_err() {
            turns.push(Turn::Drop(0, vec![(2, 0, 7)], vec![OK]));
        }
        assert_eq!(play_put(&items, turns), [Ok(()), expected]);
    }
}

#[test]
fn a_segment_that_refused_one_grant_may_be_granted_again() {
    let items = [item("a")];
    let refused = MoveError::Refused(ErrorCode::InvalidVersion);
    let ended = second_attempt(
        &items,
        [refused, MoveError::Broken],
        &[1],
        vec![
            Turn::Call(0, start(&["a"], &[1]), granted(vec![grant(6, &[(0, 0, 0, 10)])])),
            Turn::Write(0, 1, vec![(0, 0, 0)], vec![OK]),
            Turn::Call(0, end(&[("a", 6, 0)]), statuses(vec![Ok(())])),
        ],
    );
    assert_eq!(ended, Ok(()));
}

#[test]
fn a_second_attempt_that_is_not_granted_says_what_matters() {
    let items = [item("a")];
    let [(gone, code), ..] = failures();
    for (reply, expected) in [
        (granted(vec![Err(ErrorCode::NoAvailableHandle)]), ErrorCode::TransferFail),
        (granted(vec![Err(ErrorCode::ObjectAlreadyExists)]), ErrorCode::ObjectAlreadyExists),
        (
            Ok(Reply::Refused(ErrorCode::UnavailableInCurrentMode)),
            ErrorCode::UnavailableInCurrentMode,
        ),
        (Err(gone.clone()), ErrorCode::TransferFail),
    ] {
        let rest = vec![Turn::Call(0, start(&["a"], &[0, 1]), reply.clone())];
        let ended = second_attempt(&items, [MoveError::Broken; 2], &[0, 1], rest);
        assert_eq!(ended, Err(expected), "{reply:?}");
    }
    assert_eq!(code, ErrorCode::RpcFail);
}

#[test]
fn a_master_that_is_gone_ends_every_phase() {
    for (error, code) in failures() {
        let items = [item("a"), item("b")];
        let turns = vec![Turn::Call(0, start(&["a", "b"], &[]), Err(error.clone()))];
        assert_eq!(play_put(&items, turns), vec![Err(code); 2]);

        let grants = || granted(vec![grant(5, &[(0, 0, 0, 10)]), grant(6, &[(0, 1, 0, 10)])]);
        let places = || vec![(0, 0, 0), (1, 1, 0)];
        // If the `PutEnd` fails, a written put is in doubt, and an unwritten one has failed.
        let turns = vec![
            Turn::Call(0, start(&["a", "b"], &[]), grants()),
            Turn::Write(0, 1, places(), vec![OK, BROKEN]),
            Turn::Call(0, end(&[("a", 5, 0)]), Err(error.clone())),
        ];
        assert_eq!(play_put(&items, turns), vec![Err(code), Err(ErrorCode::TransferFail)]);
        // If the revoke fails, the put that has ended stays.
        let turns = vec![
            Turn::Call(0, start(&["a", "b"], &[]), grants()),
            Turn::Write(0, 1, places(), vec![OK, BROKEN]),
            Turn::Call(0, end(&[("a", 5, 0)]), statuses(vec![Ok(())])),
            Turn::Call(0, revoke(&[("b", 6)]), Err(error)),
        ];
        assert_eq!(play_put(&items, turns), vec![Ok(()), Err(ErrorCode::TransferFail)]);
    }
}

/// A new leader may know of these entries from their nodes, so the client must not drop them.
#[test]
fn puts_whose_end_a_new_leader_puts_off_for_too_long_stay_at_their_nodes() {
    let early = Ok(Reply::Refused(ErrorCode::UnavailableInCurrentStatus));
    let turns = vec![
        Turn::Call(0, start(&["a"], &[]), granted(vec![grant(5, &[(0, 0, 0, 10)])])),
        Turn::Write(0, 1, vec![(0, 0, 0)], vec![OK]),
        Turn::Call(0, end(&[("a", 5, 0)]), early),
    ];
    let in_doubt = vec![Err(ErrorCode::UnavailableInCurrentStatus)];
    assert_eq!(play_put(&[item("a")], turns), in_doubt);
}

#[test]
fn every_position_has_its_own_result() {
    let items = [
        item("a"),
        item(""),
        PutItem::new("empty", 0),
        item("a"),
        PutItem::new("huge", limits::MAX_OBJECT_BYTES + 1),
        item("full"),
        item("late"),
    ];
    let turns = vec![
        Turn::Call(
            0,
            start(&["a", "a", "full", "late"], &[]),
            granted(vec![
                grant(5, &[(0, 0, 0, 10)]),
                Err(ErrorCode::ObjectAlreadyExists),
                Err(ErrorCode::NoAvailableHandle),
                grant(6, &[(0, 1, 0, 10)]),
            ]),
        ),
        Turn::Write(0, 1, vec![(0, 0, 0), (6, 1, 0)], vec![OK, OK]),
        Turn::Call(
            0,
            end(&[("a", 5, 0), ("late", 6, 0)]),
            statuses(vec![Ok(()), Err(ErrorCode::IllegalClient)]),
        ),
        Turn::Drop(0, vec![(1, 0, 6)], vec![OK]),
    ];
    let expected = vec![
        Ok(()),
        Err(ErrorCode::InvalidKey),
        Err(ErrorCode::InvalidParams),
        Err(ErrorCode::ObjectAlreadyExists),
        Err(ErrorCode::InvalidParams),
        Err(ErrorCode::NoAvailableHandle),
        Err(ErrorCode::IllegalClient),
    ];
    assert_eq!(play_put(&items, turns), expected);
}

#[test]
fn grants_of_different_leaders_are_written_under_their_own_epochs() {
    let items = [item("a"), item("b"), item("c")];
    let of_epoch = |epoch, counter, segment| {
        let version = Version { epoch: Epoch(epoch), counter };
        let placements =
            vec![Placement { replica: 0, segment, offset: 0, len: 10, seal: Seal::NONE }];
        Ok(Grant { version, placements, attributes: Vec::new(), drop_seals: Vec::new() })
    };
    let grants = vec![of_epoch(1, 9, 0), of_epoch(2, 1, 1), of_epoch(1, 10, 2)];
    let mut op = PutOp::new(&items, &ReplicateConfig::default());
    op.next(Tick(0));
    op.on_reply(granted(grants));
    for (epoch, positions) in [(1, vec![0, 2]), (2, vec![1])] {
        let Step::Write(under, deposits) = op.next(Tick(0)) else { panic!("it does not write") };
        assert_eq!(under, Epoch(epoch));
        assert_eq!(deposits.iter().map(|it| it.position).collect::<Vec<_>>(), positions);
        op.on_transfer(vec![OK; positions.len()]);
    }
    let Step::Call(Request::PutEnd { puts }) = op.next(Tick(0)) else { panic!("it does not end") };
    assert_eq!(puts.iter().map(|put| put.key).collect::<Vec<_>>(), ["a", "b", "c"]);
}

#[test]
fn a_grant_that_makes_no_sense_is_given_back() {
    let items = [item("a"), item("b")];
    let turns = vec![
        Turn::Call(
            0,
            start(&["a", "b"], &[]),
            granted(vec![grant(5, &[(0, 0, 0, 11)]), grant(6, &[(0, 1, 0, 10)])]),
        ),
        Turn::Write(0, 1, vec![(1, 1, 0)], vec![OK]),
        Turn::Call(0, end(&[("b", 6, 0)]), statuses(vec![Ok(())])),
        Turn::Call(0, revoke(&[("a", 5)]), statuses(vec![Ok(())])),
    ];
    assert_eq!(play_put(&items, turns), vec![Err(ErrorCode::InternalError), Ok(())]);
}

#[test]
fn replies_that_make_no_sense_are_errors() {
    let items = [item("a")];
    for reply in [granted(vec![]), statuses(vec![Ok(())]), Ok(Reply::Refused(ErrorCode::Ok))] {
        let turns = vec![Turn::Call(0, start(&["a"], &[]), reply)];
        assert_eq!(play_put(&items, turns), vec![Err(ErrorCode::InternalError)]);
    }
    for reply in [statuses(vec![]), granted(vec![])] {
        let turns = vec![
            Turn::Call(0, start(&["a"], &[]), granted(vec![grant(5, &[(0, 0, 0, 10)])])),
            Turn::Write(0, 1, vec![(0, 0, 0)], vec![OK]),
            Turn::Call(0, end(&[("a", 5, 0)]), reply),
        ];
        assert_eq!(play_put(&items, turns), vec![Err(ErrorCode::InternalError)]);
    }
}

#[test]
fn a_configuration_that_makes_no_sense_is_refused_before_anything_is_sent() {
    let items = [item("a"), item("")];
    let long = "n".repeat(limits::MAX_NAME_BYTES + 1);
    let none = ReplicateConfig::default;
    for config in [
        ReplicateConfig { replica_num: 0, ..none() },
        ReplicateConfig { replica_num: limits::MAX_REPLICAS + 1, ..none() },
        ReplicateConfig { preferred_segments: vec![&long], ..none() },
        ReplicateConfig { preferred_segments: vec!["n"; 5000], ..none() },
    ] {
        let results = play(PutOp::new(&items, &config), vec![]);
        assert_eq!(results, vec![Err(ErrorCode::InvalidParams); 2]);
    }
}

#[test]
fn long_batches_are_cut_and_segments_are_excluded_for_one_part_only() {
    let keys: Vec<String> = (0..limits::MAX_BATCH_KEYS + 5).map(|i| format!("key {i}")).collect();
    let items: Vec<PutItem<'_>> = keys.iter().map(|key| item(key)).collect();
    let mut op = PutOp::new(&items, &ReplicateConfig::default());
    let mut starts = Vec::new();
    let mut first_write = true;
    loop {
        match op.next(Tick(0)) {
            Step::Call(Request::PutStart(start)) => {
                starts.push((start.puts.len(), start.config.excluded_segments.len()));
                let one = |_| grant(5, &[(0, 0, 0, 10)]);
                op.on_reply(granted(start.puts.iter().map(one).collect()));
            }
            Step::Call(Request::PutEnd { puts }) => {
                op.on_reply(statuses(vec![Ok(()); puts.len()]));
            }
            Step::Call(Request::PutRevoke { puts }) => {
                op.on_reply(statuses(vec![Ok(()); puts.len()]));
            }
            Step::Write(_, deposits) => {
                let mut results = vec![OK; deposits.len()];
                if std::mem::take(&mut first_write) {
                    results[7] = BROKEN;
                }
                op.on_transfer(results);
            }
            Step::Done => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(starts, vec![(limits::MAX_BATCH_KEYS, 0), (1, 1), (5, 0)]);
    assert_eq!(op.finish(), vec![Ok(()); items.len()]);
}
