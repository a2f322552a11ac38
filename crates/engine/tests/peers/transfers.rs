use mooncake_engine::{Engine, EngineConfig, Note, Opcode};

use crate::rig::{address, config, engine, fill, memory, move_one, pattern, piece};

#[test]
fn bytes_go_there_and_back() {
    let (near, far) = (memory(9 << 20), memory(9 << 20));
    let (here, there) = (engine(), engine());
    here.register(near.raw()).expect("free");
    there.register(far.raw()).expect("free");
    for (seed, len) in
        [1, 100, 4096, 16 << 10, (16 << 10) + 1, 1 << 20, 9 << 20].into_iter().enumerate()
    {
        let sent = pattern(seed as u64, len);
        near.raw().sub(0, len).write_from(&sent);
        let whole = piece(address(near), address(far), len as u64);
        assert_eq!(move_one(&here, there.name(), Opcode::Write, whole), Ok(()));
        assert_eq!(far.raw().sub(0, len).to_vec(), sent, "{len} bytes written");
        near.raw().write_from(&vec![0; 9 << 20]);
        assert_eq!(move_one(&here, there.name(), Opcode::Read, whole), Ok(()));
        assert_eq!(near.raw().sub(0, len).to_vec(), sent, "{len} bytes read");
    }
}

#[test]
fn many_pieces_go_at_once_each_to_its_place() {
    const COUNT: u64 = 3000;
    let (near, far) = (memory(1 << 20), memory(1 << 20));
    let (here, there) = (engine(), engine());
    here.register(near.raw()).expect("free");
    there.register(far.raw()).expect("free");
    fill(near, &pattern(7, 1 << 20));
    // The pieces lie in reverse order at the peer, with gaps, and some are empty.
    let pieces: Vec<_> = (0..COUNT)
        .map(|n| piece(address(near) + n * 300, address(far) + (COUNT - 1 - n) * 300, n % 300))
        .collect();
    assert_eq!(here.transfer(there.name(), Opcode::Write, &pieces, None), Ok(()));
    let (sent, found) = (near.raw().to_vec(), far.raw().to_vec());
    let mut expected = vec![0; 1 << 20];
    for n in 0..COUNT as usize {
        let (from, to, len) = (n * 300, (COUNT as usize - 1 - n) * 300, n % 300);
        expected[to..to + len].copy_from_slice(&sent[from..from + len]);
    }
    assert!(found == expected, "pieces are out of place");
    fill(near, &vec![0; 1 << 20]);
    assert_eq!(here.transfer(there.name(), Opcode::Read, &pieces, None), Ok(()));
    let read = near.raw().to_vec();
    for n in 0..COUNT as usize {
        assert_eq!(read[n * 300..][..n % 300], sent[n * 300..][..n % 300], "piece {n}");
    }
}

#[test]
fn an_engine_is_its_own_peer() {
    let bytes = memory(200);
    let engine = engine();
    engine.register(bytes.raw()).expect("free");
    bytes.raw().sub(0, 100).write_from(&pattern(1, 100));
    let halves = piece(address(bytes), address(bytes) + 100, 100);
    assert_eq!(move_one(&engine, engine.name(), Opcode::Write, halves), Ok(()));
    assert_eq!(bytes.raw().to_vec(), [pattern(1, 100), pattern(1, 100)].concat());
    assert_eq!(engine.first_buffer(engine.name()), Ok(address(bytes)));
    assert_eq!(engine.probe(engine.name()), Ok(()));
    let note = Note { name: "to".to_owned(), text: "myself".to_owned() };
    assert_eq!(engine.transfer(engine.name(), Opcode::Read, &[halves], Some(&note)), Ok(()));
    assert_eq!((engine.take_notes(), engine.take_notes()), (vec![note], vec![]));
}

