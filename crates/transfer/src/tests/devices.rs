//! Memory of devices on all paths, with the test double of the driver.

use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};

use mooncake_device::testing::{DeviceMemory, use_driver};
use mooncake_device_double::{control, symbol};
use mooncake_memory::{Buffer, PlacedSlice, SliceList};
use mooncake_types::ErrorCode;

use super::rig::{EPOCH, Node, Object, all_ok, by, read_all, tcp, tcp_config, version, write_all};
use crate::testing::first_mismatch;
use crate::{
    LocalTransport, Paths, ReadOp, SegmentHost, StagedTransport, TransferError, Transport,
    Transports,
};

const MIB: u64 = 1 << 20;
const SEGMENT: u64 = 64 * MIB;

/// All tests of the process share one driver, so they take turns.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    static DRIVER: Once = Once::new();
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    DRIVER.call_once(|| use_driver(symbol));
    control::double_reset();
    turn
}

fn filled(object: &Object) -> DeviceMemory {
    DeviceMemory::with(0, &object.bytes())
}

fn room_for(object: &Object) -> DeviceMemory {
    DeviceMemory::new(0, object.len as usize)
}

/// Writes each object from memory of a device.
fn write_from_device(
    transport: &dyn Transport,
    objects: &[Object],
) -> Vec<Result<(), TransferError>> {
    let sources: Vec<DeviceMemory> = objects.iter().map(filled).collect();
    let ops: Vec<_> =
        objects.iter().zip(&sources).map(|(object, src)| object.write_op(src.list())).collect();
    transport.write(EPOCH, &ops)
}

/// Reads each object into memory of a device, and compares the bytes of every `Ok`.
fn read_to_device(transport: &dyn Transport, objects: &[Object]) -> Vec<Result<(), TransferError>> {
    let targets: Vec<DeviceMemory> = objects.iter().map(room_for).collect();
    let ops: Vec<ReadOp> =
        objects.iter().zip(&targets).map(|(object, dst)| object.read_op(0, dst.list())).collect();
    let results = transport.read(&ops);
    for ((object, target), result) in objects.iter().zip(&targets).zip(&results) {
        if result.is_ok() {
            let wrong = first_mismatch(&target.to_vec(), &object.key, object.version, 0);
            assert_eq!(wrong, None, "wrong byte in {object:?}");
        }
    }
    results
}

fn objects(node: &Node, lens: &[u64]) -> Vec<Object> {
    let mut offset = 0;
    let place = |(index, &len): (usize, &u64)| {
        let object = Object::at(node, offset, len, index as u64 + 1);
        offset += len.next_multiple_of(4096);
        object
    };
    lens.iter().enumerate().map(place).collect()
}

fn own(node: &Node) -> Paths {
    let local = LocalTransport::new(Arc::clone(&node.host) as Arc<dyn SegmentHost>);
    Paths::new(Some(local), tcp_config(), Transports::default())
}

type ToNode = fn(&Node) -> Box<dyn Transport>;

const WAYS: [(&str, ToNode); 4] = [
    ("own", |node| Box::new(own(node))),
    ("shm", |_| Box::new(by("shm"))),
    ("process_vm", |_| Box::new(by("process_vm"))),
    ("tcp", |_| Box::new(by("tcp"))),
];

const LENS: [u64; 7] = [1, 4096, 70_001, 3 * MIB, 9 * MIB + 1, 100, 5 * MIB];

#[test]
fn what_a_device_writes_is_read_by_devices_and_by_the_host() {
    let _turn = turn();
    for (name, way) in WAYS {
        let node = Node::start(1, SEGMENT);
        let (transport, objects) = (way(&node), objects(&node, &LENS));
        assert_eq!(write_from_device(&*transport, &objects), all_ok(LENS.len()), "{name}");
        assert_eq!(read_all(&tcp(), &objects), all_ok(LENS.len()), "{name}");
        assert_eq!(read_to_device(&*transport, &objects), all_ok(LENS.len()), "{name}");
        let newer = Object { version: version(99), ..objects[3].clone() };
        assert_eq!(write_all(&tcp(), std::slice::from_ref(&newer)), all_ok(1));
        let stale = Err(TransferError::Stale);
        let again = [objects[3].clone(), newer, objects[4].clone()];
        assert_eq!(read_to_device(&*transport, &again), [stale, Ok(()), Ok(())], "{name}");
    }
}

#[test]
fn memory_of_a_mapped_segment_is_read_and_written_without_a_detour() {
    let _turn = turn();
    for name in ["own", "shm"] {
        let node = Node::start(1, SEGMENT);
        let way = WAYS.iter().find(|(way, _)| *way == name).expect("it is one of them").1;
        let (transport, objects) = (way(&node), objects(&node, &[MIB; 16]));
        let sources: Vec<DeviceMemory> = objects.iter().map(filled).collect();
        let ops = objects.iter().zip(&sources).map(|(object, src)| object.write_op(src.list()));
        let ops: Vec<_> = ops.collect();
        let before = (control::calls("execute"), control::calls("cuMemcpyBatchAsync"));
        assert_eq!(transport.write(EPOCH, &ops), all_ok(16));
        let after = (control::calls("execute"), control::calls("cuMemcpyBatchAsync"));
        assert_eq!((after.0 - before.0, after.1 - before.1), (16, 1), "{name}");
    }
}

