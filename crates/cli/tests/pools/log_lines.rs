//! What masters and nodes log about joins, losses, recovery and refused peers.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use mooncake_client::{Buffer, PutSource, ReplicateConfig, SliceList};
use mooncake_testing::{Master, Program};
use rustix::process::Signal;

use crate::start::{CLIENT, MASTER, node, store};

#[test]
fn a_master_says_which_nodes_come_and_go_and_what_was_lost_with_them() {
    let master = Master::start(MASTER, &["--client_ttl=1", "--default_kv_lease_ttl=200ms"]);
    let mut first = node(&master.rpc, &[]);
    let joined = master.program.line("a segment joins the pool");
    assert!(joined.contains(&format!("segment={}", first.address)), "{joined}");
    let store = store(&master.rpc);
    let bytes = Buffer::from_vec(vec![7; 4096]);
    for key in ["one", "two", "three"] {
        let source = PutSource::new(key, SliceList::from(bytes.raw()));
        assert_eq!(store.put(&[source], &ReplicateConfig::default()), [Ok(())]);
    }
    first.program.kill();
    let unseen = master.program.line("a node is out of sight");
    assert!(unseen.contains("segments=1"), "{unseen}");
    let lost = master.program.line("a segment is lost");
    assert!(lost.contains("replicas=3 bytes=12288"), "{lost}");
    let mut second = node(&master.rpc, &[]);
    second.program.stop(Signal::TERM);
    let left = master.program.line("a segment leaves the pool");
    assert!(left.contains("replicas=0 bytes=0"), "{left}");
    // This counts the killed node only: the stopped node unmounted its segment before its connections closed.
    let third = node(&master.rpc, &[]);
    master.program.line(&format!("segment={}", third.address));
    assert_eq!(master.program.seen("a node is out of sight"), 1);
}

#[test]
fn a_recovering_master_says_what_it_waits_for_and_when_that_is_over() {
    let mut master = Master::start_lasting(MASTER, &["--default_kv_lease_ttl=2s"]);
    let mut node = node(&master.rpc, &[]);
    node.program.kill();
    master.restart();
    let begins = master.program.first_line("recovery begins: puts and removals are refused");
    assert!(begins.contains("missing=1") && begins.contains("at_most_ms="), "{begins}");
    let over = master.program.first_line("recovery is over");
    assert!(over.contains("objects=0"), "{over}");
}

#[test]
fn peers_that_speak_another_protocol_are_named_once_with_it() {
    let master = Master::start(MASTER, &[]);
    let send = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(&master.rpc).expect("the master listens");
        stream.write_all(bytes).expect("the master reads");
        // Reads until the master closes the connection.
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    };
    for _ in 0..20 {
        send(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x00\x00\x00\x00\x00\x00");
    let line = master.program.line("it speaks TLS");
    assert!(line.contains("a peer was turned away"), "{line}");
    assert_eq!(master.program.seen("it speaks HTTP"), 1);
}

#[test]
fn a_node_that_waits_for_its_master_says_so_without_the_password_and_ends_at_once() {
    let address = "--master_server_address=redis://:hunter2@127.0.0.1:1";
    let flags = ["--host=127.0.0.1", "--port=0", "--global_segment_size=16MB", address];
    let mut waiting = Program::start(CLIENT, &flags);
    let line = waiting.line("no master has taken this client yet");
    assert!(line.contains("redis://...@127.0.0.1:1") && !line.contains("hunter2"), "{line}");
    let (_, took) = waiting.stop(Signal::INT);
    assert!(took < Duration::from_millis(500), "{took:?}");
    let said = Program::start(CLIENT, &flags).failure();
    assert!(said.contains("redis://...@127.0.0.1:1") && !said.contains("hunter2"), "{said}");
}
