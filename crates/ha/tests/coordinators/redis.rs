use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use mooncake_ha::{Change, Coordinator, CoordinatorError, Ended, Options, Values, ValuesLogin};
use mooncake_types::SegmentId;
use rustix::process::Signal;

use crate::server::{Server, free_port};
use crate::stub::{LossyWay, drips, floods, says};
use crate::wait::wait_for;
use crate::world::{CLUSTER, TTL, TestFolder, World, at, candidate, ended, follow, lead, options};

/// A Redis server without persistence.
struct Redis {
    server: Server,
    port: u16,
    folder: TestFolder,
    arguments: Vec<String>,
}

impl Redis {
    fn new() -> Self {
        Self::told(&[])
    }

    fn told(arguments: &[&str]) -> Self {
        const ATTEMPTS: usize = 3;
        let arguments: Vec<String> = arguments.iter().map(|&text| text.to_owned()).collect();
        // Another process may have taken the port meanwhile.
        (0..ATTEMPTS).find_map(|_| Self::start(free_port(), &arguments)).expect("Redis runs")
    }

    fn start(port: u16, arguments: &[String]) -> Option<Self> {
        let folder = TestFolder::new();
        let folder_path = folder.0.display().to_string();
        let own = ["--port", &port.to_string(), "--bind", "127.0.0.1", "--dir", &folder_path]
            .map(str::to_owned);
        let keeps_nothing = ["--save", "", "--appendonly", "no"].map(str::to_owned);
        let all: Vec<String> =
            own.into_iter().chain(keeps_nothing).chain(arguments.to_vec()).collect();
        let mut server = Server::start("redis-server", &all);
        let is_up = wait_for("Redis", Duration::from_secs(30), || {
            if server.has_ended() { Some(false) } else { answers(port).then_some(true) }
        });
        is_up.then(|| Self { server, port, folder, arguments: arguments.to_vec() })
    }

    /// Kills the server, and starts an empty one on the same port.
    fn replace(&mut self) {
        self.server.kill();
        let port = self.port;
        let replacement =
            wait_for("the port", Duration::from_secs(30), || Self::start(port, &self.arguments));
        let old = std::mem::replace(self, replacement);
        drop(old.folder);
    }

    fn address(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Sends a command and ignores the answer.
    fn send(&self, words: &[&[u8]]) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a limit");
        let mut command = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            command.extend(format!("${}\r\n", word.len()).into_bytes());
            command.extend([word, &b"\r\n"[..]].concat());
        }
        stream.write_all(&command).expect("it reads");
        let mut answer = [0; 64];
        let len = stream.read(&mut answer).expect("it answers");
        assert!(len > 0 && answer[0] != b'-', "{}", String::from_utf8_lossy(&answer));
    }
}

fn answers(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
    let mut answer = [0; 7];
    stream.write_all(b"PING\r\n").is_ok() && stream.read(&mut answer).is_ok_and(|len| len > 0)
}

fn key(name: &str) -> Vec<u8> {
    format!("mooncake-store/{{{CLUSTER}}}/{name}").into_bytes()
}

impl World for Redis {
    fn connect_to(&self, cluster_id: &str) -> Coordinator {
        at(&self.address(), cluster_id)
    }

    fn spoil_leader(&self, bytes: &[u8]) {
        self.send(&[b"SET", &key("master_view"), bytes]);
    }

    fn spoil_record(&self, bytes: &[u8]) {
        self.send(&[b"HSET", &key("membership"), b"text", bytes]);
    }

    fn reach(&self) -> (String, Options) {
        (self.address(), options(CLUSTER))
    }
}

crate::contract!(Redis::new());
crate::contract_of_processes!(Redis::new());

fn is_unavailable<T: std::fmt::Debug>(result: &Result<T, CoordinatorError>) -> bool {
    matches!(result, Err(CoordinatorError::Unavailable { .. }))
}

fn join(id: u128) -> [Change; 1] {
    [Change::Join(SegmentId(id))]
}

#[test]
fn a_key_of_another_kind_is_an_error() {
    let redis = Redis::new();
    redis.send(&[b"LPUSH", &key("master_view"), b"x"]);
    let seen = redis.connect().leader();
    assert!(matches!(seen, Err(CoordinatorError::Corrupt { .. })), "{seen:?}");
}

#[test]
fn a_record_without_its_stamp_is_an_error() {
    let redis = Redis::new();
    redis.send(&[b"HSET", &key("membership"), b"text", b"x"]);
    let refused = redis.connect().campaign(&candidate("a"), Duration::ZERO);
    assert!(matches!(refused, Err(CoordinatorError::Corrupt { .. })), "{refused:?}");
}

