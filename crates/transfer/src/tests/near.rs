//! Nodes of this host: reads with and without a message, and readers and writers that meet in shared memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mooncake_memory::Buffer;
use mooncake_types::ErrorCode;

use super::rig::{
    EPOCH, Node, Object, all_ok, by, read_all, server_config, tcp, tcp_config, version, wait_until,
    write_all,
};
use crate::testing::first_mismatch;
use crate::{Distance, Paths, ServerConfig, TcpConfig, TransferError, Transport, Transports};

#[test]
fn what_is_complete_is_read_without_a_message() {
    for ways in ["shm", "process_vm"] {
        let (node, transport) = (Node::start(1, 8 << 20), by(ways));
        let objects: Vec<Object> = [(0, 100), (4096, 4096), (1 << 20, 3 << 20)]
            .into_iter()
            .zip(1..)
            .map(|((offset, len), counter)| Object::at(&node, offset, len, counter))
            .collect();
        assert_eq!(write_all(&transport, &objects), all_ok(3));
        assert_eq!(read_all(&transport, &objects), all_ok(3));
        assert_eq!(node.host.reads(), 0, "{ways}");
        let newer = Object { version: version(9), ..objects[1].clone() };
        assert_eq!(write_all(&transport, std::slice::from_ref(&newer)), all_ok(1));
        let stale = Err(TransferError::Stale);
        assert_eq!(read_all(&transport, &[objects[1].clone(), newer]), [stale, Ok(())]);
        assert_eq!(node.host.reads(), 0, "{ways}");
    }
}

#[test]
fn what_is_not_in_the_table_is_read_by_message() {
    let (node, transport) = (Node::start(1, 1 << 20), by("shm"));
    // The objects fall into one group and one set of the table, so not all get a slot.
    let objects: Vec<Object> =
        (0..100).map(|index| Object::at(&node, index * 8, 8, index + 1)).collect();
    assert_eq!(write_all(&tcp(), &objects), all_ok(100));
    assert_eq!(read_all(&transport, &objects), all_ok(100));
    assert_eq!(node.host.reads(), 100 - 32);
}

#[test]
fn a_node_that_shares_nothing_is_reached_by_tcp() {
    let config = ServerConfig { local_socket: false, ..server_config() };
    let node = Node::with_config(1, 1 << 20, config);
    let object = [Object::at(&node, 0, 1000, 1)];
    assert_eq!(write_all(&by("shm,tcp"), &object), all_ok(1));
    assert_eq!(read_all(&by("shm,process_vm,tcp"), &object), all_ok(1));
    assert_eq!(node.host.reads(), 1);
    let only = by("shm");
    assert!(matches!(only.distance(&node.endpoint), Distance::NotOffered));
    let reason = "it shares no memory, and only these transports are allowed: shm".to_owned();
    let error = TransferError::Unreachable { endpoint: Arc::clone(&node.endpoint), reason };
    assert_eq!(read_all(&only, &object), [Err(error.clone())]);
    assert_eq!(write_all(&only, &object), [Err(error)]);
}

#[test]
fn tcp_alone_is_tcp_alone() {
    let node = Node::start(1, 1 << 20);
    let object = [Object::at(&node, 0, 1000, 1)];
    for ways in ["tcp", "tcp,shm"] {
        assert_eq!(write_all(&by(ways), &object), all_ok(1));
    }
    assert_eq!(read_all(&by("tcp"), &object), all_ok(1));
    assert_eq!(node.host.reads(), 1);
}

#[test]
fn a_secret_is_asked_for_on_the_local_socket_too() {
    let node = Node::start(1, 1 << 20);
    let config = TcpConfig { auth_token: "a guess".into(), ..tcp_config() };
    let stranger = Paths::new(None, config, Transports::default());
    let refused = Err(TransferError::Refused(ErrorCode::IllegalClient));
    assert_eq!(read_all(&stranger, &[Object::at(&node, 0, 10, 1)]), [refused]);
}

#[test]
fn a_node_that_stops_is_noticed() {
    let (node, transport) = (Node::start(1, 1 << 20), by("shm,tcp"));
    let object = [Object::at(&node, 0, 100_000, 1)];
    assert_eq!(write_all(&transport, &object), all_ok(1));
    assert_eq!(read_all(&transport, &object), all_ok(1));
    node.server.stop();
    wait_until("the memory is let go", || {
        let held = node.host.region(node.segment).map(|region| Arc::strong_count(&region));
        let missed = matches!(
            read_all(&transport, &object)[..],
            [Err(TransferError::Unreachable { .. } | TransferError::Deserted { .. })]
        );
        missed && held == Some(2)
    });
}

#[test]
fn what_a_node_that_has_just_stopped_held_is_not_read_from_the_map() {
    for counter in 1..=20 {
        let (node, transport) = (Node::start(1, 1 << 20), by("shm"));
        let object = [Object::at(&node, 0, 100_000, counter)];
        assert_eq!(write_all(&transport, &object), all_ok(1));
        assert_eq!(read_all(&transport, &object), all_ok(1));
        node.server.stop();
        let results = read_all(&transport, &object);
        assert!(matches!(results[..], [Err(TransferError::Unreachable { .. })]), "{results:?}");
    }
}

#[test]
fn a_node_that_takes_no_more_connections_is_reached_by_one_that_is_open() {
    // One connection by TCP, and one that tells whether the node lives.
    let config = ServerConfig { max_connections: 2, ..server_config() };
    let node = Node::with_config(1, 1 << 20, config);
    let (transport, object) = (by("shm,tcp"), [Object::at(&node, 0, 100_000, 1)]);
    assert_eq!(write_all(&transport, &object), all_ok(1));
    assert_eq!(read_all(&transport, &object), all_ok(1));
    assert_eq!(node.host.reads(), 1);
}

