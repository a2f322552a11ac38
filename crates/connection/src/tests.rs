use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use mooncake_memory::{Private, send_with_descriptors};
use mooncake_wire::{HEADER_LEN, Header, Kind, Refusal, encode_refusal};

use crate::{CallFault, CallProgress, Connection, Fault, IdleConnections, Permits};

const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(200);

/// A connection whose calls may take `timeout`, and its other end.
fn pair(timeout: Duration) -> (Connection, UnixStream) {
    let (near, far) = UnixStream::pair().expect("a pair of sockets");
    let near: Private<TcpStream> = Private::new(OwnedFd::from(near)).convert();
    let connection = Connection::new(near, timeout, Duration::ZERO).expect("a socket");
    (connection, far)
}

fn frame(kind: Kind, request_id: u64, body: &[u8]) -> Vec<u8> {
    let header = Header { kind, flags: 0, body_len: body.len() as u32, request_id };
    [&header.encode()[..], body].concat()
}

fn ask(connection: &mut Connection) -> Result<Vec<u8>, CallFault> {
    let encode = |out: &mut Vec<u8>, id| out.extend(frame(Kind::Request, id, b"question"));
    connection.call(encode, Kind::Reply).map(|body| body.to_vec())
}

/// The result of a call that gets these bytes as its answer, before the other side hangs up.
fn answered(bytes: &[u8]) -> Result<Vec<u8>, CallFault> {
    let (mut connection, mut far) = pair(LONG);
    far.write_all(bytes).expect("there is room");
    far.shutdown(std::net::Shutdown::Write).expect("it is open");
    ask(&mut connection)
}

#[test]
fn a_call_is_answered_by_the_frame_with_its_id() {
    let (mut connection, mut far) = pair(LONG);
    for (id, len) in [(1, 0), (2, 7), (3, 100_000), (4, 3)] {
        let body = vec![id as u8; len];
        let sent = std::thread::scope(|scope| {
            let sent = scope.spawn(|| {
                let mut question = vec![0; HEADER_LEN + 8];
                far.read_exact(&mut question).expect("a question");
                far.write_all(&frame(Kind::Reply, id, &body)).expect("it listens");
                question
            });
            assert_eq!(ask(&mut connection).expect("an answer"), body);
            sent.join().expect("it has ended")
        });
        assert_eq!(sent, frame(Kind::Request, id, b"question"));
    }
    assert!(connection.is_quiet());
    drop(far);
    assert!(!connection.is_quiet());
}

#[test]
fn what_is_no_answer_is_told_from_an_end() {
    let good = frame(Kind::Reply, 1, b"answer");
    assert_eq!(answered(&good).expect("it is one"), b"answer");
    for end in 0..good.len() {
        let CallFault { fault, progress } = answered(&good[..end]).expect_err("it is cut short");
        assert_eq!(fault.to_string(), "it closed the connection", "{end} bytes");
        let expected = if end == 0 { CallProgress::Closed } else { CallProgress::Unknown };
        assert_eq!(progress, expected, "{end} bytes");
    }
    let mut too_long = good.clone();
    too_long[4..8].fill(0xff);
    for (bytes, reason) in [
        (frame(Kind::Reply, 2, b""), "the reply to request 2 came in place of that to 1"),
        (frame(Kind::Welcome, 1, b""), "a frame of kind Welcome came in place of Reply"),
        ([&good[..], &[0]].concat(), "more bytes came than the frame has"),
        (vec![7; 64], "a frame must begin with"),
        (too_long, "over the limit"),
    ] {
        match answered(&bytes).expect_err(reason).fault {
            Fault::Protocol(said) => assert!(said.contains(reason), "{said}"),
            fault => panic!("{reason}: {fault}"),
        }
    }
    let refusal = Refusal { code: mooncake_types::ErrorCode::IllegalClient, message: "no".into() };
    let mut bytes = Vec::new();
    encode_refusal(&mut bytes, 0, &refusal);
    let fault = answered(&bytes).expect_err("it refuses").fault;
    assert!(matches!(&fault, Fault::Refused(said) if *said == refusal), "{fault}");
}

#[test]
fn a_call_takes_no_longer_than_it_may_however_slowly_the_answer_comes() {
    let (mut connection, mut far) = pair(SHORT);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for byte in frame(Kind::Reply, 1, b"answer") {
                std::thread::sleep(SHORT / 10);
                // The reader gives up in the middle.
                let _ = far.write_all(&[byte]);
            }
        });
        let fault = ask(&mut connection).expect_err("it is too slow").fault;
        assert!(matches!(fault, Fault::TimedOut), "{fault}");
        assert!((SHORT..SHORT * 3).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    });
}

#[test]
fn a_wait_that_the_system_ends_too_early_goes_on() {
    for (answers, timeout) in [(true, LONG), (false, SHORT)] {
        let (mut connection, mut far) = pair(timeout);
        connection.stream().set_read_timeout(Some(SHORT / 20)).expect("a socket");
        let begun = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(SHORT / 2);
                if answers {
                    far.write_all(&frame(Kind::Reply, 1, b"answer")).expect("it listens");
                }
            });
            match ask(&mut connection) {
                Ok(answer) => assert!(answers && answer == b"answer"),
                Err(CallFault { fault, .. }) => {
                    assert!(!answers && matches!(fault, Fault::TimedOut), "{fault}");
                    assert!(begun.elapsed() >= timeout, "{:?}", begun.elapsed());
                }
            }
        });
    }
}

#[test]
fn descriptors_come_with_their_frame_and_no_other() {
    let (mut connection, far) = pair(LONG);
    let (mut reader, writer) = io::pipe().expect("a pipe");
    let hello = frame(Kind::Hello, 1, b"hello");
    send_with_descriptors(far.as_fd(), &hello, &[writer.as_fd()]).expect("there is room");
    drop(writer);
    let received = connection.receive(&[Kind::Hello]).expect("it is there");
    assert_eq!(&*received.body, b"hello");
    let writer = connection.take_descriptors().pop().expect("it came along");
    io::PipeWriter::from(writer).write_all(b"through").expect("it is open");
    let mut text = String::new();
    reader.read_to_string(&mut text).expect("it is open");
    assert_eq!(text, "through");
    send_with_descriptors(far.as_fd(), &hello, &[]).expect("there is room");
    connection.receive(&[Kind::Hello]).expect("it is there");
    assert_eq!(connection.take_descriptors().len(), 0);
}

#[test]
fn idle_connections_are_those_that_are_open_still_and_no_more_than_may_be() {
    let idle = IdleConnections::new(2);
    let (connections, mut others): (Vec<_>, Vec<_>) = (0..3).map(|_| pair(LONG)).unzip();
    connections.into_iter().for_each(|connection| idle.give_back(connection));
    // The third had no room, and was closed. One of the others hangs up.
    assert_eq!(others.remove(2).read(&mut [0]).expect("it is an end"), 0);
    drop(others.remove(1));
    let one = idle.take(false).expect("one is open");
    assert!(idle.take(false).is_none());
    idle.give_back(one);
    idle.close();
    assert!(idle.take(false).is_none());
    idle.give_back(pair(LONG).0);
    assert!(idle.take(false).is_none(), "it is closed");
}

#[test]
fn no_more_go_on_at_once_than_may() {
    let permits = Permits::new(1);
    let held = permits.take();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| drop(permits.take()));
        assert!(!waiting.is_finished());
        drop(held);
        waiting.join().expect("it has its turn");
    });
}
