use mooncake_ops::{
    CloseOp, CloseOutcome, Closing, MoveError, Op, Part, PutPartsOp, PutSession, PutWrite,
    RangeToWrite, StartOp, Step,
};
use mooncake_types::{
    Epoch, ErrorCode, NodeDrop, PutEnd, PutItem, PutRevoke, PutStart, RangeDrop, RangeWrite,
    ReplicateConfig, Reply, Request, Seal, SegmentId, Tick, limits,
};

use crate::script::{Range, Turn, failures, grant, granted, play, statuses, version};

const OK: Result<(), MoveError> = Ok(());
const BROKEN: Result<(), MoveError> = Err(MoveError::Broken);
const TTL_MS: u64 = 1000;

fn part(from: u64, len: u64) -> Part {
    Part { from, len }
}

fn start<'a>(items: &[PutItem<'a>]) -> Request<'a> {
    Request::PutStart(PutStart { puts: items.to_vec(), ..PutStart::default() })
}

fn start_op<'a>(items: &'a [PutItem<'a>]) -> StartOp<'a> {
    StartOp::new(items, &ReplicateConfig::default(), TTL_MS)
}

/// A session for ten bytes of key `a`, started at 0 ms, with a grant of these ranges.
fn open(ranges: &[Range]) -> PutSession {
    let items = [PutItem::new("a", 10)];
    let turns = vec![Turn::Call(0, start(&items), granted(vec![grant(5, ranges)]))];
    play(start_op(&items), turns).remove(0).expect("it was granted")
}

/// Begins a write of these parts.
fn begin(put: &mut PutSession, parts: &[Part]) -> Result<PutWrite<'static>, ErrorCode> {
    put.begin(0, "a", parts, Tick(1))
}

/// The range writes of a session write, and the write after range `n` ended with `result(n)`.
fn written(
    write: PutWrite<'_>,
    result: impl Fn(usize) -> Result<(), MoveError>,
) -> (Vec<RangeToWrite<'_>>, PutWrite<'_>) {
    let mut op = PutPartsOp::new(vec![write]);
    let deposits = match op.next(Tick(1)) {
        Step::Write(epoch, deposits) => {
            assert_eq!(epoch, Epoch(1));
            op.on_transfer((0..deposits.len()).map(result).collect());
            deposits
        }
        Step::Done => Vec::new(),
        other => panic!("{other:?}"),
    };
    assert_eq!(op.next(Tick(1)), Step::Done);
    (deposits, op.finish().remove(0))
}

/// Ends a write whose ranges had these results.
fn finish(
    put: &mut PutSession,
    write: PutWrite<'_>,
    results: &[Result<(), MoveError>],
) -> Result<u64, ErrorCode> {
    let (deposits, write) = written(write, |range| results[range]);
    assert_eq!(deposits.len(), results.len());
    put.finish(&write)
}

/// Writes these parts; every range write has this result.
fn write(
    put: &mut PutSession,
    parts: &[Part],
    result: Result<(), MoveError>,
) -> Result<u64, ErrorCode> {
    let (_, write) = written(begin(put, parts)?, |_| result);
    put.finish(&write)
}

fn end(failed_replicas: u32) -> Result<PutEnd<'static>, ErrorCode> {
    Ok(PutEnd { key: "a", version: version(5), failed_replicas, held_replicas: 0 })
}

#[test]
fn parts_go_to_every_replica_wherever_its_ranges_are_cut() {
    let mut put = open(&[(0, 0, 64, 10), (1, 1, 0, 4), (1, 2, 32, 6)]);
    let write = put.begin(7, "a", &[part(3, 2), part(8, 2)], Tick(1)).expect("it may be written");
    let place = |it: &RangeToWrite<'_>| {
        let RangeWrite { segment, offset, entry_len, from, len, object_offset, .. } = it.range;
        ((segment.0, offset, entry_len), (from, len), object_offset, it.at)
    };
    let (deposits, _) = written(write, |_| OK);
    assert_eq!(
        deposits.iter().map(place).collect::<Vec<_>>(),
        [
            ((0, 64, 10), (3, 2), 0, 0),
            ((0, 64, 10), (8, 2), 0, 2),
            ((1, 0, 4), (3, 1), 0, 0),
            ((2, 32, 6), (0, 1), 4, 1),
            ((2, 32, 6), (4, 2), 4, 2),
        ]
    );
    let told = |it: &RangeToWrite<'_>| (it.position, it.range.key.to_owned(), it.range.object_len);
    assert!(deposits.iter().all(|it| told(it) == (7, "a".to_owned(), 10)));
    let versions = |it: &RangeToWrite<'_>| (it.range.version, it.range.grant);
    assert!(deposits.iter().all(|it| versions(it) == (version(5), version(5))));
}