#[test]
fn pieces_of_a_device_and_of_the_host_are_one_object() {
    let _turn = turn();
    for (name, way) in WAYS {
        let node = Node::start(1, SEGMENT);
        let (transport, object) = (way(&node), Object::at(&node, 0, 200_024, 1));
        let bytes = object.bytes();
        let header = Buffer::from_vec(bytes[..24].to_vec());
        let body = DeviceMemory::with(0, &bytes[24..]);
        let list: SliceList = std::iter::once(PlacedSlice::from(header.raw()))
            .chain([body.slice(0, 200_000)])
            .collect();
        assert_eq!(transport.write(EPOCH, &[object.write_op(list.clone())]), all_ok(1), "{name}");
        assert_eq!(read_all(&tcp(), std::slice::from_ref(&object)), all_ok(1), "{name}");
        let (head, tail) = (Buffer::zeroed(24), DeviceMemory::new(0, 200_000));
        let list: SliceList = std::iter::once(PlacedSlice::from(head.raw()))
            .chain([tail.slice(0, 200_000)])
            .collect();
        assert_eq!(transport.read(&[object.read_op(0, list)]), all_ok(1), "{name}");
        assert!([head.as_slice().to_vec(), tail.to_vec()].concat() == bytes, "{name}");
    }
}

/// Each call of the driver fails in turn: either the operation fails, or all its bytes are right.
#[test]
fn no_fault_of_the_driver_is_a_success() {
    let _turn = turn();
    for (name, way) in WAYS {
        let node = Node::start(1, SEGMENT);
        let transport = way(&node);
        let mut objects = objects(&node, &[100, 5 * MIB, 300_000, 70_000]);
        assert_eq!(write_all(&tcp(), &objects), all_ok(4));
        for nth in 0..18 {
            let targets: Vec<DeviceMemory> = objects.iter().map(room_for).collect();
            let reads = objects.iter().zip(&targets);
            let reads: Vec<ReadOp> = reads.map(|(it, dst)| it.read_op(0, dst.list())).collect();
            control::fail("", nth, 999);
            let results = transport.read(&reads);
            control::double_reset();
            for ((object, target), result) in objects.iter().zip(&targets).zip(&results) {
                if result.is_ok() {
                    let wrong = first_mismatch(&target.to_vec(), &object.key, object.version, 0);
                    assert_eq!(wrong, None, "{name}, call {nth}: {object:?}");
                }
            }
            let next =
                |object: &Object| Object { version: version(100 + 2 * nth), ..object.clone() };
            let newer: Vec<Object> = objects.iter().map(next).collect();
            let sources: Vec<DeviceMemory> = newer.iter().map(filled).collect();
            let writes = newer.iter().zip(&sources);
            let writes: Vec<_> = writes.map(|(it, src)| it.write_op(src.list())).collect();
            control::fail("", nth, 999);
            let results = transport.write(EPOCH, &writes);
            control::double_reset();
            for (read, written) in read_all(&tcp(), &newer).into_iter().zip(results) {
                assert_eq!(read.is_ok(), written.is_ok(), "{name}, call {nth}");
            }
            objects = newer;
            objects.iter_mut().for_each(|object| object.version = version(101 + 2 * nth));
            assert_eq!(write_all(&tcp(), &objects), all_ok(4));
        }
    }
}

#[test]
fn memory_of_a_device_is_refused_where_nobody_stages_it() {
    let _turn = turn();
    let node = Node::start(1, SEGMENT);
    let object = [Object::at(&node, 0, 10_000, 1)];
    let refused = [Err(TransferError::Refused(ErrorCode::InvalidParams))];
    assert_eq!(write_from_device(&tcp(), &object), refused);
    let tcp = tcp();
    assert_eq!(write_from_device(&StagedTransport(&tcp), &object), all_ok(1));
    assert_eq!(read_to_device(&tcp, &object), refused);
    assert_eq!(read_to_device(&StagedTransport(&tcp), &object), all_ok(1));
}

#[test]
fn a_range_that_was_freed_is_an_error_of_its_own() {
    let _turn = turn();
    for (name, way) in WAYS {
        let node = Node::start(1, SEGMENT);
        let (transport, objects) = (way(&node), objects(&node, &[100_000; 3]));
        let sources: Vec<DeviceMemory> = objects.iter().map(filled).collect();
        control::free(sources[1].address());
        let ops = objects.iter().zip(&sources).map(|(object, src)| object.write_op(src.list()));
        let results = transport.write(EPOCH, &ops.collect::<Vec<_>>());
        let bad = matches!(results[..], [Ok(()), Err(TransferError::BadMemory { .. }), Ok(())]);
        assert!(bad, "{name}: {results:?}");
        assert_eq!(
            read_to_device(&*transport, &[objects[0].clone(), objects[2].clone()]),
            all_ok(2)
        );
    }
}
