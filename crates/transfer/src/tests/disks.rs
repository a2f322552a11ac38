//! Reads of disks: requests that wait are read while earlier ones are answered.

use std::io::{Read, Write};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use mooncake_memory::SliceList;
use mooncake_types::{ErrorCode, RangeRead};
use mooncake_wire::{HEADER_LEN, Kind, decode_results, encode_read};

use super::raw_peer::{connect_and_greet, read_frame, read_refusal};
use super::rig::{Node, Object, all_ok, read_all, tcp, version, write_all};
use crate::TransferError;

const MIB: u64 = 1 << 20;
/// What a request of these tests asks of each object.
const FIRST_BYTES: usize = 1000;
/// The status and the checksum behind so few bytes.
const TRAILER_BYTES: usize = 4 + 4;

/// A node with a disk, and this many objects of 1 MiB on it. A request asks for two of them.
fn disk_node(count: u64) -> (Node, Vec<Object>) {
    let node = Node::start(1, count * MIB);
    let objects: Vec<Object> = (0..count).map(|at| Object::at(&node, at * MIB, MIB, 1)).collect();
    assert_eq!(write_all(&tcp(), &objects), all_ok(objects.len()));
    node.host.become_disk();
    (node, objects)
}

#[test]
fn the_requests_of_a_call_are_read_at_the_same_time() {
    let (node, objects) = disk_node(8);
    let begun = Arc::new((Mutex::new(0), Condvar::new()));
    let seen = Arc::clone(&begun);
    node.host.on_read(move |_, _| {
        let (count, changed) = &*seen;
        let mut count = count.lock().unwrap();
        *count += 1;
        changed.notify_all();
        let all = changed.wait_timeout_while(count, Duration::from_secs(20), |count| *count < 3);
        assert!(
            *all.unwrap().0 >= 3,
            "one of the second request begins before the first is answered"
        );
    });
    assert_eq!(read_all(&tcp(), &objects), all_ok(8));
}

#[test]
fn each_range_gets_its_own_result() {
    let (_node, mut objects) = disk_node(40);
    let mut expected = all_ok(40);
    for at in [0, 3, 6, 7, 20, 39] {
        objects[at].version = version(9);
        expected[at] = Err(TransferError::Stale);
    }
    assert_eq!(read_all(&tcp(), &objects), expected);
}

#[test]
fn a_range_that_found_no_memory_is_read_again_when_its_request_is_answered() {
    let (node, objects) = disk_node(8);
    node.host.be_busy_once([0, 3 * MIB, 4 * MIB, 7 * MIB]);
    let mut expected = all_ok(8);
    // It belongs to the first request, and has waited for memory already.
    expected[0] = Err(TransferError::Refused(ErrorCode::ObjectReplicaBusy));
    assert_eq!(read_all(&tcp(), &objects), expected);
    assert_eq!(read_all(&tcp(), &objects), all_ok(8));
}

/// A request for the first bytes of each object, all in one write.
fn requests(objects: &[Object]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (id, object) in objects.iter().enumerate() {
        let range = object.read_op(0, SliceList::default()).range;
        encode_read(&mut bytes, id as u64, &[RangeRead { len: FIRST_BYTES as u64, ..range }]);
    }
    bytes
}

#[test]
fn requests_are_answered_in_order_wherever_they_are_cut() {
    let (node, objects) = disk_node(9);
    let bytes = requests(&objects);
    for cut in [1, 100, bytes.len() / 2, bytes.len() - 1] {
        let mut stream = connect_and_greet(&node.endpoint);
        stream.write_all(&bytes[..cut]).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        stream.write_all(&bytes[cut..]).unwrap();
        for (id, object) in objects.iter().enumerate() {
            let (header, body) = read_frame(&mut stream).unwrap();
            assert_eq!((header.kind, header.request_id), (Kind::ReadReply, id as u64));
            assert_eq!(decode_results(&body).unwrap(), [Ok(())]);
            let mut payload = [0; FIRST_BYTES + TRAILER_BYTES];
            stream.read_exact(&mut payload).unwrap();
            assert_eq!(payload[..FIRST_BYTES], object.bytes()[..FIRST_BYTES]);
        }
    }
}

#[test]
fn requests_before_a_frame_that_is_refused_are_answered() {
    let (node, objects) = disk_node(2);
    let mut stream = connect_and_greet(&node.endpoint);
    let mut bytes = requests(&objects);
    let good = bytes.len();
    bytes.extend(requests(&objects));
    // The body of the third request is no list of ranges.
    bytes[good + HEADER_LEN] = 0xff;
    stream.write_all(&bytes).unwrap();
    for id in 0..2 {
        let (header, body) = read_frame(&mut stream).unwrap();
        assert_eq!(decode_results(&body).unwrap(), [Ok(())]);
        stream.read_exact(&mut [0; FIRST_BYTES + TRAILER_BYTES]).unwrap();
        assert_eq!(header.request_id, id);
    }
    assert_eq!(read_refusal(&mut stream).code, ErrorCode::InvalidParams);
}
