//! How a node's port treats peers that break the protocol, stall, or are too many. Other clients must not notice.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use mooncake_memory::crc32c;
use mooncake_testing::greet;
use mooncake_types::limits::{MAX_FRAME_PAYLOAD_BYTES, MAX_FRAME_RANGES};
use mooncake_types::{ErrorCode, Follow, Seal};
use mooncake_wire::{
    Header, Hello, Kind, decode_follow_reply, decode_refusal, decode_results, encode_follow,
    encode_hello, encode_read, encode_write,
};

use super::raw_peer::{connect, connect_and_greet, hello, read_frame, read_refusal};
use super::rig::{
    EPOCH, Node, Object, all_ok, read_all, server_config, tcp, tcp_config, version, wait_until,
    write_all,
};
use crate::{ServerConfig, TcpConfig, TcpTransport, TransferError};

/// A node with one object, and a client that uses it before and after an attack.
fn attack(what: &str, attack: impl Fn(&Node)) {
    let node = Node::start(1, 8 << 20);
    let transport = tcp();
    let object = Object::at(&node, 0, 100_000, 1);
    assert_eq!(write_all(&transport, std::slice::from_ref(&object)), all_ok(1), "{what}");
    attack(&node);
    assert_eq!(read_all(&transport, std::slice::from_ref(&object)), all_ok(1), "{what}");
    assert_eq!(read_all(&tcp(), &[object]), all_ok(1), "{what}: a new connection");
    wait_until("no writer is left", || node.host.writers() == 0);
    assert_eq!(node.host.entries(node.segment), [(0, version(1))], "{what}");
}

fn frame_of(hello: &Hello) -> Vec<u8> {
    let mut frame = Vec::new();
    encode_hello(&mut frame, 1, hello);
    frame
}

fn header(kind: Kind, body_len: u32) -> Vec<u8> {
    Header { kind, flags: 0, body_len, request_id: 3 }.encode().to_vec()
}

#[test]
fn a_bad_first_frame_is_refused_and_says_why() {
    let cases: [(&str, Vec<u8>, ErrorCode, &str); 7] = [
        (
            "http",
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
            ErrorCode::InvalidParams,
            "a frame must begin with",
        ),
        ("random", vec![0xC5; 3000], ErrorCode::InvalidParams, "a frame must begin with"),
        ("no hello", header(Kind::Read, 0), ErrorCode::InvalidParams, "must be Hello, not Read"),
        ("oversized", header(Kind::Hello, u32::MAX), ErrorCode::InvalidParams, "over the limit"),
        (
            "body",
            [header(Kind::Hello, 4), vec![0xFF; 4]].concat(),
            ErrorCode::InvalidParams,
            "the body of a frame cannot be read",
        ),
        (
            "cluster",
            frame_of(&Hello { cluster_id: "other".into(), ..hello() }),
            ErrorCode::InvalidParams,
            "other",
        ),
        (
            "version",
            frame_of(&Hello { protocol_version: 99, ..hello() }),
            ErrorCode::InvalidVersion,
            "99",
        ),
    ];
    for (what, bytes, code, words) in cases {
        attack(what, |node| {
            let mut stream = connect(&node.endpoint);
            stream.write_all(&bytes).unwrap();
            let refusal = read_refusal(&mut stream);
            assert_eq!(refusal.code, code, "{what}");
            assert!(refusal.message.contains(words), "{what}: {}", refusal.message);
        });
    }
}

#[test]
fn a_peer_that_does_not_prove_that_it_knows_the_token_is_refused() {
    attack("token", |node| {
        let mut stream = connect(&node.endpoint);
        let guess = Hello { auth_token: "guess".into(), ..hello() };
        let (answer, body) = greet(&mut stream, &guess).unwrap();
        assert_eq!(answer.kind, Kind::Refusal);
        assert_eq!(decode_refusal(&body).unwrap().code, ErrorCode::IllegalClient);
        // Nothing is served before the proof.
        let mut stream = connect(&node.endpoint);
        stream.write_all(&frame_of(&hello())).unwrap();
        assert_eq!(read_frame(&mut stream).unwrap().0.kind, Kind::Challenge);
        stream.write_all(&header(Kind::Read, 0)).unwrap();
        let refusal = read_refusal(&mut stream);
        assert!(refusal.message.contains("answered by Proof, not by Read"), "{refusal}");
    });
}

