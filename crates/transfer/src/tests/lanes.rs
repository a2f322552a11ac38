//! Calls of several threads share the lanes to one node.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mooncake_wire::encode_read;

use super::raw_peer::{connect_and_greet, read_frame};
use super::rig::{Node, Object, all_ok, by, read_all, tcp, tcp_config, write_all};
use crate::client::{Lease, Peers, Purpose};
use crate::{TcpConfig, TcpTransport, TransferError};

const PATIENCE: Duration = Duration::from_secs(20);

fn peers(node: &Node, lanes_per_peer: usize) -> (Peers, Arc<str>) {
    (Peers::new(TcpConfig { lanes_per_peer, ..tcp_config() }), Arc::clone(&node.endpoint))
}

#[test]
fn writes_leave_one_lane_to_reads() {
    let node = Node::start(1, 4096);
    let (peers, endpoint) = peers(&node, 4);
    let lease = |purpose, deadline| peers.lease(&endpoint, purpose, deadline).map(|_| ());
    let later = || Instant::now() + PATIENCE;
    let lend = |purpose| peers.lease(&endpoint, purpose, later()).expect("a lane");
    let writes = [(); 3].map(|()| lend(Purpose::Write));
    let full = Err(TransferError::TimedOut { endpoint: Arc::clone(&endpoint) });
    assert_eq!(lease(Purpose::Write, Instant::now()), full);
    let read = lend(Purpose::Read);
    assert_eq!(lease(Purpose::Read, Instant::now()), full);
    read.give_back();
    writes.into_iter().for_each(Lease::give_back);
    let _reads = [(); 4].map(|()| lend(Purpose::Read));
    assert_eq!(lease(Purpose::Write, Instant::now()), full);
}

#[test]
fn a_write_that_waits_gets_the_next_lane_of_many_reads() {
    let node = Node::start(1, 4096);
    let (peers, endpoint) = peers(&node, 2);
    let later = Instant::now() + PATIENCE;
    let lend = |purpose| peers.lease(&endpoint, purpose, later).expect("a lane");
    let (one, other) = (lend(Purpose::Read), lend(Purpose::Read));
    let stop = AtomicBool::new(false);
    let waiting = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                waiting.fetch_add(1, Ordering::Relaxed);
                while !stop.load(Ordering::Relaxed) {
                    lend(Purpose::Read).give_back();
                }
            });
        }
        let writer = scope.spawn(|| {
            lend(Purpose::Write).give_back();
            stop.store(true, Ordering::Relaxed);
        });
        while waiting.load(Ordering::Relaxed) < 4 {
            std::thread::yield_now();
        }
        one.give_back();
        other.give_back();
        writer.join().expect("it got its lane");
    });
}

/// The writes that hold lanes never end here. A read that waited for one of them, or for a waiting write, would never
/// get its lane.
#[test]
fn reads_overtake_writes_that_wait() {
    const WRITERS: usize = 8;
    let node = Node::start(1, 4096);
    let (peers, endpoint) = peers(&node, 3);
    let later = Instant::now() + PATIENCE;
    let lend = |purpose| peers.lease(&endpoint, purpose, later).expect("a lane");
    let held = [lend(Purpose::Write), lend(Purpose::Write)];
    let (come, served) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..WRITERS {
            scope.spawn(|| {
                come.fetch_add(1, Ordering::SeqCst);
                let lease = lend(Purpose::Write);
                served.fetch_add(1, Ordering::SeqCst);
                lease.give_back();
            });
        }
        while come.load(Ordering::SeqCst) < WRITERS {
            std::thread::yield_now();
        }
        for _ in 0..100 {
            lend(Purpose::Read).give_back();
        }
        assert_eq!(served.load(Ordering::SeqCst), 0);
        held.into_iter().for_each(Lease::give_back);
    });
    assert_eq!(served.into_inner(), WRITERS);
}

#[test]
fn one_lane_serves_large_and_many_small_calls_of_several_threads() {
    const LARGE: u64 = 8 << 20;
    let node = Node::start(1, LARGE + (1 << 20));
    let transport = TcpTransport::new(TcpConfig { lanes_per_peer: 1, ..tcp_config() });
    let large = [Object::at(&node, 0, LARGE, 1)];
    let small: Vec<Object> =
        (0..1000).map(|i| Object::at(&node, LARGE + i * 64, 64, 2 + i)).collect();
    assert_eq!(write_all(&transport, &large), all_ok(1));
    assert_eq!(write_all(&transport, &small), all_ok(1000));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope
                .spawn(|| (0..5).for_each(|_| assert_eq!(read_all(&transport, &large), all_ok(1))));
        }
        scope.spawn(|| (0..5).for_each(|_| assert_eq!(read_all(&transport, &small), all_ok(1000))));
        for some in small.chunks(250) {
            let transport = &transport;
            scope.spawn(move || {
                for object in some {
                    assert_eq!(read_all(transport, std::slice::from_ref(object)), all_ok(1));
                }
            });
        }
    });
}

/// It asks for more bytes than all buffers on the way hold.
#[test]
fn a_peer_that_takes_no_replies_holds_up_nobody_else() {
    const LEN: u64 = 8 << 20;
    let node = Node::start(1, LEN);
    let object = [Object::at(&node, 0, LEN, 1)];
    assert_eq!(write_all(&tcp(), &object), all_ok(1));
    let room = mooncake_memory::Buffer::zeroed(LEN as usize);
    let range = object[0].read_op(0, room.raw().into()).range;
    let mut asking = connect_and_greet(&node.endpoint);
    let mut frames = Vec::new();
    (0..20).for_each(|id| encode_read(&mut frames, id, &[range]));
    asking.write_all(&frames).expect("questions are short");
    // The first answer has begun, so the node is working on it.
    let (header, _) = read_frame(&mut asking).expect("a head");
    assert_eq!(header.request_id, 0);
    for _ in 0..5 {
        assert_eq!(read_all(&tcp(), &object), all_ok(1));
    }
    // The node ends the connection by itself.
    node.server.stop();
}

#[test]
fn a_long_read_of_what_goes_meanwhile_is_stale() {
    const LEN: u64 = 12 << 20;
    let node = Node::start(1, LEN);
    let (transport, object) = (by("tcp"), [Object::at(&node, 0, LEN, 1)]);
    assert_eq!(write_all(&transport, &object), all_ok(1));
    let begun = AtomicUsize::new(0);
    node.host.on_read(move |host, ticket| {
        if begun.fetch_add(1, Ordering::SeqCst) == 2 {
            host.drop_entries(ticket.segment);
        }
    });
    assert_eq!(read_all(&transport, &object), [Err(TransferError::Stale)]);
}

#[test]
fn threads_that_want_lanes_of_the_same_nodes_do_not_wait_for_each_other_for_ever() {
    let nodes = [Node::start(1, 1 << 20), Node::start(2, 1 << 20)];
    let transport = TcpTransport::new(TcpConfig { lanes_per_peer: 2, ..tcp_config() });
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let (nodes, transport) = (&nodes, &transport);
            scope.spawn(move || {
                for round in 1..=200 {
                    let at = |node| Object::at(node, thread * 10_000, 1000, round);
                    let objects = nodes.each_ref().map(at);
                    assert_eq!(write_all(transport, &objects), all_ok(2));
                    assert_eq!(read_all(transport, &objects), all_ok(2));
                }
            });
        }
    });
}
