//! After a call has returned, nothing reads or writes the caller's memory, whatever the peer does then.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use mooncake_client::{Buffer, ErrorCode, ReplicateConfig, Store, StoreConfig};
use mooncake_testing::admit;
use mooncake_types::{
    ClientId, Epoch, MountOutcome, MountSegment, PutEnd, PutItem, PutStart, Reply, Request,
    SegmentId, Tick,
};
use mooncake_wire::{Kind, Welcome};

use crate::master::{CLUSTER, Master, TOKEN, read_frame};
use crate::rig::{config, fragment, ranged};

/// More than the socket buffers hold for a peer that does not read.
const LEN: usize = 32 << 20;

const NODE: ClientId = ClientId(77);

/// A node that shakes hands, and then runs one function on one connection.
struct Peer {
    go_on: Sender<()>,
    done: Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

impl Peer {
    /// Mounts a segment, and runs `act` on the first connection to it. [`Peer::go_on`] sends to the receiver of `act`.
    fn start(master: &Master, act: impl FnOnce(TcpStream, Receiver<()>) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let endpoint = listener.local_addr().expect("it is bound").to_string();
        let mount = MountSegment {
            id: SegmentId(77),
            name: &endpoint,
            endpoint: &endpoint,
            len: 2 * LEN as u64,
            seen_epoch: Epoch(0),
            is_empty: true,
            run: 1,
            medium: mooncake_types::Medium::Memory,
            domains: &[],
            seal_key: None,
        };
        let request = Request::MountSegment(mount);
        let reply = master.with_meta(|meta| meta.handle(Tick(0), NODE, &request));
        assert_eq!(reply, Reply::Mounted(MountOutcome::Ready));
        let (go_on, told) = channel();
        let (tell, done) = channel();
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("somebody connects");
            welcome(&mut stream);
            act(stream, told);
            // A failed test has dropped the receiver.
            let _ = tell.send(());
        });
        Self { go_on, done, thread: Some(thread) }
    }

    /// Lets the peer continue, and waits until it has ended.
    fn go_on(mut self) {
        self.go_on.send(()).expect("the peer waits");
        self.done.recv_timeout(Duration::from_secs(20)).expect("the peer ends");
        self.thread.take().expect("it was started").join().expect("the peer does not panic");
    }
}

fn welcome(stream: &mut TcpStream) {
    admit(stream, (CLUSTER, TOKEN), &Welcome::new(Epoch(7))).expect("a client says hello");
}

/// Answers a read with half of its bytes, and sends the other half after [`Peer::go_on`].
fn halt_in_the_middle_of_a_read(mut stream: TcpStream, told: Receiver<()>) {
    let (header, body) = read_frame(&mut stream).expect("a client reads");
    assert_eq!(header.kind, Kind::Read);
    let ranges = mooncake_wire::decode_read(&body).expect("its frame decodes");
    let len: u64 = ranges.iter().map(|range| range.len).sum();
    let mut out = Vec::new();
    let results = vec![Ok(()); ranges.len()];
    mooncake_wire::encode_results(&mut out, Kind::ReadReply, header.request_id, &results);
    out.resize(out.len() + len as usize / 2, 0xAA);
    stream.write_all(&out).expect("the client listens");
    told.recv().expect("the test tells");
    // The client has closed the connection, so the write may fail.
    let _ = stream.write_all(&vec![0xAA; len as usize / 2 + 1024]);
}

/// Reads nothing before [`Peer::go_on`]. Then checks that no received byte was put in memory after the call had
/// returned.
fn halt_before_a_write(mut stream: TcpStream, told: Receiver<()>) {
    told.recv().expect("the test tells");
    let mut received = Vec::new();
    // The client has closed the connection: what it sent may be read, or be lost.
    let _ = stream.read_to_end(&mut received);
    let sent = received.windows(64).any(|bytes| bytes.iter().all(|&byte| byte == 0xAA));
    assert!(sent, "the write had begun: {} bytes were received", received.len());
    let foreign = received.windows(64).any(|bytes| bytes.iter().all(|&byte| byte == 0xBB));
    assert!(!foreign, "bytes were sent that the caller wrote after its call had returned");
}

