//! How a node treats neighbours that pin ranges and then break the rules, or stop answering.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use mooncake_memory::Buffer;
use mooncake_types::{ErrorCode, RangeRead};
use mooncake_wire::{
    Kind, Refusal, decode_results, encode_pin, encode_read, encode_share, encode_unpin,
};

use super::raw_peer::{connect_and_greet, connect_nearby, read_frame, read_refusal};
use super::rig::{Node, Object, all_ok, by, read_all, tcp, version, wait_until, write_all};

/// A node with one object.
fn node() -> (Node, Object) {
    let node = Node::start(1, 1 << 20);
    let object = Object::at(&node, 4096, 100_000, 1);
    assert_eq!(write_all(&tcp(), std::slice::from_ref(&object)), all_ok(1));
    (node, object)
}

fn range(object: &Object) -> RangeRead {
    object.read_op(0, Buffer::zeroed(object.len as usize).raw().into()).range
}

fn send(stream: &mut TcpStream, encode: impl FnOnce(&mut Vec<u8>)) {
    let mut frame = Vec::new();
    encode(&mut frame);
    stream.write_all(&frame).unwrap();
}

fn pin(stream: &mut TcpStream, ranges: &[RangeRead]) -> Vec<Result<(), ErrorCode>> {
    send(stream, |out| encode_pin(out, 5, ranges));
    let (header, body) = read_frame(stream).unwrap();
    assert_eq!((header.kind, header.request_id), (Kind::PinReply, 5));
    decode_results(&body).unwrap()
}

/// A node's neighbour that has pinned its object.
fn pinned(node: &Node, object: &Object) -> TcpStream {
    let mut stream = connect_nearby(&node.endpoint);
    assert_eq!(pin(&mut stream, &[range(object)]), [Ok(())]);
    assert_eq!(node.host.pins(), 1);
    stream
}

fn refused(stream: &mut TcpStream, message: &str) {
    let refusal = Refusal { code: ErrorCode::InvalidParams, message: message.to_owned() };
    assert_eq!(read_refusal(stream), refusal);
}

#[test]
fn pins_are_for_neighbours() {
    let (node, object) = node();
    let mut stream = connect_and_greet(&node.endpoint);
    send(&mut stream, |out| encode_pin(out, 1, &[range(&object)]));
    refused(&mut stream, "a data port takes no Pin frames");
    let mut stream = connect_and_greet(&node.endpoint);
    send(&mut stream, |out| encode_unpin(out, 1, &[0]));
    refused(&mut stream, "a data port takes no Unpin frames");
}

#[test]
fn what_cannot_be_pinned_is_an_answer() {
    let (node, object) = node();
    let good = range(&object);
    let mut stream = connect_nearby(&node.endpoint);
    let bad = [
        RangeRead { offset: 0, ..good },
        RangeRead { version: version(2), ..good },
        RangeRead { len: good.len + 1, ..good },
        RangeRead { from: u64::MAX, ..good },
        RangeRead { len: 0, ..good },
        RangeRead { segment: mooncake_types::SegmentId(9), ..good },
        RangeRead { len: 2 << 30, ..good },
    ];
    let results = pin(&mut stream, &bad);
    assert!(results.len() == bad.len() && results.iter().all(Result::is_err), "{results:?}");
    assert_eq!(pin(&mut stream, &[]), []);
    assert_eq!(pin(&mut stream, &[good, bad[0], good])[..1], [Ok(())]);
    assert_eq!(node.host.pins(), 2);
    // Numbers of pins that were refused, or never asked for, are ignored.
    send(&mut stream, |out| encode_unpin(out, 1, &[0, 3, 8, 8, 99, u64::MAX]));
    assert_eq!(pin(&mut stream, &[]), []);
    assert_eq!(node.host.pins(), 2);
    send(&mut stream, |out| encode_unpin(out, 1, &[7, 7, 9]));
    wait_until("nothing is pinned", || node.host.pins() == 0);
}

/// It may view the range until its connection has ended, whatever it sends.
#[test]
fn a_peer_that_breaks_the_rules_keeps_its_pins_until_it_is_gone() {
    type Attack = fn(&mut TcpStream, &Object);
    let attacks: [(Attack, Option<&str>); 5] = [
        (
            |stream, object| send(stream, |out| encode_read(out, 1, &[range(object)])),
            Some("a connection for pins takes no Read frames"),
        ),
        (
            |stream, object| send(stream, |out| encode_share(out, 1, object.segment)),
            Some("a connection for pins takes no Share frames"),
        ),
        (|stream, _| stream.write_all(&[7; 100]).unwrap(), None),
        (|stream, _| stream.write_all(b"KM.\0\xff\xff\xff\xff\0\0\0\0\0\0\0\0").unwrap(), None),
        (
            |stream, _| {
                let mut frame = Vec::new();
                encode_unpin(&mut frame, 0, &[1; 100]);
                stream.write_all(&frame[..40]).unwrap();
            },
            None,
        ),
    ];
    for (attack, message) in attacks {
        let (node, object) = node();
        let mut stream = pinned(&node, &object);
        attack(&mut stream, &object);
        if let Some(message) = message {
            refused(&mut stream, message);
        }
        let newer = [Object { version: version(2), ..object }];
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| write_all(&by("shm"), &newer));
            // The node tells it by closing its side.
            stream.read_to_end(&mut Vec::new()).unwrap();
            assert!(!writer.is_finished() && node.host.pins() == 1, "it may still be looking");
            drop(stream);
            assert_eq!(writer.join().unwrap(), all_ok(1));
        });
        assert_eq!((read_all(&by("shm"), &newer), node.host.pins()), (all_ok(1), 0));
    }
}

