use std::time::Duration;

use mooncake_engine::{BatchStatus, MoveError, Opcode};

use crate::rig::{address, engine, fill, memory, pattern, piece};

const LONG: Duration = Duration::from_secs(60);

#[test]
fn tickets_tell_how_their_transfers_end() {
    let (near, far) = (memory(4 << 20), memory(4 << 20));
    let (here, there) = (engine(), engine());
    here.register(near.raw()).expect("free");
    there.register(far.raw()).expect("free");
    let sent = pattern(9, 4 << 20);
    fill(near, &sent);
    let whole = piece(address(near), address(far), 4 << 20);
    let good = here.start(there.name(), Opcode::Write, &[whole]).expect("there is room");
    let bad = here.start(there.name(), Opcode::Write, &[piece(address(near), 8, 8)]);
    let bad = bad.expect("only the peer knows");
    assert_eq!(good.wait(LONG), BatchStatus::Done);
    assert!(far.raw().to_vec() == sent);
    assert_eq!((bad.wait(LONG), bad.status()), (BatchStatus::Failed, BatchStatus::Failed));
    let refused = here.start(there.name(), Opcode::Read, &[piece(1, 1, 1)]).map(|_| ());
    assert_eq!(refused, Err(MoveError::NotRegistered { start: 1, len: 1, written: true }));
    // They outlive the engine, and more ends than its table of numbers keeps.
    for _ in 0..70_000 {
        let empty = here.start(here.name(), Opcode::Read, &[]).expect("there is room");
        assert_eq!(empty.wait(LONG), BatchStatus::Done);
    }
    drop(here);
    assert_eq!(good.status(), BatchStatus::Done);
}

#[test]
fn an_engine_that_is_dropped_ends_the_transfers_of_tickets() {
    let (near, far) = (memory(32 << 20), memory(32 << 20));
    let there = engine();
    there.register(far.raw()).expect("free");
    let here = engine();
    here.register(near.raw()).expect("free");
    let whole = piece(address(near), address(far), 32 << 20);
    let start = |_| here.start(there.name(), Opcode::Read, &[whole]).expect("there is room");
    let tickets: Vec<_> = (0..20).map(start).collect();
    drop(here);
    for ticket in tickets {
        assert_ne!(ticket.status(), BatchStatus::Running);
    }
}
