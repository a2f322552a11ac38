//! The contract of every transport, checked on each of them.

use std::sync::Arc;

use mooncake_memory::{Buffer, RawSlice, SliceList};
use mooncake_testing::greet;
use mooncake_types::limits::{MAX_FRAME_PAYLOAD_BYTES, MAX_FRAME_RANGES};
use mooncake_types::{Epoch, ErrorCode, RangeDrop, Seal, SegmentId};
use mooncake_wire::decode_welcome;

use super::far::Net;
use super::raw_peer::{connect, hello};
use super::rig::{
    EPOCH, Node, Object, all_ok, by, read_all, scatter, tcp, tcp_config, version, wait_until,
    write_all,
};
use crate::testing::{first_mismatch, pattern};
use crate::{LocalTransport, NodeDrop, Paths, SegmentHost, TransferError, Transport, Transports};

const MIB: u64 = 1 << 20;

/// The carriers, each by the name of its way. A new one is one more row.
const CARRIERS: [&str; 7] =
    ["own", "tcp", "shm", "process_vm", "shm,process_vm,tcp", "fabric", "verbs"];

/// Paths by one carrier: `own` for segments of this process, or the names of ways.
fn carried_by(carrier: &str, node: &Node) -> Paths {
    match carrier {
        "own" => {
            let local = LocalTransport::new(Arc::clone(&node.host) as Arc<dyn SegmentHost>);
            Paths::new(Some(local), tcp_config(), Transports::default())
        }
        "fabric" => Net::Libfabric.far_by("fabric"),
        "verbs" => Net::Verbs.far_by("fabric"),
        ways => by(ways),
    }
}

/// Checks a promise on every transport: on each carrier, and on those that callers use alone.
pub(super) fn on_every_transport(promise: impl Fn(&dyn Transport, &Node)) {
    for carrier in CARRIERS {
        let node = match carrier {
            "fabric" => Net::Libfabric.lender(1, 64 * MIB),
            "verbs" => Net::Verbs.lender(1, 64 * MIB),
            _ => Node::start(1, 64 * MIB),
        };
        promise(&carried_by(carrier, &node), &node);
    }
    let node = Node::start(1, 64 * MIB);
    let host = Arc::clone(&node.host) as Arc<dyn SegmentHost>;
    promise(&LocalTransport::new(host), &node);
    let node = Node::start(1, 64 * MIB);
    promise(&tcp(), &node);
}

#[test]
fn what_was_written_is_read() {
    on_every_transport(|transport, node| {
        let lens = [1, 7, 4096, 16 << 10, (16 << 10) + 1, 64 << 10, 256 << 10, (256 << 10) + 1]
            .into_iter()
            .chain([MIB - 1, 3 * MIB + 17, 9 * MIB + 5]);
        let mut offset = 0;
        for (index, len) in lens.enumerate() {
            let object = Object::at(node, offset, len, index as u64 + 1);
            assert_eq!(write_all(transport, std::slice::from_ref(&object)), all_ok(1), "{len}");
            assert_eq!(read_all(transport, std::slice::from_ref(&object)), all_ok(1), "{len}");
            offset += len;
        }
    });
}

#[test]
fn an_empty_range_can_be_written_and_read() {
    on_every_transport(|transport, node| {
        let objects = [Object::at(node, 0, 0, 1), Object::at(node, 100, 5, 2)];
        assert_eq!(write_all(transport, &objects), all_ok(2));
        assert_eq!(read_all(transport, &objects), all_ok(2));
    });
}