#[test]
fn a_host_that_tells_nobody_what_it_holds_says_so_and_goes_on() {
    attack("follow", |node| {
        let mut stream = connect_and_greet(&node.endpoint);
        for _ in 0..2 {
            let mut frame = Vec::new();
            let follow =
                Follow { segment: node.segment, since: None, from: None, seal: Seal::NONE };
            encode_follow(&mut frame, 3, &follow);
            stream.write_all(&frame).unwrap();
            let (header, body) = read_frame(&mut stream).unwrap();
            assert_eq!(header.kind, Kind::FollowReply);
            let message = decode_follow_reply(body.into()).unwrap();
            assert_eq!(message.page(), Ok(Err(ErrorCode::UnavailableInCurrentMode)));
        }
    });
}

#[test]
fn a_bad_later_frame_is_refused_and_says_why() {
    let cases: [(&str, Vec<u8>, &str); 8] = [
        ("follow body", [header(Kind::Follow, 9), vec![0xFF; 9]].concat(), "cannot be read"),
        ("follow reply", header(Kind::FollowReply, 0), "takes no FollowReply frames"),
        ("random", vec![0x5C; 100_000], "a frame must begin with"),
        ("hello again", frame_of(&hello()), "takes no Hello frames"),
        ("request", header(Kind::Request, 0), "takes no Request frames"),
        ("oversized", header(Kind::Write, u32::MAX), "over the limit"),
        ("read body", [header(Kind::Read, 9), vec![0xFF; 9]].concat(), "cannot be read"),
        ("write body", [header(Kind::Write, 9), vec![0xFF; 9]].concat(), "cannot be read"),
    ];
    for (what, bytes, words) in cases {
        attack(what, |node| {
            let mut stream = connect_and_greet(&node.endpoint);
            stream.write_all(&bytes).unwrap();
            let refusal = read_refusal(&mut stream);
            assert_eq!(refusal.code, ErrorCode::InvalidParams, "{what}");
            assert!(refusal.message.contains(words), "{what}: {}", refusal.message);
        });
    }
}

/// The frame of a write with its payload and checksums, and the length of its head.
fn write_frame(object: &Object) -> (Vec<u8>, usize) {
    let mut frame = Vec::new();
    let nowhere = mooncake_memory::SliceList::default();
    encode_write(&mut frame, 4, EPOCH, &[object.write_op(nowhere).range]);
    let head = frame.len();
    frame.extend_from_slice(&object.bytes());
    for chunk in object.bytes().chunks(mooncake_types::limits::CHUNK_BYTES as usize) {
        frame.extend_from_slice(&crc32c(chunk).to_le_bytes());
    }
    (frame, head)
}

#[test]
fn a_frame_that_ends_early_changes_nothing() {
    for len in [5000, 700_000] {
        attack("cut", |node| {
            let (frame, head) = write_frame(&Object::at(node, 1 << 20, len, 2));
            for cut in [0, 1, 15, 16, head - 1, head, head + 1, frame.len() - 5, frame.len() - 1] {
                let mut stream = connect_and_greet(&node.endpoint);
                stream.write_all(&frame[..cut]).unwrap();
                stream.shutdown(Shutdown::Write).unwrap();
                let mut answer = Vec::new();
                // The connection may end by a reset too.
                let _ = stream.read_to_end(&mut answer);
                assert_eq!(answer, b"", "cut at {cut}");
            }
        });
    }
}

#[test]
fn a_write_whose_checksums_do_not_match_is_refused() {
    for len in [5000, 700_000] {
        attack("corrupt", |node| {
            let (good, head) = write_frame(&Object::at(node, 1 << 20, len, 2));
            for flipped in [head, good.len() - 13, good.len() - 1] {
                let mut frame = good.clone();
                frame[flipped] ^= 0x10;
                let mut stream = connect_and_greet(&node.endpoint);
                stream.write_all(&frame).unwrap();
                let (_, body) = read_frame(&mut stream).unwrap();
                let results = decode_results(&body).unwrap();
                assert_eq!(results, [Err(ErrorCode::ChecksumMismatch)]);
            }
        });
    }
}

