use mooncake_engine::{BatchStatus, MoveError, Opcode, PeerError};

use crate::rig::{address, engine, fill, memory, pattern, piece, wait_until};

#[test]
fn submitted_transfers_are_done_in_the_background() {
    let (near, far) = (memory(4 << 20), memory(4 << 20));
    let (here, there) = (engine(), engine());
    here.register(near.raw()).expect("free");
    there.register(far.raw()).expect("free");
    let sent = pattern(5, 4 << 20);
    fill(near, &sent);
    let pieces: Vec<_> = (0..64)
        .map(|n| n << 16)
        .map(|at| piece(address(near) + at, address(far) + at, 1 << 16))
        .collect();
    let submit =
        |opcode, pieces: &[_]| here.submit(there.name(), opcode, pieces).expect("there is room");
    let numbers: Vec<u64> = pieces.chunks(4).map(|some| submit(Opcode::Write, some)).collect();
    assert!(here.wait(&numbers));
    assert!(far.raw().to_vec() == sent);
    fill(near, &vec![0; 4 << 20]);
    let number = submit(Opcode::Read, &pieces);
    let mut status = BatchStatus::Running;
    wait_until("the transfer ends", || {
        status = here.status(number);
        status != BatchStatus::Running
    });
    assert_eq!((status, here.status(number)), (BatchStatus::Done, BatchStatus::Failed));
    assert!(near.raw().to_vec() == sent);
    assert!(here.wait(&[submit(Opcode::Read, &[])]), "an empty one is done");
}

#[test]
fn what_can_be_known_is_refused_at_once_and_the_rest_later() {
    let near = memory(100);
    let (here, there) = (engine(), engine());
    here.register(near.raw()).expect("free");
    let unregistered = here.submit(there.name(), Opcode::Write, &[piece(1, 1, 1)]);
    let expected = MoveError::NotRegistered { start: 1, len: 1, written: false };
    assert_eq!(unregistered, Err(expected));
    let nobody = here.submit("127.0.0.1:9", Opcode::Write, &[]);
    assert!(matches!(nobody, Err(MoveError::Peer(PeerError::Silent { .. }))), "{nobody:?}");
    let refused = here.submit(there.name(), Opcode::Write, &[piece(address(near), 8, 8)]);
    assert!(!here.wait(&[refused.expect("only the peer knows")]));
}

#[test]
fn an_engine_that_is_dropped_ends_its_transfers() {
    let (near, far) = (memory(32 << 20), memory(32 << 20));
    let there = engine();
    there.register(far.raw()).expect("free");
    for _ in 0..5 {
        let here = engine();
        here.register(near.raw()).expect("free");
        let whole = piece(address(near), address(far), 32 << 20);
        for _ in 0..8 {
            here.submit(there.name(), Opcode::Read, &[whole]).expect("there is room");
        }
        drop(here);
        let seen = near.raw().to_vec();
        fill(near, &seen);
        assert_eq!(there.probe(there.name()), Ok(()));
    }
}
