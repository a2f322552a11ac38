use mooncake_engine::{
    Engine, EngineConfig, Metadata, MoveError, Opcode, OpenError, PeerError, RegisterError,
};
use mooncake_memory::RawSlice;
use mooncake_transfer::TransferError;
use mooncake_types::ErrorCode;

use crate::rig::{address, config, engine, fill, memory, move_one, piece};

const BOTH: [Opcode; 2] = [Opcode::Read, Opcode::Write];

#[test]
fn memory_that_a_peer_has_not_registered_is_neither_read_nor_written() {
    let (near, far) = (memory(200), memory(300));
    fill(far, &[5; 300]);
    let (here, there) = (engine(), engine());
    here.register(near.raw()).expect("free");
    there.register(far.raw().sub(100, 100)).expect("free");
    let start = address(far) + 100;
    let refused = |remote: u64, len: u64| {
        for opcode in BOTH {
            let code = match opcode {
                Opcode::Read => ErrorCode::InvalidRead,
                Opcode::Write => ErrorCode::InvalidWrite,
            };
            let result = move_one(&here, there.name(), opcode, piece(address(near), remote, len));
            let expected = MoveError::Transfer(TransferError::Refused(code));
            assert_eq!(result, Err(expected), "{opcode:?} of {len} at {remote:#x}");
        }
    };
    for (remote, len) in [
        (start - 1, 1),
        (start + 100, 1),
        (start - 1, 2),
        (start + 99, 2),
        (start, 101),
        (0, 1),
        (u64::MAX, 2),
    ] {
        refused(remote, len);
    }
    assert_eq!(far.raw().to_vec(), [5; 300]);
    for opcode in BOTH {
        let fine = piece(address(near), start, 100);
        assert_eq!(move_one(&here, there.name(), opcode, fine), Ok(()), "the connection is fine");
    }
}

#[test]
fn memory_that_this_process_has_not_registered_is_neither_read_nor_written() {
    let (near, far) = (memory(300), memory(300));
    let (here, there) = (engine(), engine());
    here.register(near.raw().sub(100, 100)).expect("free");
    there.register(far.raw()).expect("free");
    let start = address(near) + 100;
    for (local, len) in [
        (start - 1, 1),
        (start + 100, 1),
        (start + 99, 2),
        (start, u64::MAX),
        (0, 1),
        (u64::MAX, 1),
    ] {
        for opcode in BOTH {
            let written = opcode == Opcode::Read;
            let expected = MoveError::NotRegistered { start: local, len, written };
            let result = move_one(&here, there.name(), opcode, piece(local, address(far), len));
            assert_eq!(result, Err(expected));
        }
    }
    let source = memory(10);
    assert!(here.fill(start + 95, source.raw()).is_err());
    assert!(here.peek(start - 1, 2).is_err());
    assert!(here.peek(start, u64::MAX).is_err());
}

#[test]
fn a_large_write_that_is_refused_is_told_why() {
    const LEN: usize = 80 << 20;
    let (near, far) = (memory(LEN), memory(100));
    let (here, there) = (engine(), engine());
    here.register(near.raw()).expect("free");
    there.register(far.raw()).expect("free");
    let whole = piece(address(near), address(far), LEN as u64);
    let refused = Err(TransferError::Refused(ErrorCode::InvalidWrite).into());
    assert_eq!(move_one(&here, there.name(), Opcode::Write, whole), refused);
    let small = piece(address(near), address(far), 100);
    assert_eq!(move_one(&here, there.name(), Opcode::Write, small), Ok(()), "the next one is fine");
}

#[test]
fn nothing_is_moved_at_once_wherever_it_lies() {
    let (here, there) = (engine(), engine());
    for pieces in [vec![], vec![piece(0, 0, 0), piece(u64::MAX, u64::MAX, 0)]] {
        for opcode in BOTH {
            assert_eq!(here.transfer(there.name(), opcode, &pieces, None), Ok(()));
        }
    }
}

#[test]
fn one_bad_piece_fails_the_transfer() {
    let (near, far) = (memory(100), memory(100));
    let (here, there) = (engine(), engine());
    here.register(near.raw()).expect("free");
    there.register(far.raw()).expect("free");
    let (good, bad) = (piece(address(near), address(far), 10), piece(address(near) + 10, 8, 10));
    for pieces in [[good, bad], [bad, good]] {
        let result = here.transfer(there.name(), Opcode::Read, &pieces, None);
        assert_eq!(result, Err(TransferError::Refused(ErrorCode::InvalidRead).into()));
    }
    let lens = [u64::MAX, u64::MAX].map(|len| piece(address(near), address(far), len));
    assert!(here.transfer(there.name(), Opcode::Read, &lens, None).is_err());
}

#[test]
fn a_transfer_has_a_bounded_number_of_pieces() {
    let engine = engine();
    let pieces = vec![piece(0, 0, 0); mooncake_engine::MAX_PIECES + 1];
    let too_large = Err(MoveError::TooLarge { pieces: pieces.len() });
    assert_eq!(engine.transfer(engine.name(), Opcode::Read, &pieces, None), too_large);
}

#[test]
fn memory_is_registered_once() {
    let bytes = memory(100);
    let engine = engine();
    assert_eq!(engine.register(bytes.raw()), Ok(()));
    let (start, len) = (address(bytes), 100);
    assert_eq!(engine.register(bytes.raw()), Err(RegisterError::Overlaps { start, len }));
    let inner = engine.register(bytes.raw().sub(10, 10));
    assert_eq!(inner, Err(RegisterError::Overlaps { start: start + 10, len: 10 }));
    let nowhere = engine.register(RawSlice::unmapped(10));
    assert_eq!(nowhere, Err(RegisterError::NotMapped { start: 16, len: 10 }));
    assert_eq!(engine.unregister(start), Ok(()));
    assert!(engine.unregister(start).is_err());
    assert_eq!(engine.register(bytes.raw()), Ok(()));
}

#[test]
fn names_that_cannot_be_peers_are_refused() {
    let engine = engine();
    for name in ["", "nobody", "a:b", "http://a:1", "a b:1", &"x".repeat(600)] {
        let result = engine.probe(name);
        assert!(matches!(result, Err(PeerError::Name { .. })), "{result:?}");
    }
}

#[test]
fn an_engine_says_why_it_does_not_open() {
    let with = |local_hostname: &str| {
        let local_hostname = local_hostname.to_owned();
        Engine::open(EngineConfig { local_hostname, ..config() }).expect_err("no such host")
    };
    for name in ["a:b", "nowhere.invalid", &"x".repeat(600)] {
        assert!(matches!(with(name), OpenError::Address { .. }), "{name}");
    }
    let http = |url: &str| {
        let metadata = Metadata::Http { url: url.to_owned() };
        Engine::open(EngineConfig { metadata, ..config() }).expect_err("nobody is there")
    };
    for url in ["http://127.0.0.1:9/metadata", "http://", "nonsense", "http://[::1/x"] {
        let error = http(url);
        assert!(matches!(error, OpenError::Metadata { .. }), "{error}");
    }
}
