//! Nodes that wait for a disk or an object store for longer than a peer waits for a silent node.

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mooncake_types::{ErrorCode, NodeDrop, RangeDrop, Seal};
use mooncake_wire::keepalive;

use super::peers_that_fail::good_reply;
use super::raw_peer::{FakeNode, object_at, read_frame};
use super::rig::{Node, Object, all_ok, read_all, tcp_config, version, write_all};
use crate::{TcpConfig, TcpTransport, TransferError};

/// How long stores wait for silent nodes by default.
const SILENCE: Duration = Duration::from_millis(700);
const SLOW: Duration = Duration::from_secs(2);

fn transport() -> TcpTransport {
    TcpTransport::new(TcpConfig { silence_timeout: SILENCE, ..tcp_config() })
}

/// A node whose reads take two seconds, and an object of each of these lengths.
fn slow_node(lens: &[u64]) -> (Node, Vec<Object>) {
    let node = Node::start(1, 16 << 20);
    let object = |(at, &len): (usize, &u64)| Object::at(&node, (at as u64) << 20, len, 1);
    let objects: Vec<Object> = lens.iter().enumerate().map(object).collect();
    assert_eq!(write_all(&transport(), &objects), all_ok(lens.len()));
    node.host.on_read(|_, _| std::thread::sleep(SLOW));
    (node, objects)
}

#[test]
fn a_disk_that_takes_two_seconds_is_waited_for() {
    let (node, objects) = slow_node(&[100_000, 7, 1 << 20]);
    node.host.become_disk();
    let transport = transport();
    let begun = Instant::now();
    assert_eq!(read_all(&transport, &objects), all_ok(3), "together");
    assert!(begun.elapsed() >= SLOW);
    assert_eq!(read_all(&transport, &objects[1..2]), all_ok(1), "on the same lane");
}

#[test]
fn the_wait_for_a_disk_ends_with_the_time_for_the_whole_transfer() {
    let (node, objects) = slow_node(&[100]);
    node.host.become_disk();
    let config = TcpConfig {
        silence_timeout: SILENCE,
        transfer_timeout: Duration::from_millis(1_200),
        ..tcp_config()
    };
    let late = TransferError::TimedOut { endpoint: Arc::clone(&node.endpoint) };
    assert_eq!(read_all(&TcpTransport::new(config), &objects), [Err(late)]);
}

/// The node reads memory: silence means that it is paused.
#[test]
fn a_node_without_a_disk_sends_no_keepalives() {
    let (node, objects) = slow_node(&[100]);
    let late = TransferError::TimedOut { endpoint: Arc::clone(&node.endpoint) };
    assert_eq!(read_all(&transport(), &objects), [Err(late)]);
}

#[test]
fn a_range_that_is_gone_is_not_found_after_keepalives_too() {
    let (node, objects) = slow_node(&[100, 200]);
    node.host.become_disk();
    let gone = Object { version: version(9), ..objects[1].clone() };
    let found = read_all(&transport(), &[objects[0].clone(), gone]);
    let missing = Err(TransferError::of_read(ErrorCode::ObjectNotFound));
    assert_eq!(found, [Ok(()), missing]);
}

#[test]
fn a_disk_that_takes_two_seconds_to_drop_an_entry_is_waited_for() {
    let (node, objects) = slow_node(&[100]);
    let Object { segment, offset, version, .. } = objects[0];
    let range = RangeDrop { segment, offset, version, grant: version };
    let op = NodeDrop { endpoint: Arc::clone(&node.endpoint), range, seal: Seal::NONE };
    node.host.delay_drops(SLOW);
    let transport = transport();
    let late = TransferError::TimedOut { endpoint: Arc::clone(&node.endpoint) };
    let begun = Instant::now();
    assert_eq!(transport.drop_where(std::slice::from_ref(&op), |_| true), [Err(late)]);
    assert!(begun.elapsed() < SLOW, "a node that says nothing is given up");
    node.host.become_disk();
    assert_eq!(transport.drop_where(&[op], |_| true), all_ok(1));
}

#[test]
fn keepalives_come_in_any_number_and_in_any_pieces() {
    let len = 100_000;
    for (count, cut) in [(1, 16), (1, 5), (3, 20), (2, 33), (40, 1_000), (1, 1_000_000)] {
        let node = FakeNode::start(move |mut stream| {
            loop {
                let (request, _) = read_frame(&mut stream)?;
                let mut answer = keepalive(request.request_id).repeat(count);
                answer.extend(good_reply(request.request_id));
                let cut = cut.min(answer.len());
                stream.write_all(&answer[..cut])?;
                std::thread::sleep(Duration::from_millis(20));
                stream.write_all(&answer[cut..])?;
            }
        });
        let transport = transport();
        for _ in 0..2 {
            let read = read_all(&transport, &[object_at(&node, len)]);
            assert_eq!(read, all_ok(1), "{count} cut at {cut}");
        }
        assert_eq!(node.accepted(), 1, "the lane is used again");
    }
}

#[test]
fn a_keepalive_for_another_request_ends_the_connection() {
    let node = FakeNode::start(|mut stream| {
        let (request, _) = read_frame(&mut stream)?;
        stream.write_all(&keepalive(request.request_id + 1))?;
        let _ = read_frame(&mut stream);
        Ok(())
    });
    let read = read_all(&transport(), &[object_at(&node, 100_000)]);
    assert!(matches!(read[..], [Err(TransferError::Protocol { .. })]), "{read:?}");
}