#[test]
fn a_server_that_stands_still_is_an_error_in_bounded_time() {
    let redis = Redis::new();
    let coordinator = redis.connect();
    let leadership = lead(&coordinator, "a", Duration::ZERO);
    redis.server.signal(Signal::STOP);
    let began = Instant::now();
    assert!(is_unavailable(&coordinator.leader()));
    assert!(is_unavailable(&leadership.apply(&join(1))));
    assert!(began.elapsed() < TTL * 2, "{:?}", began.elapsed());
    assert_eq!(ended(&leadership), Ended::Expired);
    redis.server.signal(Signal::CONT);
    let second = follow(&coordinator, "b", TTL * 2);
    assert!(matches!(leadership.apply(&join(2)), Err(CoordinatorError::Deposed { .. })));
    second.resign().expect("it leads");
}

#[test]
fn a_server_that_forgot_everything_deposes_the_leader() {
    let mut redis = Redis::new();
    let leadership = lead(&redis.connect(), "a", Duration::ZERO);
    leadership.apply(&join(1)).expect("it leads");
    redis.replace();
    let refused = wait_for("an answer", Duration::from_secs(5), || {
        Some(leadership.apply(&join(2))).filter(|result| !is_unavailable(result))
    });
    assert!(matches!(refused, Err(CoordinatorError::Deposed { .. })), "{refused:?}");
    let next = lead(&redis.connect(), "b", Duration::ZERO);
    assert!(next.epoch() > leadership.epoch());
}

#[test]
fn connections_that_the_server_closed_are_replaced() {
    let redis = Redis::new();
    let leadership = lead(&redis.connect(), "a", Duration::ZERO);
    for id in 0..3 {
        leadership.apply(&join(id)).expect("it leads");
        redis.send(&[b"CLIENT", b"KILL", b"TYPE", b"normal", b"SKIPME", b"yes"]);
        leadership.renew().expect("it leads");
    }
}

#[test]
fn a_name_is_looked_up() {
    let redis = Redis::new();
    assert_eq!(at(&format!("redis://localhost:{}", redis.port), CLUSTER).leader(), Ok(None));
    assert!(is_unavailable(&at("redis://no-such-host.invalid", CLUSTER).leader()));
}

#[test]
fn a_password_and_a_database_are_used() {
    let redis = Redis::told(&["--requirepass", "p@ss:word/"]);
    let port = redis.port;
    let right = at(&format!("redis://:p@ss:word/@127.0.0.1:{port}/3"), CLUSTER);
    let leadership = lead(&right, "a", Duration::ZERO);
    leadership.resign().expect("it leads");
    let named = at(&format!("redis://default:p@ss:word/@127.0.0.1:{port}"), CLUSTER);
    assert!(lead(&named, "a", Duration::ZERO).record().is_fresh(), "another database");
    for address in [format!("redis://127.0.0.1:{port}"), format!("redis://:x@127.0.0.1:{port}")] {
        let refused = at(&address, CLUSTER).leader();
        assert!(is_unavailable(&refused), "{refused:?}");
    }
}

#[test]
fn an_answer_that_was_lost_does_not_lose_what_was_done() {
    let redis = Redis::new();
    let way = LossyWay::to(redis.port);
    let coordinator = at(&format!("redis://127.0.0.1:{}", way.port), CLUSTER);
    assert_eq!(coordinator.leader(), Ok(None));
    // Of the three requests, the last elects the leader; its answer is lost, and it is repeated over another
    // connection.
    way.lose_after(2);
    let leadership = lead(&coordinator, "a", Duration::ZERO);
    assert!(way.has_lost());
    for id in 1..4 {
        way.lose_after(0);
        leadership.apply(&join(id)).expect("it leads");
        assert!(way.has_lost());
    }
    leadership.resign().expect("it leads");
    assert_eq!(lead(&redis.connect(), "b", Duration::ZERO).record().members().len(), 3);
}

#[test]
fn a_write_that_arrives_late_changes_nothing() {
    let redis = Redis::new();
    let way = LossyWay::to(redis.port);
    let coordinator = at(&format!("redis://127.0.0.1:{}", way.port), CLUSTER);
    let leadership = lead(&coordinator, "a", Duration::ZERO);
    way.forget();
    leadership.apply(&join(1)).expect("it leads");
    let early = way.sent();
    leadership
        .apply(&[Change::Strike(SegmentId(1)), Change::Join(SegmentId(2))])
        .expect("it leads");
    let answer = way.send_late(&early);
    assert!(answer.contains("changed"), "{answer}");
    leadership.resign().expect("it leads");
    let next = lead(&redis.connect(), "b", Duration::ZERO);
    assert!(next.record().members().map(|member| member.segment.0).eq([2]));
}