#[test]
fn an_object_is_published_only_when_all_its_bytes_were_written() {
    for (written, expected) in [
        (vec![], Err(ErrorCode::InvalidWrite)),
        (vec![part(0, 9)], Err(ErrorCode::InvalidWrite)),
        (vec![part(1, 9)], Err(ErrorCode::InvalidWrite)),
        (vec![part(0, 4), part(5, 5)], Err(ErrorCode::InvalidWrite)),
        (vec![part(0, 10)], end(0)),
        (vec![part(5, 5), part(0, 5)], end(0)),
        (vec![part(0, 6), part(4, 2), part(6, 4)], end(0)),
    ] {
        let mut put = open(&[(0, 0, 64, 10)]);
        for part in &written {
            assert_eq!(write(&mut put, &[*part], OK), Ok(part.len));
        }
        assert_eq!(put.ending("a"), expected, "{written:?}");
        assert_eq!(put.revocation("a"), PutRevoke::new("a", version(5)));
    }
}

#[test]
fn parts_that_may_not_be_written_are_refused_and_change_nothing() {
    let mut put = open(&[(0, 0, 64, 6), (0, 1, 0, 4)]);
    assert_eq!(write(&mut put, &[part(0, 6)], OK), Ok(6));
    for (parts, expected) in [
        (vec![part(5, 6)], ErrorCode::InvalidParams),
        (vec![part(6, 1), part(11, 0)], ErrorCode::InvalidParams),
        (vec![part(u64::MAX, 2)], ErrorCode::InvalidParams),
        // The first range is complete, so its node refuses further bytes.
        (vec![part(2, 1)], ErrorCode::InvalidWrite),
        (vec![part(5, 2)], ErrorCode::InvalidWrite),
        (vec![part(6, 4), part(9, 1)], ErrorCode::InvalidWrite),
    ] {
        assert_eq!(write(&mut put, &parts, OK), Err(expected), "{parts:?}");
    }
    assert_eq!(write(&mut put, &[part(6, 2)], OK), Ok(2));
    assert_eq!(write(&mut put, &[part(7, 3)], OK), Ok(3));
    assert_eq!(put.ending("a"), end(0));
}

#[test]
fn two_writers_share_an_object_and_not_a_byte() {
    let mut put = open(&[(0, 0, 64, 10)]);
    let first = begin(&mut put, &[part(0, 5)]).expect("it may be written");
    assert_eq!(write(&mut put, &[part(4, 2)], OK), Err(ErrorCode::ObjectReplicaBusy));
    let second = begin(&mut put, &[part(5, 5)]).expect("the rest may be written");
    assert!(put.is_busy());
    assert_eq!(finish(&mut put, second, &[OK]), Ok(5));
    assert_eq!(put.ending("a"), Err(ErrorCode::InvalidWrite));
    assert_eq!(finish(&mut put, first, &[OK]), Ok(5));
    assert!(!put.is_busy());
    assert_eq!(put.ending("a"), end(0));
}

#[test]
fn a_replica_that_missed_a_part_is_out_for_good() {
    let mut put = open(&[(0, 0, 0, 10), (1, 1, 0, 10), (2, 2, 0, 4), (2, 3, 0, 6)]);
    let first = begin(&mut put, &[part(0, 5)]).expect("it may be written");
    // The first two replicas have one range each, and the third has two.
    assert_eq!(finish(&mut put, first, &[OK, BROKEN, OK, OK]), Ok(5));
    let second = begin(&mut put, &[part(5, 3)]).expect("it may be written");
    let refused = Err(MoveError::Refused(ErrorCode::InvalidVersion));
    let (deposits, second) = written(second, |range| [OK, refused][range]);
    let segments: Vec<u128> = deposits.iter().map(|it| it.range.segment.0).collect();
    assert_eq!(segments, [0, 3]);
    assert_eq!(put.finish(&second), Ok(3));
    assert_eq!(write(&mut put, &[part(8, 2)], OK), Ok(2));
    assert_eq!(put.ending("a"), end(0b110));
}

