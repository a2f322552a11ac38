//! Errors that callers get from nodes that die, stall or break the protocol.

use std::io::{self, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mooncake_memory::{Buffer, RawSlice, crc32c};
use mooncake_types::{ErrorCode, SegmentId};
use mooncake_wire::{HEADER_LEN, Header, Kind, Refusal, encode_refusal, encode_results};

use super::raw_peer::{FakeNode, read_frame};
use super::rig::{
    EPOCH, Node, Object, all_ok, read_all, server_config, tcp, tcp_config, version, wait_until,
    write_all,
};
use crate::{ServerConfig, TcpConfig, TcpTransport, TransferError, Transport};

const LEN: u64 = 100_000;

fn object_at(node: &FakeNode) -> Object {
    Object {
        endpoint: Arc::clone(&node.endpoint),
        segment: SegmentId(1),
        offset: 0,
        len: LEN,
        key: "key".into(),
        version: version(1),
    }
}

fn impatient() -> TcpTransport {
    let (connect_timeout, transfer_timeout) =
        (Duration::from_millis(300), Duration::from_millis(300));
    TcpTransport::new(TcpConfig { connect_timeout, transfer_timeout, ..tcp_config() })
}

/// A complete, correct reply to the request with this id.
pub(super) fn good_reply(id: u64) -> Vec<u8> {
    let bytes = crate::testing::pattern("key", version(1), 0, LEN as usize);
    let mut reply = Vec::new();
    encode_results(&mut reply, Kind::ReadReply, id, &[Ok(())]);
    reply.extend_from_slice(&bytes);
    reply.extend_from_slice(&0_i32.to_le_bytes());
    reply.extend_from_slice(&crc32c(&bytes).to_le_bytes());
    reply
}

/// Checks a read from a node that answers with the bytes that `answer` makes of the request id, and then hangs up.
fn check(
    what: &str,
    answer: impl Fn(u64) -> Vec<u8> + Send + Sync + 'static,
    expected: impl Fn(Arc<str>) -> TransferError,
) {
    let node = FakeNode::start(move |mut stream| {
        let (request, _) = read_frame(&mut stream)?;
        stream.write_all(&answer(request.request_id))?;
        stream.shutdown(Shutdown::Write)?;
        // Held open until the reader goes away: an early close might take the answer with it.
        let _ = read_frame(&mut stream);
        Ok(())
    });
    let object = object_at(&node);
    let transport = tcp();
    for round in 1..=2 {
        let results = read_all(&transport, std::slice::from_ref(&object));
        assert_eq!(results, [Err(expected(Arc::clone(&node.endpoint)))], "{what}");
        assert_eq!(node.accepted(), round, "{what}: the lane must not be used again");
    }
}

fn hung_up(endpoint: Arc<str>) -> TransferError {
    TransferError::Unreachable { endpoint, reason: "it closed the connection".into() }
}

fn protocol(reason: &str) -> impl Fn(Arc<str>) -> TransferError {
    move |endpoint| TransferError::Protocol { endpoint, reason: reason.into() }
}

#[test]
fn a_reply_that_ends_early_is_an_error() {
    check("nothing", |_| Vec::new(), hung_up);
    check("half a header", |id| good_reply(id)[..7].to_vec(), hung_up);
    check("a head", |id| good_reply(id)[..20].to_vec(), hung_up);
    check("half the payload", |id| good_reply(id)[..50_000].to_vec(), hung_up);
    check("no trailer", |id| good_reply(id)[..good_reply(id).len() - 8].to_vec(), hung_up);
    check("half a trailer", |id| good_reply(id)[..good_reply(id).len() - 1].to_vec(), hung_up);
}

#[test]
fn a_reply_that_breaks_the_protocol_is_an_error() {
    check(
        "wrong id",
        |_| good_reply(99),
        protocol("the reply to request 99 came in place of that to 1"),
    );
    let bad_magic = protocol("a frame must begin with 0x4d4b, not with 0xabab");
    check("random bytes", |_| vec![0xAB; 5000], bad_magic);
    let kind = |id| {
        let mut frame = Vec::new();
        encode_results(&mut frame, Kind::WriteReply, id, &[Ok(())]);
        frame
    };
    check("wrong kind", kind, protocol("a frame of kind WriteReply came in place of ReadReply"));
    let statuses = |id| {
        let mut frame = Vec::new();
        encode_results(&mut frame, Kind::ReadReply, id, &[Ok(()), Err(ErrorCode::ObjectNotFound)]);
        frame
    };
    check("two statuses", statuses, protocol("2 statuses came for 1 ranges"));
    let header = |request_id, body_len| {
        Header { kind: Kind::ReadReply, flags: 0, body_len, request_id }.encode()
    };
    let long = move |id| [&header(id, 5000)[..], &[0; 5000]].concat();
    check("a long body", long, protocol("a body of 5000 bytes is longer than the 96 allowed here"));
    let too_long = move |id| header(id, u32::MAX).to_vec();
    let limit = Kind::ReadReply.max_body_bytes();
    let reason =
        format!("the body of a ReadReply frame has {} bytes, over the limit of {limit}", u32::MAX);
    check("an oversized frame", too_long, protocol(&reason));
}

#[test]
fn bytes_that_do_not_match_their_checksums_are_never_ok() {
    let corrupt = |endpoint| TransferError::Corrupt { endpoint };
    let flip = |id, from_end: usize| {
        let mut reply = good_reply(id);
        let at = reply.len() - from_end;
        reply[at] ^= 1;
        reply
    };
    check("payload", move |id| flip(id, 60_000), corrupt);
    check("first byte", move |id| flip(id, 100_008), corrupt);
    check("last byte", move |id| flip(id, 9), corrupt);
    check("checksum", move |id| flip(id, 4), corrupt);
}

#[test]
fn a_refusal_is_understood_at_any_time() {
    let refusal = |id| {
        let (code, message) = (ErrorCode::UnavailableInCurrentStatus, "no".to_owned());
        let mut frame = Vec::new();
        encode_refusal(&mut frame, id, &Refusal { code, message });
        frame
    };
    let refused = |_| TransferError::Refused(ErrorCode::UnavailableInCurrentStatus);
    check("for this request", refusal, refused);
    check("for no request", move |_| refusal(0), refused);
}

#[test]
fn an_unknown_status_behind_the_payload_is_not_ok() {
    let node = FakeNode::start(|mut stream| {
        let (request, _) = read_frame(&mut stream)?;
        let mut reply = good_reply(request.request_id);
        let at = reply.len() - 8;
        reply[at..at + 4].copy_from_slice(&12_345_i32.to_le_bytes());
        stream.write_all(&reply)?;
        read_frame(&mut stream).map(|_| ())
    });
    let refused = Err(TransferError::Refused(ErrorCode::InternalError));
    assert_eq!(read_all(&tcp(), &[object_at(&node)]), [refused]);
}

#[test]
fn a_good_reply_may_drip_in() {
    let node = FakeNode::start(|mut stream| {
        loop {
            let (request, _) = read_frame(&mut stream)?;
            let reply = good_reply(request.request_id);
            for part in reply[..40].chunks(1).chain(reply[40..].chunks(9973)) {
                stream.write_all(part)?;
            }
        }
    });
    let transport = tcp();
    for _ in 0..3 {
        assert_eq!(read_all(&transport, &[object_at(&node)]), all_ok(1));
    }
    assert_eq!(node.accepted(), 1);
}

#[test]
fn a_silent_node_costs_the_timeout_and_no_more() {
    type Script = fn(TcpStream) -> io::Result<()>;
    let silent: Script = |_stream| {
        std::thread::park();
        Ok(())
    };
    let dripping: Script = |mut stream| {
        let (request, _) = read_frame(&mut stream)?;
        for byte in good_reply(request.request_id) {
            stream.write_all(&[byte])?;
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    };
    for script in [silent, dripping] {
        let node = FakeNode::start(script);
        let (object, transport) = (object_at(&node), impatient());
        let timed_out = || Err(TransferError::TimedOut { endpoint: Arc::clone(&node.endpoint) });
        let begin = Instant::now();
        assert_eq!(read_all(&transport, std::slice::from_ref(&object)), [timed_out()]);
        assert!((300..2000).contains(&begin.elapsed().as_millis()), "{:?}", begin.elapsed());
    }
    let node = FakeNode::start(silent);
    let object = Object { len: 16 << 20, ..object_at(&node) };
    let source = Buffer::zeroed(16 << 20);
    let begin = Instant::now();
    let results = impatient().write(EPOCH, &[object.write_op(source.raw().into())]);
    assert_eq!(results, [Err(TransferError::TimedOut { endpoint: Arc::clone(&node.endpoint) })]);
    assert!(begin.elapsed() < Duration::from_secs(4), "{:?}", begin.elapsed());
}

#[test]
fn a_failed_handshake_is_remembered_for_a_while() {
    type Script = fn(TcpStream) -> io::Result<()>;
    type Expected = fn(Arc<str>) -> TransferError;
    let cases: [(Script, Expected); 4] = [
        (|_| Ok(()), |endpoint| TransferError::Unreachable { endpoint, reason: String::new() }),
        (
            |_stream| {
                std::thread::park();
                Ok(())
            },
            |endpoint| TransferError::TimedOut { endpoint },
        ),
        (
            |mut stream| stream.write_all(&[7; HEADER_LEN]),
            |endpoint| TransferError::Protocol {
                endpoint,
                reason: "a frame must begin with 0x4d4b, not with 0x0707".into(),
            },
        ),
        (
            |mut stream| {
                let mut frame = Vec::new();
                encode_results(&mut frame, Kind::WriteReply, 0, &[Ok(())]);
                read_frame(&mut stream)?;
                stream.write_all(&frame)
            },
            |endpoint| TransferError::Protocol {
                endpoint,
                reason: "a frame of kind WriteReply came in place of Welcome".into(),
            },
        ),
    ];
    for (script, expected) in cases {
        let node = FakeNode::without_handshake(script);
        let (object, transport) = (object_at(&node), impatient());
        for _ in 0..3 {
            let mut result = read_all(&transport, std::slice::from_ref(&object)).remove(0);
            if let Err(TransferError::Unreachable { reason, .. }) = &mut result {
                reason.clear();
            }
            assert_eq!(result, Err(expected(Arc::clone(&node.endpoint))));
        }
        assert_eq!(node.accepted(), 1, "one attempt answers for all within the second");
    }
}

#[test]
fn an_endpoint_where_nobody_listens_fails_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint: Arc<str> = listener.local_addr().unwrap().to_string().into();
    drop(listener);
    for endpoint in [endpoint, "no port".into(), "host.invalid:1".into()] {
        let node = Node::start(1, 4096);
        let good = Object::at(&node, 0, 100, 1);
        let bad = Object { endpoint, ..Object::at(&node, 200, 100, 2) };
        let transport = tcp();
        for _ in 0..2 {
            let results = write_all(&transport, &[bad.clone(), good.clone()]);
            let failed = matches!(
                results[0],
                Err(TransferError::Unreachable { .. } | TransferError::Deserted { .. })
            );
            assert!(failed, "{results:?}");
            assert_eq!(results[1], Ok(()));
        }
    }
}

#[test]
fn a_node_of_another_pool_refuses() {
    let cases = [
        (ServerConfig { cluster_id: "other".into(), ..server_config() }, ErrorCode::InvalidParams),
        (ServerConfig { auth_token: "other".into(), ..server_config() }, ErrorCode::IllegalClient),
    ];
    for (config, code) in cases {
        let node = Node::with_config(1, 4096, config);
        let results = write_all(&tcp(), &[Object::at(&node, 0, 10, 1)]);
        assert_eq!(results, [Err(TransferError::Refused(code))]);
        assert_eq!(node.host.entries(node.segment), []);
    }
}

#[test]
fn a_write_that_is_refused_midway_says_why() {
    let node = Node::start(1, 4096);
    let object = Object::at(&node, 0, 80 << 20, 1);
    let source = Buffer::zeroed(80 << 20);
    let refused = [Err(TransferError::Refused(ErrorCode::InvalidParams))];
    assert_eq!(tcp().write(EPOCH, &[object.write_op(source.raw().into())]), refused);

    let node = FakeNode::start(|mut stream| {
        let (request, _) = read_frame(&mut stream)?;
        let (code, message) = (ErrorCode::InvalidParams, "no".to_owned());
        let mut frame = Vec::new();
        encode_refusal(&mut frame, request.request_id, &Refusal { code, message });
        stream.write_all(&frame)
    });
    let object = Object { len: 80 << 20, ..object_at(&node) };
    assert_eq!(tcp().write(EPOCH, &[object.write_op(source.raw().into())]), refused);
}

#[test]
fn a_lane_whose_node_went_away_while_idle_is_not_used() {
    let drop_after_one = Arc::new(AtomicBool::new(false));
    let closed = Arc::clone(&drop_after_one);
    let node = FakeNode::start(move |mut stream| {
        let (request, _) = read_frame(&mut stream)?;
        stream.write_all(&good_reply(request.request_id))?;
        drop(stream);
        closed.store(true, Ordering::SeqCst);
        Ok(())
    });
    let (object, transport) = (object_at(&node), tcp());
    for round in 1..=3 {
        drop_after_one.store(false, Ordering::SeqCst);
        assert_eq!(read_all(&transport, std::slice::from_ref(&object)), all_ok(1));
        assert_eq!(node.accepted(), round);
        wait_until("the node hung up", || drop_after_one.load(Ordering::SeqCst));
        let hung_up = Instant::now();
        wait_until("the lane counts as idle", || hung_up.elapsed() > Duration::from_millis(2));
    }
}

#[test]
fn a_node_that_stops_in_the_middle_gives_errors_and_no_wrong_bytes() {
    let node = Node::start(1, 64 << 20);
    let objects: Vec<Object> = (0..8).map(|i| Object::at(&node, i << 22, 4 << 20, i + 1)).collect();
    let transport = tcp();
    assert_eq!(write_all(&transport, &objects), all_ok(8));
    let begun = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            loop {
                let results = read_all(&transport, &objects);
                begun.store(true, Ordering::SeqCst);
                if results != all_ok(8) {
                    return results;
                }
            }
        });
        wait_until("a read went well", || begun.load(Ordering::SeqCst));
        node.server.stop();
        for result in reader.join().unwrap() {
            let fine = matches!(
                result,
                Ok(()) | Err(TransferError::Unreachable { .. } | TransferError::Deserted { .. })
            );
            assert!(fine, "{result:?}");
        }
    });
}

