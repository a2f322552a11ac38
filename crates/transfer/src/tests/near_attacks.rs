//! How a node treats a neighbour that breaks the rules of its local socket. Other clients must not notice.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use mooncake_memory::{SliceList, Wait, recv_with_descriptors};
use mooncake_types::limits::MAX_BEGIN_RANGES;
use mooncake_types::{ErrorCode, SegmentId};
use mooncake_wire::{
    Header, Kind, Refusal, decode_results, decode_share_reply, encode_begin, encode_results,
    encode_share,
};

use super::raw_peer::{connect_and_greet, connect_nearby, read_frame, read_refusal};
use super::rig::{EPOCH, Node, Object, all_ok, by, read_all, version, wait_until, write_all};

/// A node with one object, and a neighbour that uses it before and after an attack.
fn attack(attack: impl FnOnce(&Node)) {
    let node = Node::start(1, 8 << 20);
    let transport = by("shm");
    let object = [Object::at(&node, 0, 100_000, 1)];
    assert_eq!(write_all(&transport, &object), all_ok(1));
    attack(&node);
    wait_until("no writer is left", || node.host.writers() == 0);
    assert_eq!(read_all(&transport, &object), all_ok(1));
    assert_eq!(read_all(&by("shm"), &object), all_ok(1), "a new neighbour");
    assert_eq!(node.host.entries(node.segment), [(0, version(1))]);
}

fn send(stream: &mut TcpStream, encode: impl FnOnce(&mut Vec<u8>)) {
    let mut frame = Vec::new();
    encode(&mut frame);
    stream.write_all(&frame).unwrap();
}

fn begin(stream: &mut TcpStream, objects: &[Object]) -> Vec<Result<(), ErrorCode>> {
    let ranges: Vec<_> =
        objects.iter().map(|object| object.write_op(SliceList::default()).range).collect();
    send(stream, |out| encode_begin(out, 5, EPOCH, &ranges));
    let (header, body) = read_frame(stream).unwrap();
    assert_eq!((header.kind, header.request_id), (Kind::BeginReply, 5));
    decode_results(&body).unwrap()
}

fn refused(stream: &mut TcpStream, message: &str) {
    let refusal = Refusal { code: ErrorCode::InvalidParams, message: message.to_owned() };
    assert_eq!(read_refusal(stream), refusal);
}

#[test]
fn what_is_for_neighbours_is_not_taken_from_others() {
    attack(|node| {
        let object = Object::at(node, 1 << 20, 100_000, 2);
        let range = object.write_op(SliceList::default()).range;
        let mut stream = connect_and_greet(&node.endpoint);
        send(&mut stream, |out| encode_begin(out, 1, EPOCH, &[range]));
        refused(&mut stream, "a data port takes no Begin frames");
        let mut stream = connect_and_greet(&node.endpoint);
        send(&mut stream, |out| encode_share(out, 1, node.segment));
        refused(&mut stream, "a data port takes no Share frames");
    });
}

/// The node would look for its bytes where no other process can write them.
#[test]
fn nobody_writes_in_place_in_what_is_not_shared() {
    attack(|node| {
        node.host.stop_sharing();
        let object = [Object::at(node, 1 << 20, 100_000, 2)];
        let mut stream = connect_nearby(&node.endpoint);
        assert_eq!(begin(&mut stream, &object), [Err(ErrorCode::InvalidParams)]);
        assert_eq!(node.host.writers(), 0);
    });
}

#[test]
fn a_writer_that_dies_leaves_nothing_to_read() {
    attack(|node| {
        let object = [Object::at(node, 1 << 20, 100_000, 2)];
        let mut stream = connect_nearby(&node.endpoint);
        assert_eq!(begin(&mut stream, &object), [Ok(())]);
        assert_eq!(node.host.writers(), 1);
        drop(stream);
        wait_until("its ticket is given up", || node.host.writers() == 0);
        assert_eq!(read_all(&by("shm"), &object), [Err(crate::TransferError::Stale)]);
    });
}