#[test]
fn odd_servers_are_errors_in_bounded_time() {
    let ports = [
        ("refuses", free_port()),
        ("is silent", says(b"")),
        ("speaks HTTP", says(b"HTTP/1.1 400 Bad Request\r\n\r\n")),
        ("answers something else", says(b":1\r\n")),
        ("answers with an error", says(b"-LOADING the data set\r\n")),
        ("announces too long a string", says(b"$999999999999\r\n")),
        ("announces too long an array", says(b"*999999999\r\n")),
        ("stops in the middle", says(b"$99\r\nabc")),
        ("drips a line", drips(b"+x")),
        ("drips a string", drips(b"$4000000\r\nx")),
        ("floods", floods(b"+")),
    ];
    for (what, port) in ports {
        let coordinator = at(&format!("redis://127.0.0.1:{port}"), CLUSTER);
        let began = Instant::now();
        let seen = coordinator.leader();
        assert!(is_unavailable(&seen), "a server that {what}: {seen:?}");
        let campaign = coordinator.campaign(&candidate("a"), Duration::ZERO);
        assert!(is_unavailable(&campaign), "a server that {what}: {campaign:?}");
        assert!(began.elapsed() < TTL, "a server that {what}: {:?}", began.elapsed());
    }
}

const WITHIN: Duration = Duration::from_secs(5);

#[test]
fn values_lie_in_the_database_that_is_named_behind_a_password() {
    let redis = Redis::told(&["--requirepass", "p@ss:word"]);
    let plain = ValuesLogin::default();
    let of = |address: &str, login: &ValuesLogin| {
        Values::connect(address, login, WITHIN).expect("an address")
    };
    let port = redis.port;
    let third = of(&format!("redis://:p@ss:word@127.0.0.1:{port}/3"), &plain);
    assert_eq!(third.get("k").expect("an answer"), None);
    third.put("k", "a value\r\nof lines").expect("an answer");
    third.put("other", "").expect("an answer");
    assert_eq!(third.get("k").expect("an answer"), Some(b"a value\r\nof lines".to_vec()));
    assert_eq!(third.get("other").expect("an answer"), Some(vec![]));
    assert_eq!(third.endpoint(), format!("127.0.0.1:{port}"));
    // The login may come from elsewhere.
    let login = ValuesLogin { password: Some("p@ss:word".to_owned()), database: Some(3) };
    let same = of(&redis.address(), &login);
    assert_eq!(same.get("other").expect("an answer"), Some(vec![]));
    let first = of(&redis.address(), &ValuesLogin { database: None, ..login });
    assert_eq!(first.get("k").expect("an answer"), None, "it is another database");
    same.remove("k").expect("an answer");
    same.remove("k").expect("an answer");
    assert_eq!(third.get("k").expect("an answer"), None);
    for address in [redis.address(), format!("redis://:wrong@127.0.0.1:{port}")] {
        let refused = of(&address, &plain).put("k", "v").expect_err("no password").to_string();
        assert!(!refused.contains("wrong@"), "{refused}");
        assert!(refused.contains("NOAUTH") || refused.contains("WRONGPASS"), "{refused}");
    }
    let outside = of(&format!("redis://:p@ss:word@127.0.0.1:{port}/99"), &plain).get("k");
    assert!(outside.expect_err("no such database").to_string().contains("DB index"));
}

#[test]
fn values_of_a_server_that_restarts_are_reached_again() {
    let mut redis = Redis::new();
    let values = Values::connect(&redis.address(), &ValuesLogin::default(), WITHIN);
    let values = values.expect("an address");
    values.put("k", "v").expect("an answer");
    redis.replace();
    assert_eq!(values.get("k").expect("an answer"), None, "it is empty");
    redis.server.kill();
    let gone = values.get("k").expect_err("nobody answers");
    assert!(matches!(gone, CoordinatorError::Unavailable { .. }), "{gone}");
    for address in ["k8s://kv/lease", "file:///folder", "h:1"] {
        assert!(Values::connect(address, &ValuesLogin::default(), WITHIN).is_err(), "{address}");
    }
}