#[test]
fn what_was_dropped_is_stale_and_what_lies_beside_it_stays() {
    let here = Node::start(1, MIB);
    let there = Node::start(2, MIB);
    let host = Arc::clone(&here.host) as Arc<dyn SegmentHost>;
    let local = LocalTransport::new(host);
    let paths = Paths::new(Some(local), tcp_config(), Transports::default());
    for node in [&here, &there] {
        let objects = [Object::at(node, 0, 100, 1), Object::at(node, 100, 100, 2)];
        assert_eq!(write_all(&paths, &objects), all_ok(2));
        let dropped = |object: &Object, version| NodeDrop {
            endpoint: Arc::clone(&object.endpoint),
            range: RangeDrop {
                segment: object.segment,
                offset: object.offset,
                version,
                grant: version,
            },
            seal: Seal::NONE,
        };
        let another = dropped(&objects[1], objects[0].version);
        let first = dropped(&objects[0], objects[0].version);
        assert_eq!(paths.drop_ranges(&[another, first.clone(), first]), all_ok(3));
        let expected = vec![Err(TransferError::Stale), Ok(())];
        assert_eq!(read_all(&paths, &objects), expected);
    }
    assert_eq!(paths.drop_ranges(&[]), []);
}

#[test]
fn more_drops_than_fit_a_frame_are_answered_one_by_one() {
    let node = Node::start(1, MIB);
    let version = Object::at(&node, 0, 1, 1).version;
    let range = RangeDrop { segment: node.segment, offset: 0, version, grant: version };
    let op = NodeDrop { endpoint: Arc::clone(&node.endpoint), range, seal: Seal::NONE };
    let count = 2 * MAX_FRAME_RANGES + 1;
    assert_eq!(tcp().drop_where(&vec![op; count], |_| true), all_ok(count));
}

#[test]
fn where_nobody_listens_nothing_is_dropped_and_nothing_read() {
    let node = Node::start(1, MIB);
    let object = Object::at(&node, 0, 100, 1);
    let range = RangeDrop {
        segment: node.segment,
        offset: 0,
        version: object.version,
        grant: object.version,
    };
    let op = NodeDrop { endpoint: Arc::clone(&node.endpoint), range, seal: Seal::NONE };
    drop(node);
    let endpoint = Arc::clone(&object.endpoint);
    let deserted = || Err(TransferError::Deserted { endpoint: Arc::clone(&endpoint) });
    assert_eq!(tcp().drop_where(&[op], |_| true), [deserted()]);
    assert_eq!(read_all(&tcp(), &[object]), [deserted()]);
}

#[test]
fn a_node_does_not_confirm_drops_in_segments_that_are_not_its_own() {
    let node = Node::start(1, MIB);
    let object = Object::at(&node, 0, 100, 1);
    let segment = SegmentId(node.segment.0 + 1);
    let range = RangeDrop { segment, offset: 0, version: object.version, grant: object.version };
    let op = NodeDrop { endpoint: Arc::clone(&node.endpoint), range, seal: Seal::NONE };
    let refused = Err(TransferError::Refused(ErrorCode::SegmentNotFound));
    assert_eq!(tcp().drop_where(&[op], |_| true), [refused]);
}

#[test]
fn nothing_asked_is_nothing_answered() {
    on_every_transport(|transport, _| {
        assert_eq!(transport.read(&[]), []);
        assert_eq!(transport.write(EPOCH, &[]), []);
    });
}

#[test]
fn memory_may_come_in_pieces() {
    on_every_transport(|transport, node| {
        let object = Object::at(node, 12_345, 900_001, 1);
        let source = Buffer::from_vec(object.bytes());
        for cuts in [&[1000, 0, 3, 70_000][..], &[300_000], &[2777]] {
            let op = object.write_op(scatter(&source, cuts));
            assert_eq!(transport.write(EPOCH, &[op]), all_ok(1));
            let target = Buffer::zeroed(source.len());
            let op = object.read_op(0, scatter(&target, &[1, 99_999, 0, 4096]));
            assert_eq!(transport.read(&[op]), all_ok(1));
            assert_eq!(first_mismatch(target.as_slice(), &object.key, object.version, 0), None);
        }
    });
}