#[test]
fn a_refused_write_too_long_to_read_past_ends_the_connection() {
    attack("huge", |node| {
        let object = Object { len: 1 << 40, ..Object::at(node, 1 << 20, 0, 2) };
        let (frame, _) = write_frame(&Object { len: 0, ..object.clone() });
        drop(frame);
        let mut head = Vec::new();
        let nowhere = mooncake_memory::SliceList::default();
        encode_write(&mut head, 4, EPOCH, &[object.write_op(nowhere).range]);
        let mut stream = connect_and_greet(&node.endpoint);
        stream.write_all(&head).unwrap();
        let refusal = read_refusal(&mut stream);
        assert_eq!(refusal.code, ErrorCode::InvalidParams);
        assert!(refusal.message.contains("before its"), "{}", refusal.message);
    });
}

#[test]
fn a_read_of_ranges_that_are_not_there_has_statuses_alone() {
    attack("reads", |node| {
        let nowhere = mooncake_memory::SliceList::default();
        let mut ranges: Vec<_> =
            (0..3).map(|i| Object::at(node, i, 10, 1).read_op(0, nowhere.clone()).range).collect();
        ranges[0].version = version(9);
        ranges[1].len = u64::MAX;
        ranges[2].offset = 0;
        ranges[2].from = u64::MAX;
        ranges[2].len = u64::MAX;
        let mut frame = Vec::new();
        encode_read(&mut frame, 8, &ranges);
        let mut stream = connect_and_greet(&node.endpoint);
        stream.write_all(&frame).unwrap();
        let (header, body) = read_frame(&mut stream).unwrap();
        assert_eq!(header.request_id, 8);
        let expected = [
            Err(ErrorCode::ObjectNotFound),
            Err(ErrorCode::InvalidParams),
            Err(ErrorCode::InvalidParams),
        ];
        assert_eq!(decode_results(&body).unwrap(), expected);
    });
}

#[test]
fn a_frame_of_many_reads_takes_no_more_memory_than_one_of_few() {
    attack("many reads", |node| {
        let nowhere = mooncake_memory::SliceList::default();
        let mut whole = Object::at(node, 0, 100_000, 1).read_op(0, nowhere).range;
        whole.len = 100_000;
        let most = (MAX_FRAME_PAYLOAD_BYTES / 100_000) as usize;
        let mut frame = Vec::new();
        encode_read(&mut frame, 8, &vec![whole; MAX_FRAME_RANGES]);
        let mut stream = connect_and_greet(&node.endpoint);
        stream.write_all(&frame).unwrap();
        let (_, body) = read_frame(&mut stream).unwrap();
        let results = decode_results(&body).unwrap();
        let (read, refused) = results.split_at(most);
        assert!(read.iter().all(Result::is_ok), "{:?}", read[0]);
        let is_refused = |result: &Result<(), ErrorCode>| *result == Err(ErrorCode::InvalidParams);
        assert!(refused.iter().all(is_refused), "{:?}", refused[0]);
    });
}

#[test]
fn a_peer_that_does_not_introduce_itself_is_shut_out() {
    attack("silence", |node| {
        let hello = frame_of(&hello());
        for said in [0, 1, 16, hello.len() - 1] {
            let mut stream = connect(&node.endpoint);
            stream.write_all(&hello[..said]).unwrap();
            let begin = Instant::now();
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            assert_eq!(answer, b"");
            assert!(begin.elapsed() < Duration::from_secs(5), "{said} bytes");
        }
    });
}

#[test]
fn silent_connections_of_one_host_keep_nobody_out() {
    let config = ServerConfig { max_connections: 64, ..server_config() };
    let node = Node::with_config(1, 1 << 20, config);
    let object = Object::at(&node, 0, 1000, 1);
    let mut silent: Vec<TcpStream> = (0..200).map(|_| connect(&node.endpoint)).collect();
    let begin = Instant::now();
    wait_until("a client is served", || {
        write_all(&tcp(), std::slice::from_ref(&object)) == all_ok(1)
    });
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    assert!(matches!(silent[0].read(&mut [0]), Ok(0) | Err(_)), "the oldest was cut off");
}