#[test]
fn addresses_may_be_of_either_kind() {
    let (near, far) = (memory(100), memory(100));
    let config = |host: &str| EngineConfig { local_hostname: host.to_owned(), ..config() };
    let Ok(there) = Engine::open(config("[::1]:1")) else {
        eprintln!("skipped: this machine has no IPv6");
        return;
    };
    let here = Engine::open(config("localhost")).expect("a port is free");
    here.register(near.raw()).expect("free");
    there.register(far.raw()).expect("free");
    fill(far, &pattern(8, 100));
    assert!(there.name().starts_with("[::1]:"), "{}", there.name());
    let whole = piece(address(near), address(far), 100);
    assert_eq!(move_one(&here, there.name(), Opcode::Read, whole), Ok(()));
    assert_eq!(near.raw().to_vec(), pattern(8, 100));
}

#[test]
fn a_peer_tells_where_its_memory_begins() {
    let (first, second) = (memory(100), memory(100));
    let (here, there) = (engine(), engine());
    assert_eq!(here.first_buffer(there.name()), Ok(0));
    assert_eq!(here.probe(there.name()), Ok(()));
    there.register(first.raw()).expect("free");
    there.register(second.raw()).expect("free");
    assert_eq!(here.first_buffer(there.name()), Ok(address(first)));
    there.unregister(address(first)).expect("registered");
    assert_eq!(here.first_buffer(there.name()), Ok(address(second)));
}

#[test]
fn a_note_follows_its_bytes() {
    let (near, far) = (memory(1 << 20), memory(1 << 20));
    let (here, there) = (engine(), engine());
    here.register(near.raw()).expect("free");
    there.register(far.raw()).expect("free");
    for seed in 0..20 {
        let sent = pattern(seed, 1 << 20);
        fill(near, &sent);
        let note = Note { name: "chunk".to_owned(), text: seed.to_string() };
        let whole = piece(address(near), address(far), 1 << 20);
        std::thread::scope(|scope| {
            let send = || here.transfer(there.name(), Opcode::Write, &[whole], Some(&note));
            let sender = scope.spawn(send);
            let mut notes = Vec::new();
            crate::rig::wait_until("a note comes", || {
                notes = there.take_notes();
                !notes.is_empty()
            });
            assert!(far.raw().to_vec() == sent, "the bytes were there before the note");
            assert_eq!(notes, std::slice::from_ref(&note));
            assert_eq!(sender.join().expect("no panic"), Ok(()));
        });
    }
    let refused = Note { name: "x".to_owned(), text: "x".repeat(mooncake_engine::MAX_NOTE_BYTES) };
    assert!(here.transfer(there.name(), Opcode::Write, &[], Some(&refused)).is_err());
}

#[test]
fn many_threads_use_one_engine() {
    let (near, far) = (memory(8 << 20), memory(8 << 20));
    let (here, there) = (engine(), engine());
    here.register(near.raw()).expect("free");
    there.register(far.raw()).expect("free");
    std::thread::scope(|scope| {
        for lane in 0..10_usize {
            let (here, there, near, far) = (&here, &there, near, far);
            scope.spawn(move || {
                let from = lane * (512 << 10);
                for round in 0..20 {
                    let sent = pattern((lane * 100 + round) as u64, 512 << 10);
                    let own = near.raw().sub(from, 512 << 10);
                    own.write_from(&sent);
                    let from = from as u64;
                    let part = piece(address(near) + from, address(far) + from, 512 << 10);
                    assert_eq!(move_one(here, there.name(), Opcode::Write, part), Ok(()));
                    own.write_from(&vec![0; 512 << 10]);
                    assert_eq!(move_one(here, there.name(), Opcode::Read, part), Ok(()));
                    assert!(own.to_vec() == sent, "lane {lane}, round {round}");
                }
            });
        }
    });
}

#[test]
fn memory_of_the_engines_own_is_filled_and_looked_at() {
    let source = memory(50);
    fill(source, &pattern(3, 50));
    let (here, there) = (engine(), engine());
    let (near, far) = (here.allocate(100).expect("memory"), there.allocate(100).expect("memory"));
    assert_eq!(here.fill(near + 50, source.raw()), Ok(()));
    let whole = piece(near, far, 100);
    assert_eq!(move_one(&here, there.name(), Opcode::Write, whole), Ok(()));
    assert_eq!(there.peek(far, 100), Ok([vec![0; 50], pattern(3, 50)].concat()));
    assert_eq!((here.free(near, 100), there.free(far, 100)), (Ok(()), Ok(())));
    assert!(there.peek(far, 1).is_err());
}