#[test]
fn what_follows_a_begin_must_be_its_end() {
    attack(|node| {
        let object = [Object::at(node, 1 << 20, 100_000, 2)];
        let mut stream = connect_nearby(&node.endpoint);
        send(&mut stream, |out| encode_results(out, Kind::Complete, 1, &[Ok(())]));
        refused(&mut stream, "a data port takes no Complete frames");

        let mut stream = connect_nearby(&node.endpoint);
        assert_eq!(begin(&mut stream, &object), [Ok(())]);
        send(&mut stream, |out| encode_share(out, 1, node.segment));
        refused(&mut stream, "a Begin is followed by Complete, not by Share");

        let mut stream = connect_nearby(&node.endpoint);
        assert_eq!(begin(&mut stream, &object), [Ok(())]);
        send(&mut stream, |out| encode_results(out, Kind::Complete, 1, &[Ok(()), Ok(())]));
        refused(&mut stream, "1 ranges began, not 2");

        let mut stream = connect_nearby(&node.endpoint);
        assert_eq!(begin(&mut stream, &object), [Ok(())]);
        stream.write_all(&[0xC5; 16]).unwrap();
        refused(&mut stream, "a frame must begin with 0x4d4b, not with 0xc5c5");
    });
}

#[test]
fn what_was_not_begun_or_is_given_up_is_not_completed() {
    attack(|node| {
        let outside = Object::at(node, 8 << 20, 100_000, 2);
        let nowhere = Object { segment: SegmentId(99), ..outside.clone() };
        let given_up = Object::at(node, 2 << 20, 100_000, 3);
        let mut stream = connect_nearby(&node.endpoint);
        let begun = begin(&mut stream, &[outside, nowhere, given_up]);
        let refusals = [Err(ErrorCode::InvalidParams), Err(ErrorCode::SegmentNotFound)];
        assert_eq!(begun, [refusals[0], refusals[1], Ok(())]);
        let done = [Ok(()), Ok(()), Err(ErrorCode::TransferFail)];
        send(&mut stream, |out| encode_results(out, Kind::Complete, 6, &done));
        let (header, body) = read_frame(&mut stream).unwrap();
        assert_eq!((header.kind, header.request_id), (Kind::CompleteReply, 6));
        let expected = vec![refusals[0], refusals[1], Err(ErrorCode::TransferFail)];
        assert_eq!(decode_results(&body), Ok(expected));
    });
}

#[test]
fn a_segment_that_is_not_there_is_not_shared() {
    attack(|node| {
        let mut stream = connect_nearby(&node.endpoint);
        for (segment, expected) in [(SegmentId(99), false), (node.segment, true)] {
            send(&mut stream, |out| encode_share(out, 7, segment));
            let (mut bytes, mut descriptors) = (vec![0; 16], Vec::new());
            let count =
                recv_with_descriptors(stream.as_fd(), &mut bytes, &mut descriptors, Wait::Block);
            assert_eq!(count.unwrap(), 16);
            let header = Header::decode(bytes[..].try_into().unwrap()).unwrap();
            let mut body = vec![0; header.body_len as usize];
            stream.read_exact(&mut body).unwrap();
            let answer = decode_share_reply(&body).unwrap();
            assert_eq!((answer.is_ok(), descriptors.len()), (expected, 2 * usize::from(expected)));
        }
    });
}

#[test]
fn more_ranges_than_begin_together_are_refused() {
    attack(|node| {
        let object = |index: u64| Object::at(node, (1 << 20) + index * 8, 8, index + 2);
        let objects: Vec<Object> = (0..=MAX_BEGIN_RANGES as u64).map(object).collect();
        let ranges: Vec<_> =
            objects.iter().map(|object| object.write_op(SliceList::default()).range).collect();
        let mut stream = connect_nearby(&node.endpoint);
        send(&mut stream, |out| encode_begin(out, 1, EPOCH, &ranges));
        refused(&mut stream, "65 ranges are too many to begin together");
    });
}

