use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use mooncake_engine::{Engine, Opcode};
use mooncake_types::{ClientId, Epoch, RangeWrite, Seal, SegmentId, Version};
use mooncake_wire::{HEADER_LEN, Header, Hello, Role, encode_hello, encode_write};

use crate::rig::{address, engine, fill, memory, move_one, pattern, piece};

#[test]
fn memory_that_was_unregistered_is_never_touched_again() {
    const LEN: usize = 16 << 20;
    let (near, far) = (memory(LEN), memory(LEN));
    let (here, there) = (engine(), engine());
    here.register(near.raw()).expect("free");
    let marked = pattern(99, LEN);
    let whole = piece(address(near), address(far), LEN as u64);
    let mut outcomes = [0, 0];
    for round in 0..30 {
        there.register(far.raw()).expect("free");
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| move_one(&here, there.name(), Opcode::Write, whole));
            let pause = Instant::now() + Duration::from_micros(round * 300);
            while Instant::now() < pause {
                std::hint::spin_loop();
            }
            assert_eq!(there.unregister(address(far)), Ok(()));
            fill(far, &marked);
            let written = writer.join().expect("no panic");
            outcomes[usize::from(written.is_ok())] += 1;
            assert!(
                far.raw().to_vec() == marked,
                "round {round}: touched after it was unregistered"
            );
        });
    }
    println!("{} transfers failed, {} were done", outcomes[0], outcomes[1]);
}

#[test]
fn memory_of_a_submitted_transfer_is_held_until_it_ends() {
    const LEN: usize = 32 << 20;
    let (near, far) = (memory(LEN), memory(LEN));
    let (here, there) = (engine(), engine());
    there.register(far.raw()).expect("free");
    fill(far, &pattern(4, LEN));
    let marked = pattern(77, LEN);
    for round in 0..10 {
        here.register(near.raw()).expect("free");
        let whole = piece(address(near), address(far), LEN as u64);
        let number = here.submit(there.name(), Opcode::Read, &[whole]).expect("there is room");
        assert_eq!(here.unregister(address(near)), Ok(()));
        fill(near, &marked);
        assert!(here.wait(&[number]), "round {round}: the transfer was let finish");
        assert!(near.raw().to_vec() == marked, "round {round}: touched after it was unregistered");
    }
}

/// A client that has sent `sent` bytes of a write of `len` bytes.
fn stalled_writer(peer: &Engine, start: u64, len: u64, sent: usize) -> TcpStream {
    let mut stream = TcpStream::connect(peer.name()).expect("it listens");
    let cluster_id = "transfer-engine".to_owned();
    let hello = Hello { cluster_id, ..Hello::new(Role::Client, ClientId(1)) };
    let mut frame = Vec::new();
    encode_hello(&mut frame, 0, &hello);
    stream.write_all(&frame).expect("it reads");
    let mut head = [0; HEADER_LEN];
    stream.read_exact(&mut head).expect("it answers");
    let len_welcome = Header::decode(&head).expect("a header").body_len as usize;
    stream.read_exact(&mut vec![0; len_welcome]).expect("it answers");
    let version = Version { epoch: Epoch(0), counter: 1 };
    let range = RangeWrite {
        segment: SegmentId(u128::from_be_bytes(*b"engine:memory\0\0\0")),
        offset: start,
        entry_len: len,
        from: 0,
        len,
        key: "-",
        version,
        grant: version,
        object_len: len,
        object_offset: 0,
        attributes: &[],
        seal: Seal::NONE,
    };
    frame.clear();
    encode_write(&mut frame, 1, Epoch(0), &[range]);
    frame.resize(frame.len() + sent, 1);
    stream.write_all(&frame).expect("it reads");
    stream
}

#[test]
fn a_peer_that_stalls_is_cut_off() {
    const LEN: usize = 1 << 20;
    let far = memory(LEN);
    let there = engine();
    there.register(far.raw()).expect("free");
    let mut stream = stalled_writer(&there, address(far), LEN as u64, 1000);
    crate::rig::wait_until("the write has begun", || far.raw().sub(0, 1000).to_vec() == [1; 1000]);
    let begun = Instant::now();
    assert_eq!(there.unregister(address(far)), Ok(()));
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    fill(far, &[9; LEN]);
    let _ = stream.write_all(&[1; LEN]);
    assert!(!matches!(stream.read(&mut [0; 100]), Ok(1..)), "the connection is closed");
    assert!(far.raw().to_vec() == [9; LEN], "touched after it was unregistered");
}
