//! HTTP servers: bodies, limits and shutdown.

#![allow(missing_docs, reason = "tests are no public interface")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::{get, put};
use mooncake_http::{Content, Limits, Server, listen};

const PATIENCE: Duration = Duration::from_secs(10);
const SHORT: Duration = Duration::from_millis(200);

fn start(limits: Limits) -> Server {
    let router = Router::new()
        .route("/", get(async || "here"))
        .route("/len", put(async |Content(bytes)| bytes.len().to_string()));
    let listener = listen("127.0.0.1", 0).expect("a free port");
    Server::start("test-http", listener, router, limits, None).expect("a thread")
}

fn send(server: &Server, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).expect("the port is open");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    stream.write_all(bytes).expect("the server reads");
    stream
}

/// The status and the body of the answer. Panics if the server does not close the connection.
fn answer(mut stream: TcpStream) -> (u16, String) {
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("the server answers and closes");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status");
    (status, body.to_owned())
}

fn head(len: &str) -> String {
    format!("PUT /len HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{len}\r\n\r\n")
}

#[test]
fn bodies_are_read_up_to_their_limit() {
    let server = start(Limits { body_bytes: 100, ..Limits::default() });
    let chunked = |len: usize| {
        let body = "x".repeat(len);
        format!("{}{len:x}\r\n{body}\r\n0\r\n\r\n", head("Transfer-Encoding: chunked"))
    };
    let plain =
        |len: usize| format!("{}{}", head(&format!("Content-Length: {len}")), "x".repeat(len));
    let cases = [
        (plain(0), 200),
        (plain(100), 200),
        (plain(101), 413),
        (chunked(100), 200),
        (chunked(101), 413),
        (head("Content-Length: 99999999999"), 413),
    ];
    for (request, status) in cases {
        let (found, body) = answer(send(&server, request.as_bytes()));
        assert_eq!(found, status, "{request}: {body}");
    }
    server.stop();
}

#[test]
fn a_body_that_trickles_in_has_no_more_time() {
    let server = start(Limits { body: SHORT, ..Limits::default() });
    let mut stream = send(&server, head("Content-Length: 60000").as_bytes());
    let mut writer = stream.try_clone().expect("a socket");
    let trickle = std::thread::spawn(move || {
        let begun = Instant::now();
        while writer.write_all(b"x").is_ok() {
            assert!(begun.elapsed() < PATIENCE, "the server goes on reading");
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 408");
    drop(stream);
    trickle.join().expect("the connection ends");
    server.stop();
}

#[test]
fn a_stopped_server_frees_its_port_and_its_idle_connections() {
    let server = start(Limits::default());
    let mut idle = send(&server, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    let mut answered = [0; 12];
    idle.read_exact(&mut answered).expect("an answer");
    assert_eq!(&answered, b"HTTP/1.1 200");
    let address = server.address();
    let begun = Instant::now();
    server.stop();
    server.stop();
    assert!(begun.elapsed() < PATIENCE / 2);
    idle.read_to_end(&mut Vec::new()).expect("the server closed it");
    let again = listen("127.0.0.1", address.port()).expect("the port is free");
    drop(again);
}

#[test]
fn a_server_that_is_dropped_stops() {
    let server = start(Limits::default());
    let address = server.address();
    drop(server);
    let deadline = Instant::now() + PATIENCE;
    while listen("127.0.0.1", address.port()).is_err() {
        assert!(Instant::now() < deadline, "the port is still held");
        std::thread::sleep(Duration::from_millis(5));
    }
}