#[test]
fn a_part_of_an_entry_can_be_read() {
    on_every_transport(|transport, node| {
        let object = Object::at(node, 4096, 2 * MIB + 100, 1);
        assert_eq!(write_all(transport, std::slice::from_ref(&object)), all_ok(1));
        let parts = [
            (0, 1),
            (5, 4096),
            (2 * MIB + 99, 1),
            (1, 2 * MIB),
            (100_000, 64 << 10),
            (100_000, (64 << 10) + 1),
            (0, 0),
            (2 * MIB + 100, 0),
        ];
        let targets = parts.map(|(_, len)| Buffer::zeroed(len as usize));
        let ops: Vec<_> = parts
            .iter()
            .zip(&targets)
            .map(|(&(from, _), target)| object.read_op(from, target.raw().into()))
            .collect();
        assert_eq!(transport.read(&ops), all_ok(parts.len()));
        for ((from, len), target) in parts.iter().zip(&targets) {
            let wrong = first_mismatch(target.as_slice(), &object.key, object.version, *from);
            assert_eq!(wrong, None, "{len} bytes from {from}");
        }
        let beyond = Buffer::zeroed(2);
        let op = object.read_op(2 * MIB + 99, beyond.raw().into());
        assert_eq!(transport.read(&[op]), [Err(TransferError::Refused(ErrorCode::InvalidParams))]);
    });
}

#[test]
fn many_small_ranges_go_in_one_call() {
    on_every_transport(|transport, node| {
        let count = 2 * MAX_FRAME_RANGES as u64 + 100;
        let objects: Vec<Object> =
            (0..count).map(|i| Object::at(node, i * 100, 1 + i % 100, i + 1)).collect();
        assert_eq!(write_all(transport, &objects), all_ok(objects.len()));
        assert_eq!(read_all(transport, &objects), all_ok(objects.len()));
    });
}

#[test]
fn batches_larger_than_a_frame_are_cut() {
    on_every_transport(|transport, node| {
        let objects: Vec<Object> =
            (0..40).map(|i| Object::at(node, i * MIB, MIB - i * 1000, i + 1)).collect();
        assert_eq!(write_all(transport, &objects), all_ok(40));
        assert_eq!(read_all(transport, &objects), all_ok(40));
    });
}

#[test]
fn an_object_may_be_larger_than_a_frame() {
    on_every_transport(|transport, node| {
        let large = MAX_FRAME_PAYLOAD_BYTES * 2 + 12_345;
        let objects = [
            Object::at(node, 0, 10, 1),
            Object::at(node, 4096, large, 2),
            Object::at(node, 4096 + large, 100_000, 3),
        ];
        assert_eq!(write_all(transport, &objects), all_ok(3));
        assert_eq!(read_all(transport, &objects), all_ok(3));
    });
}

#[test]
fn a_version_that_is_not_there_is_stale_and_harms_no_other() {
    on_every_transport(|transport, node| {
        let mut objects: Vec<Object> =
            (0..6).map(|i| Object::at(node, i * 200_000, 10 + i * 39_000, i + 1)).collect();
        assert_eq!(write_all(transport, &objects), all_ok(6));
        for stale in [0, 3, 5] {
            objects[stale].version = version(99);
        }
        let expected: Vec<_> = (0..6)
            .map(|i| if [0, 3, 5].contains(&i) { Err(TransferError::Stale) } else { Ok(()) })
            .collect();
        for _ in 0..3 {
            assert_eq!(read_all(transport, &objects), expected);
        }
    });
}

#[test]
fn replies_that_follow_an_error_are_understood() {
    // Every frame has an error, so the bytes behind each unpredicted head belong to the next reply.
    on_every_transport(|transport, node| {
        let mut objects: Vec<Object> =
            (0..3000).map(|i| Object::at(node, i * 64, 64, i + 1)).collect();
        assert_eq!(write_all(transport, &objects), all_ok(3000));
        for object in objects.iter_mut().step_by(7) {
            object.segment = SegmentId(12);
        }
        let mut expected = all_ok(3000);
        let refused = Err(TransferError::Refused(ErrorCode::SegmentNotFound));
        expected.iter_mut().step_by(7).for_each(|result| *result = refused.clone());
        assert_eq!(read_all(transport, &objects), expected);
    });
}

