//! Nodes that fall silent in the middle: paused, or cut off.

use std::io::Write;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mooncake_memory::Buffer;
use mooncake_types::SegmentId;
use mooncake_wire::{Kind, encode_results};

use super::peers_that_fail::good_reply;
use super::raw_peer::{FakeNode, object_at, read_frame};
use super::rig::{EPOCH, Node, Object, all_ok, by, read_all, tcp, tcp_config, write_all};
use crate::server::STARTS;
use crate::{Paths, TcpConfig, TcpTransport, TransferError, Transport};

const SILENCE: Duration = Duration::from_millis(300);

fn transport() -> TcpTransport {
    TcpTransport::new(TcpConfig { silence_timeout: SILENCE, ..tcp_config() })
}

fn timed_out(node: &FakeNode) -> Result<(), TransferError> {
    Err(TransferError::TimedOut { endpoint: Arc::clone(&node.endpoint) })
}

/// A node that answers reads until the flag makes it silent.
fn falls_silent() -> (FakeNode, Arc<AtomicBool>) {
    let silent = Arc::new(AtomicBool::new(false));
    let is_silent = Arc::clone(&silent);
    let node = FakeNode::start(move |mut stream| {
        loop {
            let (request, _) = read_frame(&mut stream)?;
            if is_silent.load(Ordering::SeqCst) {
                std::thread::park();
            }
            stream.write_all(&good_reply(request.request_id))?;
        }
    });
    (node, silent)
}

#[test]
fn a_node_that_falls_silent_is_given_up_soon_and_then_at_once() {
    let (node, silent) = falls_silent();
    let (object, transport) = (object_at(&node, 100_000), transport());
    assert_eq!(read_all(&transport, std::slice::from_ref(&object)), all_ok(1));
    silent.store(true, Ordering::SeqCst);
    let begun = Instant::now();
    assert_eq!(read_all(&transport, std::slice::from_ref(&object)), [timed_out(&node)]);
    let waited = begun.elapsed();
    assert!((SILENCE..SILENCE * 3).contains(&waited), "{waited:?}");
    let begun = Instant::now();
    assert_eq!(read_all(&transport, std::slice::from_ref(&object)), [timed_out(&node)]);
    assert!(begun.elapsed() < SILENCE / 2, "{:?}", begun.elapsed());
    assert_eq!(node.accepted(), 1, "it is not even connected to");
}

#[test]
fn idle_lanes_to_a_node_that_fell_silent_are_not_used() {
    let (node, silent) = falls_silent();
    let (object, transport) = (object_at(&node, 100_000), transport());
    let all = std::sync::Barrier::new(3);
    let read = || read_all(&transport, std::slice::from_ref(&object));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..50 {
                    all.wait();
                    assert_eq!(read(), all_ok(1));
                }
            });
        }
    });
    let lanes = node.accepted();
    assert!(lanes > 1, "reads of the same moment have lanes of their own");
    silent.store(true, Ordering::SeqCst);
    let begun = Instant::now();
    for _ in 0..2 * lanes {
        assert_eq!(read(), [timed_out(&node)]);
    }
    assert!(begun.elapsed() < SILENCE * 3, "{:?}", begun.elapsed());
}

#[test]
fn callers_that_wait_for_a_lane_to_a_silent_node_wait_no_longer_than_its_users() {
    let (node, silent) = falls_silent();
    silent.store(true, Ordering::SeqCst);
    let config = TcpConfig { silence_timeout: SILENCE, lanes_per_peer: 1, ..tcp_config() };
    let (object, transport) = (object_at(&node, 100_000), TcpTransport::new(config));
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let results = read_all(&transport, std::slice::from_ref(&object));
                assert_eq!(results, [timed_out(&node)]);
            });
        }
    });
    assert!(begun.elapsed() < SILENCE * 3, "{:?}", begun.elapsed());
    assert_eq!(node.accepted(), 1);
}

#[test]
fn a_slow_transfer_goes_on_as_long_as_it_moves() {
    let node = FakeNode::start(|mut stream| {
        let (request, _) = read_frame(&mut stream)?;
        for part in good_reply(request.request_id).chunks(4_000) {
            stream.write_all(part)?;
            std::thread::sleep(SILENCE / 10);
        }
        let _ = read_frame(&mut stream);
        Ok(())
    });
    let begun = Instant::now();
    assert_eq!(read_all(&transport(), &[object_at(&node, 100_000)]), all_ok(1));
    assert!(begun.elapsed() > SILENCE * 2, "it was to be slower than the patience with silence");
}

