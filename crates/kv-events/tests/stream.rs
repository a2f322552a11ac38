//! The bytes of the event stream. The Python tests read it with libzmq.

#![allow(missing_docs, reason = "tests are no public interface")]

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::pin::Pin;
use std::time::{Duration, Instant};

use mooncake_kv_events::{Change, Config, Event, Fields, Page, Publisher, Snapshot, Tier};

const PATIENCE: Duration = Duration::from_secs(10);

/// A snapshot of two pages with one key each.
struct TwoKeys;

impl Snapshot for TwoKeys {
    fn page(&self, from: u64) -> Pin<Box<dyn Future<Output = Option<Page>> + Send + '_>> {
        let page = (vec![stored(&format!("key-{from}"))], (from == 0).then_some(1));
        Box::pin(async move { Some(page) })
    }
}

fn stored(key: &str) -> Event {
    Event::Key {
        key: key.into(),
        tenant: None,
        tier: Tier::Memory,
        change: Change::Stored,
        group: "".into(),
        session: "".into(),
    }
}

fn config() -> Config {
    let fields =
        Fields { backend_id: "b".to_owned(), are_legacy_names_there: false, is_key_there: true };
    Config { fields, queue_capacity: 1000, history_bytes: 1 << 20, numbers_after: 0 }
}

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there are ports");
    listener.set_nonblocking(true).expect("it can be told");
    let address = listener.local_addr().expect("it has one");
    (listener, address)
}

/// A publisher, the address where it publishes, and the address where it answers requests.
fn start(config: Config) -> (Publisher, SocketAddr, SocketAddr) {
    let ((subscribers, address), (replays, asked)) = (listener(), listener());
    let publisher = Publisher::start(subscribers, Some(replays), config, Box::new(TwoKeys), None);
    (publisher.expect("it starts"), address, asked)
}

/// A peer that sends and reads ZMTP frames itself.
struct Peer(TcpStream);

impl Peer {
    fn connect(address: SocketAddr) -> Peer {
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("it can be told");
        Peer(stream)
    }

    fn greeting(mechanism: &[u8]) -> [u8; 64] {
        let mut greeting = [0; 64];
        (greeting[0], greeting[8], greeting[9], greeting[10]) = (0xff, 1, 0x7f, 3);
        greeting[12..12 + mechanism.len()].copy_from_slice(mechanism);
        greeting
    }

    fn greet(address: SocketAddr, kind: &str) -> Peer {
        let mut peer = Peer::connect(address);
        peer.0.write_all(&Peer::greeting(b"NULL")).expect("it reads");
        let mut ready = b"\x05READY\x0bsocket-type".to_vec();
        ready.extend((kind.len() as u32).to_be_bytes());
        ready.extend(kind.as_bytes());
        peer.0.write_all(&[4, ready.len() as u8]).expect("it reads");
        peer.0.write_all(&ready).expect("it reads");
        let mut theirs = [0; 64];
        peer.0.read_exact(&mut theirs).expect("it greets");
        assert_eq!(theirs, Peer::greeting(b"NULL"));
        let (flags, body) = peer.frame().expect("it says what it is");
        assert!(flags == 4 && body.starts_with(b"\x05READY"));
        peer
    }

    fn subscribe(address: SocketAddr) -> Peer {
        let mut peer = Peer::greet(address, "SUB");
        peer.0.write_all(&[0, 1, 1]).expect("it reads");
        peer
    }

    fn frame(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let mut head = [0; 1];
        self.0.read_exact(&mut head)?;
        let mut len = [0; 8];
        match head[0] & 2 {
            0 => self.0.read_exact(&mut len[7..])?,
            _ => self.0.read_exact(&mut len)?,
        }
        let mut body = vec![0; u64::from_be_bytes(len) as usize];
        self.0.read_exact(&mut body)?;
        Ok((head[0], body))
    }

    fn message(&mut self) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        loop {
            let (flags, body) = self.frame().expect("a message comes");
            frames.push(body);
            if flags & 1 == 0 {
                return frames;
            }
        }
    }

    /// The number of the next batch, and its bytes.
    fn batch(&mut self) -> (u64, Vec<u8>) {
        let [topic, number, batch] = self.message().try_into().expect("three frames");
        assert_eq!(topic, b"");
        (u64::from_be_bytes(number.try_into().expect("eight bytes")), batch)
    }

    /// Whether the publisher closes the connection.
    fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        match self.0.read_to_end(&mut rest) {
            Ok(_) => true,
            Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
        }
    }

    fn ask(&mut self, request: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.0.write_all(&[1, 0, 0, request.len() as u8]).expect("it reads");
        self.0.write_all(request).expect("it reads");
        let mut answers = Vec::new();
        loop {
            let [envelope, number, batch] = self.message().try_into().expect("three frames");
            assert_eq!(envelope, b"");
            if number == [0xff; 8] {
                assert_eq!(batch, b"");
                return answers;
            }
            answers.push((number, batch));
        }
    }
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Publishes until the subscriber has received something.
fn publish_until_it_comes(publisher: &Publisher, peer: &Peer) {
    peer.0.set_read_timeout(Some(Duration::from_millis(20))).expect("it can be told");
    let end = Instant::now() + PATIENCE;
    while peer.0.peek(&mut [0]).is_err() {
        assert!(Instant::now() < end, "it is served");
        publisher.publish([stored("a")]);
    }
    peer.0.set_read_timeout(Some(PATIENCE)).expect("it can be told");
}