#[test]
fn a_refused_write_harms_no_other() {
    on_every_transport(|transport, node| {
        let mut objects: Vec<Object> =
            (0..5).map(|i| Object::at(node, i * MIB, 10 + i * 200_000, i + 1)).collect();
        objects[1].offset = 64 * MIB - 1;
        objects[4].offset = 64 * MIB - 1;
        let refused = || Err(TransferError::Refused(ErrorCode::InvalidParams));
        let expected = vec![Ok(()), refused(), Ok(()), Ok(()), refused()];
        assert_eq!(write_all(transport, &objects), expected);
        let held: Vec<u64> =
            node.host.entries(node.segment).iter().map(|&(offset, _)| offset).collect();
        assert_eq!(held, [0, 2 * MIB, 3 * MIB]);
    });
}

#[test]
fn a_write_of_an_older_epoch_is_refused() {
    on_every_transport(|transport, node| {
        let objects = [Object::at(node, 0, 100, 1)];
        assert_eq!(write_all(transport, &objects), all_ok(1));
        let source = Buffer::from_vec(objects[0].bytes());
        let op = objects[0].write_op(source.raw().into());
        let results = transport.write(Epoch(EPOCH.0 - 1), &[op]);
        assert_eq!(results, [Err(TransferError::Refused(ErrorCode::InvalidVersion))]);
        assert_eq!(read_all(transport, &objects), all_ok(1));
    });
}

#[test]
fn a_write_of_an_older_version_is_refused() {
    on_every_transport(|transport, node| {
        let newer = Object::at(node, 0, 100_000, 5);
        let older = Object::at(node, 50_000, 100_000, 4);
        assert_eq!(write_all(transport, std::slice::from_ref(&newer)), all_ok(1));
        let refused = Err(TransferError::Refused(ErrorCode::InvalidVersion));
        assert_eq!(write_all(transport, &[older]), [refused]);
        assert_eq!(read_all(transport, &[newer]), all_ok(1));
    });
}

#[test]
fn an_entry_that_goes_while_it_is_read_is_stale() {
    on_every_transport(|transport, node| {
        for len in [100, 300_000, 5 * MIB] {
            let object = Object::at(node, 0, len, len);
            assert_eq!(write_all(transport, std::slice::from_ref(&object)), all_ok(1));
            let segment = object.segment;
            node.host.on_read(move |host, _| {
                host.drop_entries(segment);
                let memory = host.region(segment).unwrap();
                memory.slice(0, len).unwrap().write_from(&vec![0xEE; len as usize]);
            });
            let stale = [Err(TransferError::Stale)];
            assert_eq!(read_all(transport, std::slice::from_ref(&object)), stale, "{len}");
            node.host.on_read(|_, _| ());
            assert_eq!(read_all(transport, &[object]), stale, "{len}");
        }
    });
}

#[test]
fn memory_of_another_length_is_refused_before_anything_is_sent() {
    on_every_transport(|transport, node| {
        let object = Object::at(node, 0, 100, 1);
        let short = Buffer::zeroed(99);
        let refused = Err(TransferError::Refused(ErrorCode::InvalidParams));
        let op = object.write_op(short.raw().into());
        assert_eq!(transport.write(EPOCH, &[op]), std::slice::from_ref(&refused));
        assert_eq!(write_all(transport, std::slice::from_ref(&object)), all_ok(1));
        let mut op = object.read_op(0, SliceList::from(short.raw()));
        op.range.len = 100;
        let good = Buffer::zeroed(100);
        let ops = [op, object.read_op(0, good.raw().into())];
        assert_eq!(transport.read(&ops), [refused, Ok(())]);
    });
}

