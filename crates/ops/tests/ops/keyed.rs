use mooncake_ops::{
    ExistOp, LocateOp, ObjectLocation, Op, RemoveOp, ReplicaLocation, Step, Stripe,
};
use mooncake_types::{ErrorCode, Reply, Request, Tick, limits};

use crate::script::{Turn, failures, found, located, play, segments, statuses, version};

#[test]
fn answers_stand_where_the_keys_stood() {
    let keys = ["a", "", "b", "a"];
    let ask = Request::exist(vec!["a", "b", "a"]);
    let reply = Ok(Reply::Exist(vec![Ok(true), Ok(false), Err(ErrorCode::InternalError)]));
    let expected =
        vec![Ok(true), Err(ErrorCode::InvalidKey), Ok(false), Err(ErrorCode::InternalError)];
    assert_eq!(play(ExistOp::new(&keys), vec![Turn::Call(0, ask, reply)]), expected);

    let ask = Request::Remove { keys: vec!["a", "b", "a"], force: true };
    let answers = vec![Ok(()), Err(ErrorCode::ObjectHasLease), Err(ErrorCode::ObjectNotFound)];
    let expected = vec![
        Ok(()),
        Err(ErrorCode::InvalidKey),
        Err(ErrorCode::ObjectHasLease),
        Err(ErrorCode::ObjectNotFound),
    ];
    let turns = vec![Turn::Call(0, ask, statuses(answers))];
    assert_eq!(play(RemoveOp::new(&keys, true), turns), expected);
}

#[test]
fn a_location_names_the_segments_of_every_replica() {
    let keys = ["a", "b", "c"];
    let ask = Request::GetReplicaList { keys: keys.to_vec() };
    let reply = found(vec![
        located(7, 10, &[(0, 2, 64, 10), (2, 0, 0, 4), (2, 1, 8, 6)]),
        Err(ErrorCode::ObjectNotFound),
        located(7, 10, &[(0, 2, 64, 9)]),
    ]);
    let stripe =
        |segment: usize, offset, len| Stripe { segment: segments()[segment].clone(), offset, len };
    let location = ObjectLocation {
        version: version(7),
        len: 10,
        replicas: vec![
            ReplicaLocation { number: 0, stripes: vec![stripe(2, 64, 10)] },
            ReplicaLocation { number: 2, stripes: vec![stripe(0, 0, 4), stripe(1, 8, 6)] },
        ],
    };
    let names: Vec<&str> = location.segment_names().map(|name| &**name).collect();
    assert_eq!(names, ["segment 2", "segment 0", "segment 1"]);
    let expected =
        vec![Ok(location), Err(ErrorCode::ObjectNotFound), Err(ErrorCode::InternalError)];
    assert_eq!(play(LocateOp::new(&keys), vec![Turn::Call(0, ask, reply)]), expected);
}

#[test]
fn long_lists_are_cut_and_a_master_that_is_gone_is_asked_once() {
    let names: Vec<String> = (0..10_000).map(|number| format!("key {number}")).collect();
    let keys: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut op = ExistOp::new(&keys);
    let mut parts = Vec::new();
    while let Step::Call(Request::ExistKey { keys, .. }) = op.next(Tick(0)) {
        parts.push(keys.len());
        op.on_reply(Ok(Reply::Exist(vec![Ok(true); keys.len()])));
    }
    assert_eq!(parts, vec![limits::MAX_BATCH_KEYS, limits::MAX_BATCH_KEYS, 1808]);
    assert_eq!(op.finish(), vec![Ok(true); keys.len()]);

    for (error, code) in failures() {
        let mut op = ExistOp::new(&keys);
        assert!(matches!(op.next(Tick(0)), Step::Call(_)));
        op.on_reply(Err(error));
        assert_eq!(op.next(Tick(0)), Step::Done);
        assert_eq!(op.finish(), vec![Err(code); keys.len()]);
    }
}

#[test]
fn replies_that_make_no_sense_are_errors() {
    for (reply, expected) in [
        (Reply::Exist(vec![]), ErrorCode::InternalError),
        (Reply::Exist(vec![Ok(true); 2]), ErrorCode::InternalError),
        (Reply::Statuses(vec![Ok(())]), ErrorCode::InternalError),
        (Reply::Refused(ErrorCode::InvalidParams), ErrorCode::InvalidParams),
    ] {
        let ask = Request::exist(vec!["a"]);
        let turns = vec![Turn::Call(0, ask, Ok(reply.clone()))];
        assert_eq!(play(ExistOp::new(&["a"]), turns), vec![Err(expected)], "{reply:?}");
    }
}
