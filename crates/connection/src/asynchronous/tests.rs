use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use mooncake_types::{ClientId, Epoch, ErrorCode};
use mooncake_wire::{
    HEADER_LEN, Header, Hello, Kind, Refusal, Role, Welcome, encode_refusal, encode_welcome,
};

use crate::{Dialer, Fault, LOCAL_MARK, listen_locally};

const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(200);

fn dialer() -> Dialer {
    Dialer::new(Hello::new(Role::Client, ClientId(1)))
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(work)
}

/// Reads a frame, and returns its header; none at the end.
fn read_frame(stream: &mut impl Read) -> Option<Header> {
    let mut header = [0; HEADER_LEN];
    stream.read_exact(&mut header).ok()?;
    let header = Header::decode(&header).expect("a header");
    stream.read_exact(&mut vec![0; header.body_len as usize]).expect("a body");
    Some(header)
}

/// Greets, and answers each request with its length and `answer`.
fn serve(mut stream: impl Read + Write, answer: &[u8]) {
    while let Some(Header { kind, request_id, .. }) = read_frame(&mut stream) {
        let mut out = Vec::new();
        match kind {
            Kind::Hello => encode_welcome(&mut out, request_id, &Welcome::new(Epoch(7))),
            _ => {
                let body_len = answer.len() as u32;
                let header = Header { kind: Kind::Reply, flags: 0, body_len, request_id };
                out.extend(header.encode());
                out.extend(answer);
            }
        }
        if stream.write_all(&out).is_err() {
            return;
        }
    }
}

fn question(out: &mut Vec<u8>, request_id: u64) {
    out.extend(Header { kind: Kind::Request, flags: 0, body_len: 0, request_id }.encode());
}

/// What a thread and a task get from the endpoint: the epoch, and the answers to two calls.
fn both(endpoint: &str) -> [Result<(Epoch, [usize; 2]), Fault>; 2] {
    let by_thread = || {
        let (mut connection, welcome) = dialer().dial(endpoint, LONG)?;
        let mut lens = [0; 2];
        for len in &mut lens {
            *len = connection.call(question, Kind::Reply)?.len();
        }
        Ok((welcome.epoch, lens))
    };
    let by_task = async {
        let (mut connection, welcome) = dialer().dial_async(endpoint, LONG).await?;
        let mut lens = [0; 2];
        for len in &mut lens {
            *len = connection.call(question, Kind::Reply, LONG).await?.len();
        }
        Ok((welcome.epoch, lens))
    };
    [by_thread(), run(by_task)]
}

#[test]
fn a_task_reaches_what_a_thread_reaches() {
    let port = TcpListener::bind("127.0.0.1:0").expect("a port");
    let name = format!("mooncake-test-{}", std::process::id());
    let local = listen_locally(&name).expect("a socket");
    let number = port.local_addr().expect("bound").port();
    thread::spawn(move || port.incoming().for_each(|peer| serve(peer.unwrap(), &[1; 100_000])));
    thread::spawn(move || local.incoming().for_each(|peer| serve(peer.unwrap(), &[2; 3])));
    for (endpoint, len) in [
        (format!("127.0.0.1:{number}"), 100_000),
        (format!("localhost:{number}"), 100_000),
        (format!("{LOCAL_MARK}{name}"), 3),
    ] {
        for reached in both(&endpoint) {
            assert_eq!(reached.expect(&endpoint), (Epoch(7), [len; 2]));
        }
    }
}

#[test]
fn a_task_and_a_thread_are_told_the_same_reasons() {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
    for endpoint in [free.to_string(), format!("{LOCAL_MARK}mooncake-nobody"), "no port".into()] {
        let [by_thread, by_task] = both(&endpoint).map(|reached| {
            let Err(Fault::Io(error)) = reached else { panic!("{endpoint}: {reached:?}") };
            (error.kind(), error.to_string())
        });
        assert_eq!(by_thread, by_task);
    }
    let port = TcpListener::bind("127.0.0.1:0").expect("a port");
    let endpoint = port.local_addr().expect("bound").to_string();
    let refusal = Refusal::new(ErrorCode::IllegalClient, "no");
    let said = refusal.clone();
    thread::spawn(move || {
        for peer in port.incoming() {
            let (mut peer, mut out) = (peer.unwrap(), Vec::new());
            encode_refusal(&mut out, 0, &said);
            read_frame(&mut peer);
            peer.write_all(&out).expect("it listens");
        }
    });
    for reached in both(&endpoint) {
        assert!(matches!(&reached, Err(Fault::Refused(found)) if *found == refusal), "{reached:?}");
    }
}

#[test]
fn a_task_waits_for_a_greeting_no_longer_than_it_may() {
    let port = TcpListener::bind("127.0.0.1:0").expect("a port");
    let endpoint = port.local_addr().expect("bound").to_string();
    let begun = Instant::now();
    let fault = run(dialer().dial_async(&endpoint, SHORT)).expect_err("nobody greets");
    assert!(matches!(fault, Fault::TimedOut), "{fault}");
    assert!((SHORT..LONG).contains(&begun.elapsed()), "{:?}", begun.elapsed());
}