#[test]
fn memory_that_is_not_there_is_an_error_wherever_it_lies() {
    on_every_transport(|transport, node| {
        for len in [4096, MIB] {
            let object = Object::at(node, 0, len, len);
            assert_eq!(write_all(transport, std::slice::from_ref(&object)), all_ok(1));
            let later = Object { offset: 4 * MIB, version: version(len + 1), ..object.clone() };
            let buffer = Buffer::zeroed(len as usize);
            let there = buffer.raw();
            let hole = RawSlice::unmapped(len as usize);
            let half = len as usize / 2;
            let scattered = vec![there.sub(0, half), hole.sub(0, 100), there.sub(half, half - 100)];
            for memory in [SliceList::from(hole), SliceList::from(scattered)] {
                for results in [
                    transport.read(&[object.read_op(0, memory.clone())]),
                    transport.write(EPOCH, &[later.write_op(memory)]),
                ] {
                    let is_bad = matches!(results[..], [Err(TransferError::BadMemory { .. })]);
                    assert!(is_bad, "{results:?}");
                }
                wait_until("the write was given up", || node.host.writers() == 0);
                assert_eq!(node.host.entries(node.segment), [(0, object.version)]);
                assert_eq!(read_all(transport, std::slice::from_ref(&object)), all_ok(1));
            }
        }
    });
}

#[test]
fn a_client_is_told_the_highest_epoch_that_the_node_has_seen() {
    let node = Node::start(1, MIB);
    let told = || {
        let mut stream = connect(&node.endpoint);
        decode_welcome(&greet(&mut stream, &hello()).unwrap().1).unwrap().epoch
    };
    assert_eq!(told(), Epoch(0));
    assert_eq!(write_all(&tcp(), &[Object::at(&node, 0, 100, 1)]), all_ok(1));
    assert_eq!(told(), EPOCH);
}

#[test]
fn several_peers_serve_one_call() {
    let nodes: Vec<Node> = (1..=3).map(|id| Node::start(id, 16 * MIB)).collect();
    let transport = tcp();
    let objects: Vec<Object> = (0..30)
        .map(|i| {
            Object::at(&nodes[i % 3], (i / 3) as u64 * MIB, 1 + i as u64 * 30_000, i as u64 + 1)
        })
        .collect();
    assert_eq!(write_all(&transport, &objects), all_ok(30));
    assert_eq!(read_all(&transport, &objects), all_ok(30));
}

#[test]
fn own_segments_and_others_mix_in_one_call() {
    let nodes: Vec<Node> = (1..=2).map(|id| Node::start(id, 16 * MIB)).collect();
    let local = LocalTransport::new(Arc::clone(&nodes[0].host) as Arc<dyn SegmentHost>);
    let transport = Paths::new(Some(local), tcp_config(), Transports::default());
    let mut objects: Vec<Object> = (0..20)
        .map(|i| Object::at(&nodes[i % 2], i as u64 * 100_000, 99_999, i as u64 + 1))
        .collect();
    for object in objects.iter_mut().filter(|object| object.segment == SegmentId(1)) {
        object.endpoint = "nobody is asked:1".into();
    }
    assert_eq!(write_all(&transport, &objects), all_ok(20));
    objects[4].version = version(77);
    objects[5].version = version(77);
    let mut expected = all_ok(20);
    expected[4] = Err(TransferError::Stale);
    expected[5] = Err(TransferError::Stale);
    assert_eq!(read_all(&transport, &objects), expected);
}

#[test]
fn many_threads_share_a_transport() {
    let node = Node::start(1, 64 * MIB);
    let transport = tcp();
    std::thread::scope(|scope| {
        for thread in 0..12 {
            let (transport, node) = (&transport, &node);
            scope.spawn(move || {
                for round in 0..20 {
                    let len = 1 + (thread * 7919 + round * 104_729) % (2 * MIB);
                    let object = Object::at(node, thread * 4 * MIB, len, 1 + round);
                    assert_eq!(write_all(transport, std::slice::from_ref(&object)), all_ok(1));
                    assert_eq!(read_all(transport, &[object]), all_ok(1));
                }
            });
        }
    });
}

#[test]
fn patterns_tell_key_version_and_offset_apart() {
    let bytes = pattern("key", version(1), 0, 64);
    assert_eq!(pattern("key", version(1), 13, 51), bytes[13..]);
    for other in [
        pattern("kex", version(1), 0, 64),
        pattern("key", version(2), 0, 64),
        pattern("key", version(1), 8, 64),
    ] {
        assert_ne!(other, bytes);
    }
}