#[test]
fn a_peer_that_only_says_nothing_any_more_is_still_looking() {
    let (node, object) = node();
    let mut stream = pinned(&node, &object);
    let newer = [Object { version: version(2), ..object }];
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| write_all(&tcp(), &newer));
        assert_eq!(stream.read_to_end(&mut Vec::new()).unwrap(), 0);
        assert!(!writer.is_finished());
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(writer.join().unwrap(), all_ok(1));
    });
}

/// How many threads of this process have a name; those called `data` serve connections, or wait for one.
fn threads(called: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("the threads of this process");
    let name = |task: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(task.ok()?.path().join("comm")).ok()
    };
    tasks.filter_map(name).filter(|name| name.trim_end() == called).count()
}

/// A stopped process whose only descriptor is one end of a connection. It is killed at the end of a test that fails, too:
/// writers wait for it.
struct Stopped(Child);

impl Stopped {
    fn with(stream: TcpStream) -> Self {
        let mut shell = Command::new("sh");
        let child = shell.args(["-c", "kill -STOP $$"]).stdin(OwnedFd::from(stream)).spawn();
        let stopped = Self(child.expect("there is a shell"));
        let stat = format!("/proc/{}/stat", stopped.0.id());
        wait_until("it is stopped", || {
            std::fs::read_to_string(&stat).is_ok_and(|text| text.contains(") T "))
        });
        stopped
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.0.kill().expect("it is our child");
        self.0.wait().expect("it ends");
    }
}

/// Processes that are stopped hold their connections, and with them what they view, until they end.
#[test]
fn stopped_processes_keep_what_they_view_and_hold_one_thread_together() {
    const PROCESSES: usize = 6;
    let node = Node::start(1, 4 << 20);
    let object = |number: u64| Object::at(&node, number * 100_000, 50_000, number + 1);
    let objects: Vec<Object> = (0..PROCESSES as u64).map(object).collect();
    // Two threads of the port and two of the local socket wait for the next connections.
    let idle = 4;
    wait_until("they wait", || threads("data") == idle);
    assert_eq!(write_all(&tcp(), &objects), all_ok(PROCESSES));
    wait_until("the writer is gone", || threads("data") == idle);
    let mut stopped: Vec<Stopped> = Vec::new();
    for object in &objects {
        let mut stream = connect_nearby(&node.endpoint);
        assert_eq!(pin(&mut stream, &[range(object)]), [Ok(())]);
        stopped.push(Stopped::with(stream));
    }
    assert_eq!(node.host.pins(), PROCESSES);
    wait_until("each has a thread", || threads("data") == idle + PROCESSES);
    let newer = |object: &Object| [Object { version: version(90), ..object.clone() }];
    let (node, objects) = (&node, &objects);
    std::thread::scope(move |scope| {
        let write = |object| scope.spawn(move || write_all(&tcp(), &newer(object)));
        let writers: Vec<_> = objects.iter().map(write).collect();
        // What is left are the threads that serve the writers.
        wait_until("one thread waits for all", || {
            threads("data-overdue") == 1 && threads("data") == idle + PROCESSES
        });
        assert_eq!(node.host.pins(), PROCESSES, "they may go on at any moment");
        // The end of one gives back what it viewed, and nothing of the others.
        for (number, (stopped, writer)) in stopped.into_iter().zip(writers).enumerate() {
            assert!(!writer.is_finished());
            drop(stopped);
            assert_eq!(writer.join().unwrap(), all_ok(1));
            assert_eq!(node.host.pins(), PROCESSES - 1 - number);
            assert_eq!(read_all(&tcp(), &newer(&objects[number])), all_ok(1));
        }
        wait_until("no thread waits", || threads("data-overdue") == 0);
    });
}

#[test]
fn a_node_that_stops_does_not_wait_for_ever_and_never_gives_back_what_is_looked_at() {
    let (node, object) = node();
    let stream = pinned(&node, &object);
    let begun = Instant::now();
    node.server.stop();
    let took = begun.elapsed();
    assert!(took >= Duration::from_secs(2) && took < Duration::from_secs(10), "{took:?}");
    drop(stream);
    assert_eq!(node.host.pins(), 1, "nobody knows whether it has stopped looking");
}

#[test]
fn a_peer_that_has_nothing_pinned_does_not_hold_up_a_node_that_stops_for_long() {
    let (node, object) = node();
    let mut stream = pinned(&node, &object);
    send(&mut stream, |out| encode_unpin(out, 1, &[0]));
    wait_until("nothing is pinned", || node.host.pins() == 0);
    node.server.stop();
    assert_eq!(stream.read_to_end(&mut Vec::new()).unwrap(), 0);
}
