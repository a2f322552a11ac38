use mooncake_ops::{MoveError, PutOp};
use mooncake_types::{
    ErrorCode, PutEnd, PutItem, PutMode, PutRevoke, PutStart, ReplicateConfig, Request, limits,
};

use crate::script::{Turn, grant, granted, play, statuses, version};

const OK: Result<(), MoveError> = Ok(());

fn start<'a>(puts: &[PutItem<'a>]) -> Request<'a> {
    Request::PutStart(PutStart {
        puts: puts.to_vec(),
        config: ReplicateConfig::default(),
        mode: PutMode::Upsert,
    })
}

fn end<'a>(puts: &[(&'a str, u64)]) -> Request<'a> {
    let put = |&(key, counter)| PutEnd {
        key,
        version: version(counter),
        failed_replicas: 0,
        held_replicas: 0,
    };
    Request::PutEnd { puts: puts.iter().map(put).collect() }
}

fn play_upsert<'a>(items: &'a [PutItem<'a>], turns: Vec<Turn<'a>>) -> Vec<Result<(), ErrorCode>> {
    play(PutOp::upsert(items, &ReplicateConfig::default()), turns)
}

#[test]
fn the_last_item_of_a_key_is_stored_and_its_result_is_that_of_all() {
    let items = [
        PutItem::new("a", 10),
        PutItem::new("b", 20),
        PutItem::new("a", 30),
        PutItem::new("", 5),
        PutItem::new("b", 0),
        PutItem::new("a", 40),
    ];
    for (ended, of_a) in
        [(Ok(()), Ok(())), (Err(ErrorCode::IllegalClient), Err(ErrorCode::IllegalClient))]
    {
        let mut turns = vec![
            Turn::Call(
                0,
                start(&[items[1], items[5]]),
                granted(vec![grant(5, &[(0, 0, 0, 20)]), grant(6, &[(0, 1, 0, 40)])]),
            ),
            Turn::Write(0, 1, vec![(1, 0, 0), (5, 1, 0)], vec![OK, OK]),
            Turn::Call(0, end(&[("b", 5), ("a", 6)]), statuses(vec![Ok(()), ended])),
        ];
        if ended.is_err() {
            turns.push(Turn::Drop(0, vec![(1, 0, 6)], vec![OK]));
        }
        let expected = vec![
            of_a,
            Ok(()),
            of_a,
            Err(ErrorCode::InvalidKey),
            Err(ErrorCode::InvalidParams),
            of_a,
        ];
        assert_eq!(play_upsert(&items, turns), expected);
    }
}

#[test]
fn an_item_that_is_not_sent_takes_nothing_from_those_before_it() {
    let items = [PutItem::new("a", 10), PutItem::new("a", 0)];
    let turns = vec![
        Turn::Call(0, start(&items[..1]), granted(vec![grant(5, &[(0, 0, 0, 10)])])),
        Turn::Write(0, 1, vec![(0, 0, 0)], vec![OK]),
        Turn::Call(0, end(&[("a", 5)]), statuses(vec![Ok(())])),
    ];
    assert_eq!(play_upsert(&items, turns), vec![Ok(()), Err(ErrorCode::InvalidParams)]);
}

/// An upsert of `a` under this grant; its node already knows a newer grant, and refuses the write.
fn is_overtaken<'a>(items: &'a [PutItem<'a>], counter: u64) -> Vec<Turn<'a>> {
    let refused = Err(MoveError::Refused(ErrorCode::InvalidVersion));
    let revoke = Request::PutRevoke { puts: vec![PutRevoke::new("a", version(counter))] };
    vec![
        Turn::Call(0, start(items), granted(vec![grant(counter, &[(0, 0, 16 * counter, 10)])])),
        Turn::Write(0, 1, vec![(0, 0, 16 * counter)], vec![refused]),
        Turn::Call(0, revoke, statuses(vec![Ok(())])),
    ]
}

#[test]
fn an_upsert_that_newer_ones_overtake_is_tried_until_it_is_the_newest() {
    let items = [PutItem::new("a", 10)];
    for newer in 0..=7 {
        let mut turns: Vec<_> = (1..=newer).flat_map(|at| is_overtaken(&items, at)).collect();
        turns.extend([
            Turn::Call(0, start(&items), granted(vec![grant(9, &[(0, 1, 0, 10)])])),
            Turn::Write(0, 1, vec![(0, 1, 0)], vec![OK]),
            Turn::Call(0, end(&[("a", 9)]), statuses(vec![Ok(())])),
        ]);
        assert_eq!(play_upsert(&items, turns), vec![Ok(())], "{newer} newer ones");
    }
    let turns = (1..=8).flat_map(|at| is_overtaken(&items, at)).collect();
    assert_eq!(play_upsert(&items, turns), vec![Err(ErrorCode::TransferFail)]);
}

#[test]
fn codes_of_the_master_are_answered_as_they_are() {
    let items = [PutItem::new("a", 10)];
    for code in [
        ErrorCode::ObjectHasReplicationTask,
        ErrorCode::InvalidParams,
        ErrorCode::NoAvailableHandle,
    ] {
        let turns = vec![Turn::Call(0, start(&items), granted(vec![Err(code)]))];
        assert_eq!(play_upsert(&items, turns), vec![Err(code)]);
    }
}

#[test]
fn a_put_whose_key_an_upsert_took_meanwhile_is_answered_like_a_taken_key() {
    let items = [PutItem::new("a", 10)];
    let start = Request::PutStart(PutStart { puts: items.to_vec(), ..PutStart::default() });
    let taken = ErrorCode::ObjectAlreadyExists;
    let turns = vec![
        Turn::Call(0, start, granted(vec![grant(5, &[(0, 0, 0, 10)])])),
        Turn::Write(0, 1, vec![(0, 0, 0)], vec![OK]),
        Turn::Call(0, end(&[("a", 5)]), statuses(vec![Err(taken)])),
        // The entry is dropped, so that no later leader finds it.
        Turn::Drop(0, vec![(0, 0, 5)], vec![Err(MoveError::Broken)]),
    ];
    let ended = play(PutOp::new(&items, &ReplicateConfig::default()), turns);
    assert_eq!(ended, vec![Err(taken)]);
}

#[test]
fn groups_travel_with_their_objects_and_long_names_are_refused() {
    let long = "g".repeat(limits::MAX_GROUP_BYTES + 1);
    let named = |group| PutItem { group, ..PutItem::new("a", 10) };
    let items = [named(&long), named(&long[1..]), PutItem { key: "b", ..named("g") }];
    let turns = vec![
        Turn::Call(
            0,
            start(&items[1..]),
            granted(vec![grant(5, &[(0, 0, 0, 10)]), Err(ErrorCode::InvalidParams)]),
        ),
        Turn::Write(0, 1, vec![(1, 0, 0)], vec![OK]),
        Turn::Call(0, end(&[("a", 5)]), statuses(vec![Ok(())])),
    ];
    let refused = Err(ErrorCode::InvalidParams);
    assert_eq!(play_upsert(&items, turns), vec![refused, Ok(()), refused]);
}
