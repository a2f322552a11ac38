//! Invalid frames to the RPC port: the master answers with the reason, and serves other clients.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use mooncake_master::Config;
use mooncake_types::{ClientId, ErrorCode, Reply, Request, Secret, limits};
use mooncake_wire::{HEADER_LEN, Header, Hello, Kind, PROTOCOL_VERSION};

use crate::support::{
    Rpc, Running, config, dial, hello, random, read_frame, refusal, start, start_with,
};

/// Sends `bytes`, closes the sending side, and expects a refusal and the end of the connection.
fn refused(master: &Running, bytes: &[u8]) -> (ErrorCode, String) {
    let mut stream = dial(master.rpc);
    stream.write_all(bytes).expect("the master reads");
    stream.shutdown(Shutdown::Write).expect("an open socket");
    let refused = expect_refusal(&mut stream);
    master.assert_serves();
    refused
}

fn expect_refusal(stream: &mut TcpStream) -> (ErrorCode, String) {
    let (header, body) = read_frame(stream).expect("a refusal");
    assert_eq!(header.kind, Kind::Refusal);
    assert!(read_frame(stream).is_none(), "the connection goes on after a refusal");
    refusal(&body)
}

fn hello_bytes() -> Vec<u8> {
    let mut out = Vec::new();
    mooncake_wire::encode_hello(&mut out, 1, &hello(1));
    out
}

/// Sends `bytes` after the handshake.
fn refused_later(master: &Running, bytes: &[u8]) -> (ErrorCode, String) {
    let mut rpc = master.connect(1);
    rpc.stream.write_all(bytes).expect("the master reads");
    rpc.stream.shutdown(Shutdown::Write).expect("an open socket");
    let refused = expect_refusal(&mut rpc.stream);
    master.assert_serves();
    refused
}

#[test]
fn a_hello_that_does_not_fit_is_refused_with_both_sides_named() {
    let master = start_with(Config { auth_token: "secret".into(), ..config() });
    let good = Hello { auth_token: "secret".into(), ..hello(1) };
    let cases = [
        (
            Hello { protocol_version: PROTOCOL_VERSION + 1, ..good.clone() },
            ErrorCode::InvalidVersion,
            vec!["the server speaks protocol version", ", the client "],
        ),
        (
            Hello { cluster_id: "blue".to_owned(), ..good.clone() },
            ErrorCode::InvalidParams,
            vec!["the server belongs to cluster \"test_cluster\"", "the client to \"blue\""],
        ),
        (
            Hello { auth_token: "guess".into(), ..good.clone() },
            ErrorCode::IllegalClient,
            vec!["token"],
        ),
        (
            Hello { auth_token: Secret::default(), ..good.clone() },
            ErrorCode::IllegalClient,
            vec!["has none"],
        ),
        (
            Hello { client: ClientId(0), ..good.clone() },
            ErrorCode::InvalidParams,
            vec!["client id"],
        ),
    ];
    for (hello, code, words) in cases {
        let (refused, message) = Rpc::connect(master.rpc, &hello).err().expect("a refusal");
        assert_eq!(refused, code, "{message}");
        for word in words {
            assert!(message.contains(word), "{message}");
        }
        assert!(!message.contains("secret") && !message.contains("guess"), "{message}");
    }
    assert!(Rpc::connect(master.rpc, &good).is_ok());
}

#[test]
fn bytes_that_are_no_hello_are_refused() {
    let master = start();
    let header = |kind, body_len| Header { kind, flags: 0, body_len, request_id: 5 }.encode();
    let mut ping = Vec::new();
    mooncake_wire::encode_request(
        &mut ping,
        1,
        &Request::Ping { segments: vec![], unreachable: vec![], reads: None },
    );
    let mut unreadable = header(Kind::Hello, 4).to_vec();
    unreadable.extend([0xff; 4]);
    let mut unknown_kind = header(Kind::Hello, 0);
    unknown_kind[2] = 99;
    let cases: &[(&[u8], &str)] = &[
        (&[0; 16], "must begin with 0x4d4b"),
        (b"this is a line of plain text\n", "must begin with 0x4d4b"),
        (&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 1, 2, 3, 4, 5], "must begin with 0x4d4b"),
        (&unknown_kind, "no frame of kind 99"),
        (&header(Kind::Hello, u32::MAX), "4294967295 bytes"),
        (&header(Kind::Hello, 1 << 20), "1048576 bytes"),
        (&header(Kind::Request, 1 << 20), "1048576 bytes"),
        (&ping, "the first frame must be a HELLO, this is a Request"),
        (&unreadable, "the HELLO cannot be read"),
        (&hello_bytes()[..5], "ended after 5 bytes"),
        (&hello_bytes()[..HEADER_LEN + 3], "ended after 19 bytes"),
    ];
    for (bytes, word) in cases {
        let (code, message) = refused(&master, bytes);
        assert_eq!(code, ErrorCode::InvalidParams, "{message}");
        assert!(message.contains(word), "{word}: {message}");
    }
}