/// Readers and writers use the same ranges at the same time. A reader gets the version that it asked for, or nothing.
#[test]
fn readers_and_writers_that_meet_mix_no_bytes() {
    const RANGES: usize = 3;
    const LEN: u64 = 200_000;
    for ways in ["shm", "process_vm"] {
        let node = Node::start(1, 1 << 20);
        let newest: [AtomicU64; RANGES] = std::array::from_fn(|_| AtomicU64::new(0));
        let stop = AtomicBool::new(false);
        let object = |range: usize, counter| Object::at(&node, range as u64 * LEN, LEN, counter);
        let deadline = Instant::now() + Duration::from_millis(700);
        let (mut written, mut seen) = (0, 0);
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..2)
                .map(|reader| {
                    let (newest, stop, object) = (&newest, &stop, &object);
                    scope.spawn(move || {
                        let (transport, mut good) = (by(ways), 0);
                        for turn in reader.. {
                            let range = turn % RANGES;
                            let counter = newest[range].load(Ordering::SeqCst);
                            if stop.load(Ordering::SeqCst) {
                                break;
                            }
                            if counter == 0 {
                                continue;
                            }
                            // Compares all bytes.
                            match &read_all(&transport, &[object(range, counter)])[..] {
                                [Ok(())] => good += 1,
                                [Err(TransferError::Stale)] => {}
                                other => panic!("{other:?}"),
                            }
                        }
                        good
                    })
                })
                .collect();
            let writer = by("shm");
            while Instant::now() < deadline || written < 20 {
                written += 1;
                let range = written as usize % RANGES;
                assert_eq!(write_all(&writer, &[object(range, written)]), all_ok(1));
                newest[range].store(written, Ordering::SeqCst);
            }
            stop.store(true, Ordering::SeqCst);
            seen = readers.into_iter().map(|reader| reader.join().unwrap()).sum();
        });
        assert!(written >= 20, "{written} writes, {seen} reads by {ways}");
    }
}

/// A writer in place is at work when a newer one begins: it stops, and the newer one's bytes remain.
#[test]
fn writers_in_place_that_meet_mix_no_bytes() {
    let node = Node::start(1, 64 << 20);
    let counter = AtomicU64::new(0);
    let deadline = Instant::now() + Duration::from_millis(700);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let transport = by("shm");
                while Instant::now() < deadline {
                    let mine = counter.fetch_add(2, Ordering::SeqCst) + 1;
                    // Two ranges at once that overlap those of other writers, with their grants in crossed order.
                    let objects = [
                        Object::at(&node, mine % 3 * 1_000_000, 5_000_000, mine),
                        Object::at(&node, 20_000_000 + mine % 2 * 3_000_000, 4_000_000, mine + 1),
                    ];
                    let results = write_all(&transport, &objects);
                    for (object, result) in objects.iter().zip(&results) {
                        match result {
                            Ok(()) | Err(TransferError::Unreachable { .. }) => {}
                            Err(TransferError::Refused(ErrorCode::InvalidVersion)) => {}
                            other => panic!("{object:?}: {other:?}"),
                        }
                    }
                    read_all(&transport, &objects);
                }
            });
        }
    });
    wait_until("no writer is left", || node.host.writers() == 0);
    let last = counter.load(Ordering::SeqCst) + 1;
    let object = [Object::at(&node, 0, 40_000_000, last)];
    assert_eq!(write_all(&by("shm"), &object), all_ok(1));
    assert_eq!(read_all(&tcp(), &object), all_ok(1));
}

#[test]
fn a_batch_goes_in_two_questions_and_one_bad_buffer_spoils_no_other() {
    let (node, transport) = (Node::start(1, 64 << 20), by("shm"));
    let objects: Vec<Object> =
        (0..100).map(|index| Object::at(&node, index * 300_000, 300_000, index + 1)).collect();
    let sources: Vec<Buffer> = objects.iter().map(|o| Buffer::from_vec(o.bytes())).collect();
    let mut ops: Vec<_> =
        objects.iter().zip(&sources).map(|(o, src)| o.write_op(src.raw().into())).collect();
    ops[70].src = mooncake_memory::RawSlice::unmapped(300_000).into();
    let results = transport.write(EPOCH, &ops);
    for (index, result) in results.iter().enumerate() {
        match result {
            Err(TransferError::BadMemory { .. }) if index == 70 => {}
            result => assert_eq!(*result, Ok(()), "{index}"),
        }
    }
    let mut expected = all_ok(100);
    expected[70] = Err(TransferError::Stale);
    assert_eq!(read_all(&transport, &objects), expected);
    assert_eq!(node.host.writers(), 0);
}

#[test]
fn parts_are_written_in_place_and_read_when_all_are_there() {
    let (node, transport) = (Node::start(1, 8 << 20), by("shm"));
    let object = Object::at(&node, 4096, 1_000_000, 1);
    let source = Buffer::from_vec(object.bytes());
    let part =
        |from: usize, len: usize| object.part_op(from as u64, source.raw().sub(from, len).into());
    assert_eq!(transport.write(EPOCH, &[part(0, 500_000)]), all_ok(1));
    let stale = Err(TransferError::Stale);
    assert_eq!(read_all(&transport, std::slice::from_ref(&object)), [stale]);
    let rest = [part(500_000, 10_000), part(510_000, 490_000)];
    assert_eq!(transport.write(EPOCH, &rest), all_ok(2));
    let target = Buffer::zeroed(123_456);
    assert_eq!(transport.read(&[object.read_op(400_000, target.raw().into())]), all_ok(1));
    assert_eq!(first_mismatch(target.as_slice(), &object.key, object.version, 400_000), None);
}