fn holds(batch: &[u8], text: &str) -> bool {
    batch.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn a_subscriber_gets_what_is_published_from_then_on() {
    let (publisher, address, _) = start(config());
    publisher.publish([stored("before")]);
    wait_until("it is published", || publisher.stats().batches == 1);
    let (mut one, mut two) = (Peer::subscribe(address), Peer::subscribe(address));
    // A subscriber gets no answer to its subscription, so the test publishes until an event arrives.
    publish_until_it_comes(&publisher, &one);
    publish_until_it_comes(&publisher, &two);
    publisher.publish([stored("last"), Event::Cleared]);
    for peer in [&mut one, &mut two] {
        let (mut number, mut batch) = peer.batch();
        assert!(number > 1, "what came before is not sent");
        while !holds(&batch, "last") {
            let next = peer.batch();
            assert_eq!(next.0, number + 1);
            (number, batch) = next;
        }
        assert!(holds(&batch, "stored") && holds(&batch, "cleared") && holds(&batch, "object_key"));
    }
    assert_eq!(publisher.stats().subscribers, 2);
    drop(two);
    wait_until("it is gone", || publisher.stats().subscribers == 1);
}

#[test]
fn who_is_slow_skips_and_sees_it_by_the_numbers() {
    let (publisher, address, _) = start(Config { history_bytes: 64 << 10, ..config() });
    let mut slow = Peer::subscribe(address);
    wait_until("it is there", || publisher.stats().subscribers == 1);
    let long = "x".repeat(60_000);
    let mut sent = 0;
    // More than the socket buffers hold.
    while sent < 1_000 {
        publisher.publish([stored(&long)]);
        sent += 1;
        wait_until("it is published", || publisher.stats().batches == sent);
    }
    publisher.publish([stored("last")]);
    let (mut numbers, mut batch) = (Vec::new(), Vec::new());
    while !holds(&batch, "last") {
        let (number, next) = slow.batch();
        numbers.push(number);
        batch = next;
    }
    assert!(numbers.is_sorted() && numbers.last() == Some(&1_001));
    assert!(numbers.len() < 1_000, "{} were kept for it", numbers.len());
}

#[test]
fn events_that_are_too_many_leave_a_gap_in_the_numbers() {
    let (publisher, _, asked) = start(Config { queue_capacity: 4, ..config() });
    publisher.publish((0..10).map(|n| stored(&n.to_string())));
    wait_until("it is published", || publisher.stats().batches == 1);
    let stats = publisher.stats();
    assert_eq!((stats.events, stats.dropped, stats.unnumbered_keys), (4, 6, 0));
    let batches = Peer::greet(asked, "REQ").ask(&0_u64.to_be_bytes());
    let numbers: Vec<_> = batches.iter().map(|(number, _)| number.clone()).collect();
    assert_eq!(numbers, [7_u64.to_be_bytes()]);
}

#[test]
fn who_missed_some_asks_for_them() {
    let (publisher, _, asked) = start(config());
    for n in 0..3 {
        publisher.publish([stored(&format!("key-{n}"))]);
        wait_until("it is published", || publisher.stats().batches == n + 1);
    }
    let mut peer = Peer::greet(asked, "REQ");
    for (from, count) in [(0, 3), (2, 2), (4, 0), (u64::MAX, 0)] {
        let answers = peer.ask(&u64::to_be_bytes(from));
        assert_eq!(answers.len(), count, "from {from}");
        if let Some((number, batch)) = answers.last() {
            assert!(number == &3_u64.to_be_bytes() && holds(batch, "key-2"));
        }
    }
    assert_eq!(publisher.stats().unnumbered_keys, 3);
}

#[test]
fn who_begins_asks_for_all_there_is() {
    let (publisher, _, asked) = start(config());
    publisher.publish([stored("a")]);
    wait_until("it is published", || publisher.stats().batches == 1);
    let pages = Peer::greet(asked, "DEALER").ask(b"snapshot");
    assert_eq!(pages.len(), 2);
    for (at, (number, batch)) in pages.iter().enumerate() {
        assert_eq!(number, &1_u64.to_be_bytes());
        assert!(holds(batch, &format!("key-{at}")));
    }
}

#[test]
fn whoever_speaks_something_else_is_left_and_the_others_are_served() {
    let (publisher, address, asked) = start(config());
    let bad: [&[u8]; 3] = [
        b"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nConnection: close\r\n\r\n",
        &Peer::greeting(b"CURVE"),
        &[0; 64],
    ];
    for greeting in bad {
        let mut peer = Peer::connect(address);
        peer.0.write_all(greeting).expect("it reads");
        assert!(peer.is_closed());
    }
    // A wrong kind of socket, a message that is too long, and a request of a wrong length.
    assert!(Peer::greet(address, "PULL").is_closed());
    let mut long = Peer::greet(address, "SUB");
    long.0.write_all(&[2, 0xff, 0, 0, 0, 0, 0, 0, 0]).expect("it reads");
    assert!(long.is_closed());
    let mut odd = Peer::greet(asked, "REQ");
    odd.0.write_all(&[1, 0, 0, 3, 1, 2, 3]).expect("it reads");
    assert!(odd.is_closed());
    publish_until_it_comes(&publisher, &Peer::subscribe(address));
}