#[test]
fn too_many_connections_are_told_so() {
    let config = ServerConfig { max_connections: 2, ..server_config() };
    let node = Node::with_config(1, 1 << 20, config);
    let first = connect_and_greet(&node.endpoint);
    let transport = TcpTransport::new(TcpConfig { lanes_per_peer: 1, ..tcp_config() });
    let object = Object::at(&node, 0, 1000, 1);
    assert_eq!(write_all(&transport, std::slice::from_ref(&object)), all_ok(1));

    let mut third = connect(&node.endpoint);
    third.write_all(&frame_of(&hello())).unwrap();
    let refusal = read_refusal(&mut third);
    assert_eq!(refusal.code, ErrorCode::UnavailableInCurrentStatus);
    assert_eq!(refusal.message, "the node serves 2 connections already");
    let refused = Err(TransferError::Refused(ErrorCode::UnavailableInCurrentStatus));
    assert_eq!(read_all(&tcp(), std::slice::from_ref(&object)), [refused]);
    assert_eq!(read_all(&transport, std::slice::from_ref(&object)), all_ok(1));

    drop(first);
    wait_until("there is room again", || {
        read_all(&tcp(), std::slice::from_ref(&object)) == all_ok(1)
    });
}

#[test]
fn stopping_waits_for_nobody() {
    let node = Node::start(1, 64 << 20);
    let object = Object::at(&node, 0, 32 << 20, 1);
    assert_eq!(write_all(&tcp(), std::slice::from_ref(&object)), all_ok(1));
    // One peer is idle, one has sent nothing, one is in the middle of a write, one takes no reply.
    let mut idle = connect_and_greet(&node.endpoint);
    let silent = connect(&node.endpoint);
    let mut writing = connect_and_greet(&node.endpoint);
    let (frame, _) = write_frame(&Object::at(&node, 40 << 20, 1 << 20, 2));
    writing.write_all(&frame[..300_000]).unwrap();
    let mut deaf = connect_and_greet(&node.endpoint);
    let target = mooncake_memory::Buffer::zeroed(object.len as usize);
    let mut request = Vec::new();
    encode_read(&mut request, 1, &[object.read_op(0, target.raw().into()).range]);
    deaf.write_all(&request).unwrap();
    wait_until("the write has begun", || node.host.writers() == 1);

    let begin = Instant::now();
    node.server.stop();
    assert!(begin.elapsed() < Duration::from_millis(500), "{:?}", begin.elapsed());
    assert_eq!(node.host.writers(), 0);
    assert!(matches!(idle.read(&mut [0]), Ok(0) | Err(_)));
    assert!(TcpStream::connect(&*node.endpoint).is_err(), "nobody listens any more");
    node.server.stop();
    drop((silent, deaf));
}

#[test]
fn random_bytes_never_harm_anybody() {
    let seed = std::env::var("TRANSFER_SEED").map_or(42, |seed| seed.parse().unwrap());
    println!("TRANSFER_SEED={seed}");
    let mut state: u64 = seed;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let node = Node::start(1, 8 << 20);
    let transport = tcp();
    let object = Object::at(&node, 0, 100_000, 1);
    assert_eq!(write_all(&transport, std::slice::from_ref(&object)), all_ok(1));
    for round in 0..200 {
        // A correct frame with a few bytes changed; half of the time after a proper greeting.
        let other = Object::at(&node, 1 << 20, 1 + random(40_000), 2 + round);
        let mut bytes = match random(3) {
            0 => write_frame(&other).0,
            1 => frame_of(&hello()),
            _ => (0..random(500)).map(|i| (i * 31) as u8).collect(),
        };
        for _ in 0..random(4) {
            let at = random(bytes.len().max(1) as u64) as usize;
            if let Some(byte) = bytes.get_mut(at) {
                *byte = random(256) as u8;
            }
        }
        let mut stream = if random(2) == 0 {
            connect(&node.endpoint)
        } else {
            connect_and_greet(&node.endpoint)
        };
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    }
    // A changed offset may have replaced the object itself. No other effect is allowed.
    let result = read_all(&transport, std::slice::from_ref(&object)).remove(0);
    assert!(matches!(result, Ok(()) | Err(TransferError::Stale)), "{result:?}");
    wait_until("no writer is left", || node.host.writers() == 0);
}