#[test]
fn an_object_that_no_replica_has_is_not_published() {
    let refused = Err(MoveError::Refused(ErrorCode::InvalidVersion));
    for (result, expected) in [
        (BROKEN, ErrorCode::TransferFail),
        (Err(MoveError::Stale), ErrorCode::TransferFail),
        (refused, ErrorCode::InvalidVersion),
        (Err(MoveError::Refused(ErrorCode::Ok)), ErrorCode::TransferFail),
    ] {
        let mut put = open(&[(0, 0, 64, 10), (1, 1, 0, 10)]);
        assert_eq!(write(&mut put, &[part(0, 5)], OK), Ok(5));
        let rest = begin(&mut put, &[part(5, 5)]).expect("it may be written");
        assert_eq!(finish(&mut put, rest, &[OK, BROKEN]), Ok(5));
        let again = begin(&mut put, &[part(0, 2)]).map(|_| ());
        assert_eq!(again, Err(ErrorCode::InvalidWrite), "the object is complete");
        let mut put = open(&[(0, 0, 64, 10), (1, 1, 0, 10)]);
        assert_eq!(write(&mut put, &[part(0, 5)], result), Err(expected), "{result:?}");
        assert_eq!(write(&mut put, &[part(5, 5)], OK), Err(ErrorCode::TransferFail));
        assert_eq!(put.ending("a"), Err(ErrorCode::InvalidWrite));
    }
}

#[test]
fn a_put_that_is_over_takes_nothing_more() {
    let mut put = open(&[(0, 0, 64, 10)]);
    assert_eq!(put.expires_at(), Tick(TTL_MS));
    assert!(put.begin(0, "a", &[part(0, 5)], Tick(TTL_MS - 1)).is_ok());
    let late = put.begin(0, "a", &[part(5, 5)], Tick(TTL_MS)).map(|_| ());
    assert_eq!(late, Err(ErrorCode::LeaseExpired));
    put.seal();
    let sealed = begin(&mut put, &[part(5, 5)]).map(|_| ());
    assert_eq!(sealed, Err(ErrorCode::InvalidParams));
}

#[test]
fn parts_with_gaps_between_them_are_bounded() {
    let len = 2 * limits::MAX_ENTRY_PARTS as u64 + 2;
    let items = [PutItem::new("a", len)];
    let grants = granted(vec![grant(5, &[(0, 0, 0, len)])]);
    let mut put = play(start_op(&items), vec![Turn::Call(0, start(&items), grants)])
        .remove(0)
        .expect("it was granted");
    let gaps: Vec<Part> = (0..=limits::MAX_ENTRY_PARTS as u64).map(|at| part(2 * at, 1)).collect();
    assert_eq!(write(&mut put, &gaps, OK), Err(ErrorCode::InvalidWrite));
    assert_eq!(write(&mut put, &gaps[1..], OK), Ok(gaps.len() as u64 - 1));
    assert_eq!(write(&mut put, &[part(0, 1)], OK), Err(ErrorCode::InvalidWrite));
}

#[test]
fn a_start_is_one_request_and_every_position_has_its_own_result() {
    let items = [
        PutItem::new("a", 10),
        PutItem::new("", 10),
        PutItem::new("b", 0),
        PutItem::new("taken", 10),
        PutItem::new("senseless", 10),
    ];
    let revoke = Request::PutRevoke { puts: vec![PutRevoke::new("senseless", version(6))] };
    let turns = vec![
        Turn::Call(
            0,
            start(&[items[0], items[3], items[4]]),
            granted(vec![
                grant(5, &[(0, 0, 0, 10)]),
                Err(ErrorCode::ObjectAlreadyExists),
                grant(6, &[(0, 0, 16, 11)]),
            ]),
        ),
        Turn::Call(0, revoke, statuses(vec![Ok(())])),
    ];
    let results = play(start_op(&items), turns).into_iter();
    let results: Vec<_> = results.map(|result| result.map(|put| put.version())).collect();
    let expected = vec![
        Ok(version(5)),
        Err(ErrorCode::InvalidKey),
        Err(ErrorCode::InvalidParams),
        Err(ErrorCode::ObjectAlreadyExists),
        Err(ErrorCode::InternalError),
    ];
    assert_eq!(results, expected);
}

#[test]
fn a_start_that_is_not_answered_is_an_error() {
    let items = [PutItem::new("a", 10)];
    let none = |reply| {
        let turns = vec![Turn::Call(0, start(&items), reply)];
        play(start_op(&items), turns).remove(0).map(|_| ())
    };
    for (error, code) in failures() {
        assert_eq!(none(Err(error)), Err(code));
    }
    for (reply, code) in [
        (granted(vec![]), ErrorCode::InternalError),
        (Ok(Reply::Refused(ErrorCode::ClientNotFound)), ErrorCode::ClientNotFound),
    ] {
        assert_eq!(none(reply), Err(code));
    }
    let config = ReplicateConfig { replica_num: 0, ..ReplicateConfig::default() };
    let refused = play(StartOp::new(&items, &config, TTL_MS), vec![]).remove(0).map(|_| ());
    assert_eq!(refused, Err(ErrorCode::InvalidParams));
}

