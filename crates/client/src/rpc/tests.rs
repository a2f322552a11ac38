use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use mooncake_node::Host;
use mooncake_ops::CallError;
use mooncake_types::{
    BusyWait, ClientId, Epoch, ErrorCode, Grant, Medium, PutItem, PutMode, PutStart,
    ReplicateConfig, Reply, Request, TaskId, Version,
};
use mooncake_wire::{HEADER_LEN, Header, Hello, Kind, Role, Welcome};

use super::{ConnectionPool, Dialer, Masters};
use crate::address::{HostPort, MasterEndpoint};
use crate::metrics::Metrics;

const TIMEOUT: Duration = Duration::from_millis(200);

/// A master's answers on one connection. It answers the hello as usual, then each request with the next of these, and
/// closes the connection after the last.
type Script = Vec<Answer>;

#[derive(Clone)]
enum Answer {
    Bytes(Vec<u8>),
    Reply(Reply),
    /// The reply byte by byte, with a pause before each.
    Slowly(Reply),
    Silence,
}

/// A pool whose master follows one script per connection. The channel reports each request that arrives.
fn pool(scripts: Vec<Script>) -> (ConnectionPool, mpsc::Receiver<()>) {
    pool_of(Arc::new(Host::new(Vec::new())), scripts)
}

fn pool_of(host: Arc<Host>, scripts: Vec<Script>) -> (ConnectionPool, mpsc::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    let (arrived, arrivals) = mpsc::channel();
    std::thread::spawn(move || {
        for script in scripts {
            let (stream, _) = listener.accept().expect("somebody connects");
            let arrived = arrived.clone();
            std::thread::spawn(move || play(stream, script, &arrived));
        }
    });
    let masters = Arc::new(Masters::listed(vec![MasterEndpoint::Port(HostPort {
        host: "127.0.0.1".to_owned(),
        port,
    })]));
    let hello = Hello::new(Role::Client, ClientId(1));
    let dialer = Dialer {
        attempt_timeout: Duration::from_secs(2),
        call_timeout: TIMEOUT,
        ..Dialer::new(masters, hello, BusyWait::DEFAULT_LIMIT)
    };
    (ConnectionPool::new(dialer, Arc::new(Metrics::new(1, Duration::ZERO, None)), host), arrivals)
}

fn play(mut stream: TcpStream, script: Script, arrived: &mpsc::Sender<()>) {
    let mut out = Vec::new();
    let software_version = String::new();
    let welcome = Welcome { software_version, ..Welcome::new(Epoch(1)) };
    let hello = read_frame(&mut stream).expect("a hello comes first");
    mooncake_wire::encode_welcome(&mut out, hello.request_id, &welcome);
    stream.write_all(&out).expect("the client listens");
    for answer in script {
        let Some(request) = read_frame(&mut stream) else { return };
        // The test may have ended already.
        let _ = arrived.send(());
        let encode = |reply: &Reply| {
            let mut out = Vec::new();
            mooncake_wire::encode_reply(&mut out, request.request_id, reply);
            out
        };
        let sent = match &answer {
            Answer::Bytes(bytes) => stream.write_all(bytes),
            Answer::Reply(reply) => stream.write_all(&encode(reply)),
            Answer::Slowly(reply) => encode(reply).iter().try_for_each(|byte| {
                std::thread::sleep(TIMEOUT / 10);
                stream.write_all(&[*byte])
            }),
            Answer::Silence => Ok(()),
        };
        if sent.is_err() {
            return;
        }
        if matches!(answer, Answer::Silence) {
            // Wait until the client gives up.
            let _ = stream.read(&mut [0]);
        }
    }
}

fn read_frame(stream: &mut TcpStream) -> Option<Header> {
    let mut header = [0; HEADER_LEN];
    stream.read_exact(&mut header).ok()?;
    let header = Header::decode(&header).expect("a client's header decodes");
    stream.read_exact(&mut vec![0; header.body_len as usize]).ok()?;
    Some(header)
}

fn exist() -> Request<'static> {
    Request::exist(vec!["key"])
}

fn remove() -> Request<'static> {
    Request::Remove { keys: vec!["key"], force: false }
}

fn yes() -> Reply {
    Reply::Exist(vec![Ok(true)])
}

fn frame(kind: Kind, body: &[u8], request_id: u64) -> Vec<u8> {
    let header = Header { kind, flags: 0, body_len: body.len() as u32, request_id };
    [&header.encode()[..], body].concat()
}

#[test]
fn replies_come_back_and_connections_are_used_again() {
    let (pool, arrivals) = pool(vec![vec![Answer::Reply(yes()); 3]]);
    for _ in 0..3 {
        assert_eq!(pool.call(&exist()), Ok(yes()));
    }
    assert_eq!(arrivals.try_iter().count(), 3);
}

#[test]
fn a_reply_longer_than_any_buffer_comes_whole() {
    let statuses = |count| Reply::Statuses(vec![Err(ErrorCode::ObjectHasLease); count]);
    let located = Reply::Located {
        successors: vec![],
        predecessors: vec![],
        results: vec![Err(ErrorCode::ObjectNotFound); 4096],
        segments: (0..4000)
            .map(|number| mooncake_types::SegmentAddress {
                id: mooncake_types::SegmentId(number),
                name: format!("{number:0200}").into(),
                endpoint: "endpoint".into(),
                medium: Medium::Memory,
            })
            .collect(),
        lease_ms: 5,
    };
    let script = vec![
        Answer::Reply(statuses(1)),
        Answer::Reply(located.clone()),
        Answer::Reply(statuses(4096)),
    ];
    let (pool, _arrivals) = pool(vec![script]);
    assert_eq!(pool.call(&exist()), Ok(statuses(1)));
    assert_eq!(pool.call(&exist()), Ok(located));
    assert_eq!(pool.call(&exist()), Ok(statuses(4096)));
}