#[test]
fn a_node_that_takes_no_bytes_is_given_up_soon() {
    let node = FakeNode::start(|_stream| {
        std::thread::park();
        Ok(())
    });
    let object = object_at(&node, 64 << 20);
    let source = Buffer::zeroed(64 << 20);
    let begun = Instant::now();
    let results = transport().write(EPOCH, &[object.write_op(source.raw().into())]);
    assert_eq!(results, [timed_out(&node)]);
    assert!(begun.elapsed() < SILENCE * 4, "{:?}", begun.elapsed());
}

#[test]
fn a_silent_node_is_given_up_while_another_still_moves() {
    let (silent, is_silent) = falls_silent();
    is_silent.store(true, Ordering::SeqCst);
    let slow = FakeNode::start(|mut stream| {
        let (request, _) = read_frame(&mut stream)?;
        let reply = good_reply(request.request_id);
        for part in reply.chunks(reply.len() / 20) {
            stream.write_all(part)?;
            std::thread::sleep(SILENCE / 5);
        }
        let _ = read_frame(&mut stream);
        Ok(())
    });
    let objects = [object_at(&silent, 100_000), object_at(&slow, 100_000)];
    let transport = transport();
    std::thread::scope(|scope| {
        let both = scope.spawn(|| read_all(&transport, &objects));
        std::thread::sleep(SILENCE * 2);
        let begun = Instant::now();
        assert_eq!(read_all(&transport, &objects[..1]), [timed_out(&silent)]);
        assert!(begun.elapsed() < SILENCE / 2, "it is known to be silent while the other moves");
        assert_eq!(both.join().expect("no panic"), [timed_out(&silent), Ok(())]);
    });
}

#[test]
fn a_peer_that_is_slow_to_answer_is_not_silent_yet() {
    let node = FakeNode::start(|mut stream| {
        let (request, _) = read_frame(&mut stream)?;
        let mut payload = vec![0; 1_004];
        std::io::Read::read_exact(&mut stream, &mut payload)?;
        std::thread::sleep(SILENCE / 2);
        let mut reply = Vec::new();
        encode_results(&mut reply, Kind::WriteReply, request.request_id, &[Ok(())]);
        stream.write_all(&reply)?;
        let _ = read_frame(&mut stream);
        Ok(())
    });
    let source = Buffer::zeroed(1_000);
    let object = object_at(&node, 1_000);
    let results = transport().write(EPOCH, &[object.write_op(source.raw().into())]);
    assert_eq!(results, all_ok(1));
    let healthy = Node::start(1, 4096);
    let results = super::rig::write_all(&transport(), &[Object::at(&healthy, 0, 10, 1)]);
    assert_eq!(results, all_ok(1));
}

/// A process that maps much memory starts threads slowly: both need the same lock of the process.
#[test]
fn the_first_load_from_a_node_that_is_slow_to_start_threads_does_not_fail() {
    const LEN: u64 = 3 << 19;
    for ways in ["tcp", "shm,tcp"] {
        let node = Node::start(1, 64 << 20);
        let object = |at: u64| Object::at(&node, at * LEN, LEN, at + 1);
        let objects: Vec<Object> = (0..32).map(object).collect();
        assert_eq!(write_all(&transport(), &objects), all_ok(32));
        let first = by(ways);
        let held_up = STARTS.write().unwrap();
        let read = read_all(&first, &objects);
        drop(held_up);
        assert_eq!(read, all_ok(32), "{ways}");
    }
}

#[test]
fn several_nodes_that_say_nothing_cost_no_more_than_one() {
    let connect_timeout = Duration::from_secs(1);
    for ways in ["tcp", "shm,tcp"] {
        let node = Node::start(1, 1 << 20);
        // The system accepts their connections, but no thread does.
        let silent: Vec<TcpListener> =
            (0..4).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let there = Object::at(&node, 0, 1000, 1);
        assert_eq!(write_all(&tcp(), std::slice::from_ref(&there)), all_ok(1));
        let at = |listener: &TcpListener| {
            let endpoint = listener.local_addr().unwrap().to_string().into();
            Object { endpoint, segment: SegmentId(2), ..there.clone() }
        };
        let objects: Vec<Object> = silent.iter().map(at).chain([there.clone()]).collect();
        let config = TcpConfig { connect_timeout, ..tcp_config() };
        let transport = Paths::new(None, config, ways.parse().unwrap());
        let started = Instant::now();
        let results = read_all(&transport, &objects);
        assert!(started.elapsed() < 2 * connect_timeout, "{:?} by {ways}", started.elapsed());
        let is_late = |result| matches!(result, &Err(TransferError::TimedOut { .. }));
        assert!(results[..4].iter().all(is_late), "{results:?}");
        assert_eq!(results[4], Ok(()));
    }
}