/// Sends a Begin of ranges; the range at offset 0 has to wait for `zombie`.
fn begin_and_wait(node: &Node, zombie: &mut TcpStream, objects: &[Object]) -> TcpStream {
    let ranges: Vec<_> =
        objects.iter().map(|object| object.write_op(SliceList::default()).range).collect();
    let mut stream = connect_nearby(&node.endpoint);
    send(&mut stream, |out| encode_begin(out, 5, EPOCH, &ranges));
    assert_eq!(zombie.read_to_end(&mut Vec::new()).unwrap(), 0, "the zombie is asked to stop");
    stream
}

/// A peer goes while its first range waits: the ranges behind it stay free for others.
#[test]
fn a_writer_that_hung_up_while_it_waited_begins_no_more() {
    let node = Node::start(1, 8 << 20);
    let mut zombie = connect_nearby(&node.endpoint);
    assert_eq!(begin(&mut zombie, &[Object::at(&node, 0, 100_000, 1)]), [Ok(())]);
    let objects = [Object::at(&node, 0, 100_000, 5), Object::at(&node, 1 << 20, 100_000, 4)];
    let asked = Instant::now();
    drop(begin_and_wait(&node, &mut zombie, &objects));
    // The node checks every few milliseconds whether its peer is there, and later on a busy machine.
    wait_until("that took a while", || asked.elapsed() > Duration::from_millis(200));
    drop(zombie);
    wait_until("no writer is left", || node.host.writers() == 0);
    // Its grant is older than that of the range which the peer never began.
    let older = [Object::at(&node, 1 << 20, 100_000, 3)];
    assert_eq!(write_all(&by("shm"), &older), all_ok(1));
}

/// A newer peer asks one to stop whose second range waits: it gives up all its ranges.
#[test]
fn a_writer_that_is_asked_to_stop_while_it_waits_begins_no_more() {
    let node = Node::start(1, 8 << 20);
    let mut zombie = connect_nearby(&node.endpoint);
    assert_eq!(begin(&mut zombie, &[Object::at(&node, 0, 100_000, 1)]), [Ok(())]);
    let objects = [(1 << 20, 5), (0, 4), (2 << 20, 3)]
        .map(|(offset, counter)| Object::at(&node, offset, 100_000, counter));
    let mut stream = begin_and_wait(&node, &mut zombie, &objects);
    let newer = [Object::at(&node, 1 << 20, 100_000, 6)];
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| write_all(&by("shm"), &newer));
        assert_eq!(stream.read_to_end(&mut Vec::new()).unwrap(), 0, "it is asked to stop");
        drop(zombie);
        assert_eq!(writer.join().unwrap(), all_ok(1));
    });
    wait_until("no writer is left", || node.host.writers() == 0);
    let older = [Object::at(&node, 2 << 20, 100_000, 2)];
    assert_eq!(write_all(&by("shm"), &older), all_ok(1));
}

/// An older writer in place holds a range: the newer one waits exactly until that has closed.
#[test]
fn a_writer_that_is_asked_to_stop_holds_the_range_until_it_does() {
    let node = Node::start(1, 8 << 20);
    let old = [Object::at(&node, 0, 1 << 20, 1)];
    let mut zombie = connect_nearby(&node.endpoint);
    assert_eq!(begin(&mut zombie, &old), [Ok(())]);
    let new = [Object::at(&node, 1 << 19, 1 << 20, 2)];
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| write_all(&by("shm"), &new));
        // The node tells it by closing its side.
        assert_eq!(zombie.read_to_end(&mut Vec::new()).unwrap(), 0);
        assert!(!writer.is_finished(), "the zombie may still be writing");
        drop(zombie);
        assert_eq!(writer.join().unwrap(), all_ok(1));
    });
    assert_eq!(read_all(&by("shm"), &new), all_ok(1));
}