#[test]
fn frames_that_make_no_sense_are_errors_and_end_the_connection() {
    let mut unframed = Vec::new();
    mooncake_wire::encode_reply(&mut unframed, 0, &yes());
    let body = unframed.split_off(HEADER_LEN);
    // The hello had request id 1, so the request has 2.
    let oversized = {
        let mut bytes = frame(Kind::Reply, &[], 2);
        bytes[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        bytes
    };
    let two = [frame(Kind::Reply, &body, 2), frame(Kind::Reply, &body, 3)].concat();
    for (bytes, reason) in [
        (b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), "begin with"),
        (frame(Kind::Reply, &body, 9), "the reply to request 9 came in place of that to 2"),
        (frame(Kind::ReadReply, &body, 2), "a frame of kind ReadReply came in place of Reply"),
        (frame(Kind::Reply, &[0xff; 20], 2), ""),
        (oversized, "over the limit"),
        (two, "more bytes came than the frame has"),
    ] {
        let scripts = vec![vec![Answer::Bytes(bytes)], vec![Answer::Reply(yes())]];
        let (pool, _arrivals) = pool(scripts);
        match pool.call(&exist()) {
            Err(CallError::Protocol { reason: said }) => assert!(said.contains(reason), "{said}"),
            other => panic!("{reason}: {other:?}"),
        }
        assert_eq!(pool.call(&exist()), Ok(yes()), "over a connection of its own");
    }
}

#[test]
fn a_reply_that_breaks_off_is_no_reply() {
    let mut whole = Vec::new();
    mooncake_wire::encode_reply(&mut whole, 2, &yes());
    for cut in 0..whole.len() {
        let (pool, _arrivals) = pool(vec![vec![Answer::Bytes(whole[..cut].to_vec())]]);
        let error = pool.call(&exist()).expect_err("it is not whole");
        assert_eq!(error.code(), ErrorCode::RpcFail, "{cut}: {error}");
    }
}

#[test]
fn a_call_takes_no_longer_than_its_timeout_however_slowly_the_reply_comes() {
    for answer in [Answer::Silence, Answer::Slowly(yes())] {
        let (pool, _arrivals) = pool(vec![vec![answer]]);
        let started = Instant::now();
        let error = CallError::TimedOut { after_ms: TIMEOUT.as_millis() as u64 };
        assert_eq!(pool.call(&exist()), Err(error));
        assert!((TIMEOUT..TIMEOUT * 3).contains(&started.elapsed()), "{:?}", started.elapsed());
    }
}

#[test]
fn a_call_that_is_nearly_over_waits_for_no_more_than_what_is_left() {
    let script = || vec![Answer::Reply(yes()), Answer::Reply(yes()), Answer::Silence];
    for most in [TIMEOUT / 3, TIMEOUT] {
        let (pool, _arrivals) = pool(vec![script()]);
        assert_eq!(pool.call(&exist()), Ok(yes()));
        // The shorter time of this call does not apply to the next.
        assert_eq!(pool.call_within(&exist(), TIMEOUT / 2), Ok(yes()));
        let started = Instant::now();
        let error = CallError::TimedOut { after_ms: most.as_millis() as u64 };
        assert_eq!(pool.call_within(&exist(), most), Err(error));
        assert!((most..most * 3).contains(&started.elapsed()), "{:?}", started.elapsed());
    }
}

#[test]
fn only_what_may_be_done_twice_is_sent_twice() {
    // The connection closes while the second request is under way.
    let closing = || vec![Answer::Reply(yes()), Answer::Bytes(Vec::new())];
    let end = |outcome| Request::EndTask { id: TaskId(1), outcome };
    for (request, is_repeated) in [
        (exist(), true),
        (remove(), false),
        (end(Err(ErrorCode::TransferFail)), true),
        (end(Ok(())), false),
    ] {
        let (pool, arrivals) = pool(vec![closing(), vec![Answer::Reply(yes())]]);
        assert_eq!(pool.call(&exist()), Ok(yes()));
        let reply = pool.call(&request);
        assert_eq!(reply.is_ok(), is_repeated, "{reply:?}");
        assert_eq!(arrivals.try_iter().count(), if is_repeated { 3 } else { 2 });
    }
}

#[test]
fn a_leader_that_only_the_pool_has_met_outdates_the_routes_of_the_one_before() {
    let version = Version { epoch: Epoch(3), counter: 1 };
    let results = vec![Ok(Grant {
        version,
        placements: Vec::new(),
        attributes: Vec::new(),
        drop_seals: Vec::new(),
    })];
    let granted = Reply::Granted { results, segments: Vec::new() };
    let host = Arc::new(Host::new(Vec::new()));
    let script = vec![Answer::Reply(yes()), Answer::Reply(granted.clone())];
    let (pool, _arrivals) = pool_of(Arc::clone(&host), vec![script]);
    assert_eq!(host.epoch(), Epoch(0));
    assert_eq!(pool.call(&exist()), Ok(yes()));
    assert_eq!(host.epoch(), Epoch(1), "it was named when they connected");
    let puts = vec![PutItem::new("key", 1)];
    let start = PutStart { puts, config: ReplicateConfig::default(), mode: PutMode::Insert };
    assert_eq!(pool.call(&Request::PutStart(start)), Ok(granted));
    assert_eq!(host.epoch(), Epoch(3), "its grants are of a later one");
}