#[test]
fn writes_of_one_call_go_under_the_epochs_of_their_grants() {
    let (mut one, mut two) = (open(&[(0, 0, 0, 10)]), open(&[(0, 1, 0, 10), (1, 2, 0, 10)]));
    let parts = [part(0, 4)];
    let write = |position, put: &mut PutSession| {
        put.begin(position, "a", &parts, Tick(1)).expect("it may be written")
    };
    let writes = vec![write(0, &mut one), write(4, &mut two)];
    let turns =
        vec![Turn::Write(0, 1, vec![(0, 0, 0), (4, 1, 0), (4, 2, 0)], vec![OK, OK, BROKEN])];
    let written = play(PutPartsOp::new(writes), turns);
    assert_eq!(written.iter().map(PutWrite::position).collect::<Vec<_>>(), [0, 4]);
    assert_eq!((one.finish(&written[0]), two.finish(&written[1])), (Ok(4), Ok(4)));
    for (put, failed) in [(&mut one, 0), (&mut two, 0b10)] {
        assert_eq!(write_rest(put), Ok(6));
        assert_eq!(put.ending("a"), end(failed));
    }
    assert_eq!(play(PutPartsOp::new(vec![]), vec![]).len(), 0);
}

fn write_rest(put: &mut PutSession) -> Result<u64, ErrorCode> {
    write(put, &[part(4, 6)], OK)
}

#[test]
fn ends_and_revocations_are_told_and_what_is_in_doubt_stays_so() {
    let put = PutEnd { key: "a", version: version(5), failed_replicas: 2, held_replicas: 0 };
    let other = PutRevoke::new("b", version(6));
    let range =
        RangeDrop { segment: SegmentId(3), offset: 64, version: version(6), grant: version(6) };
    let written = NodeDrop { endpoint: "node 3".into(), range, seal: Seal::NONE };
    let closings = [Closing::GiveUp(other, vec![written]), Closing::End(put)];
    let ends = || Request::PutEnd { puts: vec![put] };
    let revokes = || Request::PutRevoke { puts: vec![other] };
    let gone = Err(ErrorCode::ObjectNotFound);
    let turns = vec![
        Turn::Call(0, ends(), statuses(vec![gone])),
        Turn::Drop(0, vec![(3, 64, 6)], vec![BROKEN]),
        Turn::Call(0, revokes(), statuses(vec![Ok(())])),
    ];
    let expected = vec![CloseOutcome::Settled(Ok(())), CloseOutcome::Settled(gone)];
    assert_eq!(play(CloseOp::new(&closings), turns), expected);
    for (error, code) in failures() {
        let turns = vec![Turn::Call(0, ends(), Err(error))];
        assert_eq!(play(CloseOp::new(&closings), turns), vec![CloseOutcome::Unknown(code); 2]);
    }
    let turns = vec![
        Turn::Call(0, ends(), statuses(vec![])),
        Turn::Drop(0, vec![(3, 64, 6)], vec![OK]),
        Turn::Call(0, revokes(), Ok(Reply::Refused(ErrorCode::ClientNotFound))),
    ];
    let expected = vec![
        CloseOutcome::Unknown(ErrorCode::ClientNotFound),
        CloseOutcome::Unknown(ErrorCode::InternalError),
    ];
    assert_eq!(play(CloseOp::new(&closings), turns), expected);
    let mut nothing = CloseOp::new(&[]);
    assert_eq!(nothing.next(Tick(0)), Step::Done);
}

/// A `PutEnd` whose answer is lost may still publish the object. Dropping its entries would leave it unreadable.
#[test]
fn what_the_master_may_publish_late_is_not_dropped_when_it_is_given_up() {
    let mut put = open(&[(0, 0, 64, 10)]);
    assert_eq!(write(&mut put, &[part(0, 10)], OK), Ok(10));
    let discards = |put: &PutSession| match put.giving_up("a") {
        Closing::GiveUp(_, discards) => discards.len(),
        Closing::End(_) => unreachable!("it is given up"),
    };
    assert_eq!(discards(&put), 1);
    let end = Closing::End(put.ending("a").expect("all bytes are there"));
    put.note(&end);
    assert_eq!(discards(&put), 0);
}

/// Nodes may have dropped the entries, even if their answers are lost. The object would be published and unreadable.
#[test]
fn what_was_given_up_is_never_published() {
    let mut put = open(&[(0, 0, 64, 10)]);
    assert_eq!(write(&mut put, &[part(0, 10)], OK), Ok(10));
    assert!(put.ending("a").is_ok());
    let give_up = put.giving_up("a");
    put.note(&give_up);
    assert_eq!(put.ending("a"), Err(ErrorCode::InvalidWrite));
    assert_eq!(put.giving_up("a"), give_up, "it is asked for again");
}