/// A client with a transfer timeout of 300 ms.
fn client(master: &Master) -> Store {
    let transfer_timeout = Duration::from_millis(300);
    Store::open(StoreConfig { transfer_timeout, ..config(master, 0) }).expect("the store opens")
}

/// Makes the master believe that an object lies on the peer.
fn put_there(master: &Master, key: &str, len: u64) {
    master.with_meta(|meta| {
        let now = Tick(0);
        let start = PutStart { puts: vec![PutItem::new(key, len)], ..PutStart::default() };
        let Reply::Granted { results, .. } = meta.handle(now, NODE, &Request::PutStart(start))
        else {
            panic!("the put is not granted")
        };
        let version = results[0].as_ref().expect("there is room").version;
        let end = PutEnd { key, version, failed_replicas: 0, held_replicas: 0 };
        let reply = meta.handle(now, NODE, &Request::PutEnd { puts: vec![end] });
        assert_eq!(reply, Reply::Statuses(vec![Ok(())]));
    });
}

const FAILED: ErrorCode = ErrorCode::TransferFail;

/// Makes a read of 100,000 bytes fail, lets the peer send the rest, and checks that the memory stays as it was.
fn check_read(read: impl FnOnce(&Store, &Buffer)) {
    let master = Master::start();
    let peer = Peer::start(&master, halt_in_the_middle_of_a_read);
    put_there(&master, "a", 100_000);
    let client = client(&master);
    let room = Buffer::zeroed(100_000);
    read(&client, &room);
    let before = room.as_slice().to_vec();
    assert!(before.contains(&0xAA), "the read had begun");
    peer.go_on();
    assert!(room.as_slice() == before, "the memory has changed after the call");
}

#[test]
fn a_ranged_get_that_failed_touches_nothing_any_more() {
    check_read(|client, room| {
        let item = ranged("a", &[fragment(room, 0, 40_000), fragment(room, 50_000, 50_000)]);
        assert_eq!(client.get_ranges(&[item]), vec![vec![Err(FAILED); 2]]);
    });
}

#[test]
fn a_read_of_a_session_that_failed_touches_nothing_any_more() {
    let config = mooncake_meta::Config { lease_ttl_ms: 60_000, ..crate::master::config() };
    let master = Master::start_at("127.0.0.1:0", mooncake_meta::Meta::new(config, Epoch(7)));
    let peer = Peer::start(&master, halt_in_the_middle_of_a_read);
    put_there(&master, "a", 100_000);
    let client = client(&master);
    let room = Buffer::zeroed(100_000);
    assert_eq!(client.get_session_start(&["a"]), vec![Ok(100_000)]);
    let item = ranged("a", &[fragment(&room, 0, 100_000)]);
    assert_eq!(client.get_session_read(&[item]), vec![Err(FAILED)]);
    let before = room.as_slice().to_vec();
    assert!(before.contains(&0xAA), "the read had begun");
    peer.go_on();
    assert!(room.as_slice() == before, "the memory has changed after the call");
}

/// Makes a write of a long object fail, changes the caller's memory, and lets the peer read.
fn check_write(write: impl FnOnce(&Store, &Buffer)) {
    let master = Master::start();
    let peer = Peer::start(&master, halt_before_a_write);
    let client = client(&master);
    let mut bytes = Buffer::from_vec(vec![0xAA; LEN]);
    write(&client, &bytes);
    bytes.as_mut_slice().fill(0xBB);
    peer.go_on();
}

#[test]
fn a_part_that_could_not_be_written_is_not_sent_any_more() {
    check_write(|client, bytes| {
        let item = [PutItem::new("a", LEN as u64)];
        assert_eq!(client.put_session_start(&item, &ReplicateConfig::default()), vec![Ok(())]);
        let written = client.put_session_write(&[ranged("a", &[fragment(bytes, 0, LEN)])]);
        assert_eq!(written, vec![Err(FAILED)]);
        assert_eq!(client.put_session_end(&["a"]), vec![Err(ErrorCode::InvalidWrite)]);
    });
}

#[test]
fn an_upsert_that_failed_is_not_sent_any_more() {
    check_write(|client, bytes| {
        let source = mooncake_client::PutSource::new("a", bytes.raw().into());
        let failed = client.upsert(&[source], &ReplicateConfig::default());
        assert_eq!(failed, vec![Err(FAILED)]);
    });
}