#[test]
fn bytes_that_are_no_request_are_refused() {
    let master = start();
    let header = |kind, body_len| Header { kind, flags: 0, body_len, request_id: 5 }.encode();
    let mut unreadable = header(Kind::Request, 4).to_vec();
    unreadable.extend([0xff; 4]);
    let mut request = Vec::new();
    mooncake_wire::encode_request(&mut request, 1, &Request::exist(vec!["key"]));
    let at = request.len() - 1;
    let mut not_utf8 = request.clone();
    not_utf8[at] = 0xff;
    let too_long = limits::MAX_FRAME_BODY_BYTES + 1;
    let cases: &[(&[u8], &str)] = &[
        (&[7; 32], "must begin with 0x4d4b"),
        (&header(Kind::Request, too_long), "over the limit"),
        (&header(Kind::Read, 0), "a Read frame is not for a master"),
        (&hello_bytes(), "a Hello frame is not for a master"),
        (&header(Kind::Request, 0), "the request cannot be read"),
        (&unreadable, "the request cannot be read"),
        (&not_utf8, "the request cannot be read"),
        (&request[..at], "bytes into a frame"),
    ];
    for (bytes, word) in cases {
        let (code, message) = refused_later(&master, bytes);
        assert_eq!(code, ErrorCode::InvalidParams, "{message}");
        assert!(message.contains(word), "{word}: {message}");
    }
}

#[test]
fn what_came_before_the_bad_frame_is_answered() {
    let master = start();
    let mut rpc = master.connect(1);
    let mut out = Vec::new();
    mooncake_wire::encode_request(&mut out, 3, &Request::exist(vec!["k"]));
    out.extend([0; 16]);
    rpc.stream.write_all(&out).expect("the master reads");
    assert_eq!(rpc.receive(), (3, Reply::Exist(vec![Ok(false)])));
    let (_, message) = expect_refusal(&mut rpc.stream);
    assert!(message.contains("must begin with 0x4d4b"), "{message}");
}

#[test]
fn a_batch_over_the_limit_ends_its_connection_with_a_reason() {
    let master = start();
    let mut rpc = master.connect(1);
    let keys = vec!["k"; limits::MAX_BATCH_KEYS];
    let reply = rpc.ask(&Request::exist(keys));
    assert_eq!(reply, Reply::Exist(vec![Ok(false); limits::MAX_BATCH_KEYS]));
    let keys = vec!["k"; limits::MAX_BATCH_KEYS + 1];
    rpc.send(&Request::exist(keys));
    let (header, body) = read_frame(&mut rpc.stream).expect("an answer");
    assert_eq!(header.kind, Kind::Refusal);
    let refusal = mooncake_wire::decode_refusal(&body).expect("it says why");
    assert!(refusal.message.contains("keys"), "{refusal}");
    assert!(read_frame(&mut rpc.stream).is_none(), "the master closes the connection");
    master.assert_serves();
}

#[test]
fn http_on_the_rpc_port_is_answered_in_http() {
    let master = start();
    let conversations: [&[u8]; 2] = [
        b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /mooncake.Master/Ping HTTP/1.1\r\nHost: x\r\n\r\n",
    ];
    for bytes in conversations {
        let mut stream = dial(master.rpc);
        stream.write_all(bytes).expect("the master reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer and the end");
        assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{answer}");
        assert!(answer.contains("it does not speak HTTP/1"), "{answer}");
        assert!(answer.contains(&format!("port {}", master.admin.port())), "{answer}");
    }
    master.assert_serves();
}

#[test]
fn random_bytes_harm_nobody() {
    let mut next = random();
    let master = start();
    for round in 0..200 {
        let mut bytes = if round % 2 == 0 { hello_bytes() } else { Vec::new() };
        if round % 4 == 0 {
            let len = next() % 64;
            let header =
                Header { kind: Kind::Request, flags: 0, body_len: len as u32, request_id: 1 };
            bytes.extend(header.encode());
        }
        bytes.extend((0..next() % 200).map(|_| next() as u8));
        let mut stream = dial(master.rpc);
        stream.write_all(&bytes).expect("the master reads");
        stream.shutdown(Shutdown::Write).expect("an open socket");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("the master closes, and does not reset");
    }
    master.assert_serves();
}