#[test]
fn memory_that_is_not_there_is_an_error_and_closes_the_lane() {
    let node = Node::start(1, 8 << 20);
    let transport = tcp();
    for len in [4096, 16 << 10, 1 << 20] {
        let object = Object::at(&node, 0, len, len);
        assert_eq!(write_all(&transport, std::slice::from_ref(&object)), all_ok(1));
        let nowhere = RawSlice::unmapped(len as usize);
        let is_bad = |results: &[Result<(), TransferError>]| {
            matches!(results, [Err(TransferError::BadMemory { .. })])
        };
        let results = transport.read(&[object.read_op(0, nowhere.into())]);
        assert!(is_bad(&results), "{results:?}");
        let later = Object { offset: 4 << 20, version: version(len + 1), ..object.clone() };
        let results = transport.write(EPOCH, &[later.write_op(nowhere.into())]);
        assert!(is_bad(&results), "{results:?}");
        assert_eq!(read_all(&transport, &[object]), all_ok(1));
        wait_until("the server gave the write up", || node.host.writers() == 0);
        assert_eq!(node.host.entries(node.segment).len(), 1);
    }
}

/// A node that answers a frame of 1,024 ranges, the first with an error, and then a frame of one range. It sends both
/// answers in one piece.
fn answers_both_at_once() -> FakeNode {
    FakeNode::start(|mut stream| {
        let mut answer = Vec::new();
        for count in [1024, 1] {
            let (request, _) = read_frame(&mut stream)?;
            let fine = if count == 1 { 1 } else { count - 1 };
            let mut statuses = vec![Ok(()); count];
            if count > 1 {
                statuses[0] = Err(ErrorCode::ObjectNotFound);
            }
            encode_results(&mut answer, Kind::ReadReply, request.request_id, &statuses);
            let bytes = crate::testing::pattern("key", version(1), 0, 8);
            for _ in 0..fine {
                answer.extend_from_slice(&bytes);
            }
            for _ in 0..fine {
                answer.extend_from_slice(&0_i32.to_le_bytes());
                answer.extend_from_slice(&crc32c(&bytes).to_le_bytes());
            }
        }
        stream.write_all(&answer)?;
        let _ = read_frame(&mut stream);
        Ok(())
    })
}

#[test]
fn what_one_node_has_answered_is_read_though_another_is_silent() {
    let talkative = answers_both_at_once();
    let silent = FakeNode::start(|mut stream| {
        while read_frame(&mut stream).is_ok() {}
        Ok(())
    });
    let small = |node| Object { len: 8, ..object_at(node) };
    let mut objects: Vec<Object> = (0..1025).map(|_| small(&talkative)).collect();
    // Long, so that the second answer fits into the place of the first.
    objects[0].len = LEN;
    objects.push(small(&silent));
    let mut expected = all_ok(1025);
    expected[0] = Err(TransferError::Stale);
    expected.push(Err(TransferError::TimedOut { endpoint: Arc::clone(&silent.endpoint) }));
    assert_eq!(read_all(&impatient(), &objects), expected);
}
