use std::thread;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mooncake_ha::{
    CampaignOutcome, Change, Coordinator, CoordinatorError, Ended, Options, Values, ValuesLogin,
    connect,
};
use mooncake_types::SegmentId;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::server::{Server, free_port};
use crate::stub::{HttpAnswer, LossyWay, drips, floods, listen, says, serve_http};
use crate::wait::wait_for;
use crate::world::{
    CLUSTER, Keeper, TTL, TestFolder, World, at, candidate, ended, follow, lead, options,
};

/// How soon an etcd cluster notices that a member is gone.
#[derive(Clone, Copy)]
struct Pace {
    heartbeat_ms: u32,
    election_ms: u32,
}

/// With these values a lease may last one second; with etcd's defaults the shortest lasts two.
const QUICK: Pace = Pace { heartbeat_ms: 50, election_ms: 500 };

/// A cluster of etcd.
struct Etcd {
    members: Vec<Server>,
    ports: Vec<u16>,
    _folder: TestFolder,
}

impl Etcd {
    fn new() -> Self {
        Self::of_members(1)
    }

    fn of_members(count: usize) -> Self {
        const ATTEMPTS: usize = 3;
        // Another process may have taken a port meanwhile.
        (0..ATTEMPTS).find_map(|_| Self::start(count)).expect("etcd runs")
    }

    fn start(count: usize) -> Option<Self> {
        let folder = TestFolder::new();
        let ports: Vec<u16> = (0..count).map(|_| free_port()).collect();
        let peers: Vec<u16> = (0..count).map(|_| free_port()).collect();
        let all = peers.iter().enumerate().map(|(n, port)| format!("m{n}=http://127.0.0.1:{port}"));
        let all = all.collect::<Vec<_>>().join(",");
        let members = (0..count).map(|n| {
            let client = format!("http://127.0.0.1:{}", ports[n]);
            let peer = format!("http://127.0.0.1:{}", peers[n]);
            let data = folder.0.join(format!("m{n}")).display().to_string();
            let settings = [
                ("name", format!("m{n}")),
                ("data-dir", data),
                ("listen-client-urls", client.clone()),
                ("advertise-client-urls", client),
                ("listen-peer-urls", peer.clone()),
                ("initial-advertise-peer-urls", peer),
                ("initial-cluster", all.clone()),
                ("heartbeat-interval", QUICK.heartbeat_ms.to_string()),
                ("election-timeout", QUICK.election_ms.to_string()),
            ];
            let arguments = settings.map(|(name, value)| format!("--{name}={value}"));
            Server::start("etcd", &arguments)
        });
        let mut etcd = Self { members: members.collect(), ports, _folder: folder };
        let is_up = wait_for("etcd", Duration::from_secs(60), || {
            let ended = etcd.members.iter_mut().any(Server::has_ended);
            let answer = || etcd.ports.iter().all(|&port| is_healthy(port));
            if ended { Some(false) } else { answer().then_some(true) }
        });
        is_up.then_some(etcd)
    }

    fn address(&self) -> String {
        address(&self.ports)
    }

    fn put(&self, key: &str, value: &[u8]) {
        let key = STANDARD.encode(format!("mooncake-store/{CLUSTER}/{key}"));
        let body = json!({"key": key, "value": STANDARD.encode(value)});
        post(self.ports[0], "/v3/kv/put", &body).expect("etcd answers");
    }
}

fn address(ports: &[u16]) -> String {
    let endpoints: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    format!("etcd://{}", endpoints.join(";"))
}

fn post(port: u16, path: &str, body: &Value) -> Result<Value, ureq::Error> {
    let config = ureq::Agent::config_builder().timeout_global(Some(Duration::from_secs(5))).build();
    let request = ureq::Agent::from(config).post(format!("http://127.0.0.1:{port}{path}"));
    let text = request.send(body.to_string())?.body_mut().read_to_string()?;
    Ok(serde_json::from_str(&text).unwrap_or_default())
}

fn is_healthy(port: u16) -> bool {
    post(port, "/v3/kv/range", &json!({"key": STANDARD.encode("health")})).is_ok()
}

impl World for Etcd {
    fn connect_to(&self, cluster_id: &str) -> Coordinator {
        at(&self.address(), cluster_id)
    }

    fn spoil_leader(&self, bytes: &[u8]) {
        self.put("master_view", bytes);
    }

    fn spoil_record(&self, bytes: &[u8]) {
        self.put("membership", bytes);
    }

    fn reach(&self) -> (String, Options) {
        (self.address(), options(CLUSTER))
    }

    /// etcd looks for expired leases twice a second.
    fn slack(&self) -> Duration {
        Duration::from_secs(2)
    }
}

crate::contract!(Etcd::new());
crate::contract_of_processes!(Etcd::new());

fn is_unavailable<T: std::fmt::Debug>(result: &Result<T, CoordinatorError>) -> bool {
    matches!(result, Err(CoordinatorError::Unavailable { .. }))
}

fn join(id: u128) -> [Change; 1] {
    [Change::Join(SegmentId(id))]
}

/// A leader that renews on a thread keeps leading after a fault of one member.
fn goes_on_without(fault: impl Fn(&mut Server), member: usize) {
    let mut etcd = Etcd::of_members(3);
    let options = Options { ttl: TTL * 3, ..options(CLUSTER) };
    let coordinator = connect(&etcd.address(), &options).expect("an address");
    let leadership = lead(&coordinator, "a", Duration::from_secs(5));
    let keeper = Keeper::of(&leadership);
    fault(&mut etcd.members[member]);
    let until = Instant::now() + options.ttl * 2;
    let mut id = 0;
    while Instant::now() < until {
        id += 1;
        wait_for("a write", options.ttl, || {
            assert!(leadership.is_valid(), "the lease was lost with member {member}");
            match leadership.apply(&join(id)) {
                Ok(()) => Some(()),
                Err(CoordinatorError::Unavailable { .. }) => None,
                Err(error) => panic!("{error}"),
            }
        });
        thread::sleep(Duration::from_millis(50));
    }
    let seen = connect(&etcd.address(), &options).expect("an address").leader();
    assert_eq!(seen.map(|view| view.map(|view| view.epoch)), Ok(Some(leadership.epoch())));
    assert_eq!(keeper.stop(), Ended::Stopped);
    etcd.members[member].signal(Signal::CONT);
    leadership.resign().expect("it leads");
    let next = lead(&coordinator, "b", Duration::from_secs(5));
    assert!(next.record().members().eq(leadership.record().members()));
}

#[test]
fn a_leader_goes_on_while_the_first_member_is_stopped() {
    goes_on_without(|member| member.signal(Signal::STOP), 0);
}

#[test]
fn a_leader_goes_on_while_another_member_is_stopped() {
    goes_on_without(|member| member.signal(Signal::STOP), 1);
}

#[test]
fn a_leader_goes_on_when_a_member_was_killed() {
    goes_on_without(|member| member.signal(Signal::KILL), 2);
}

#[test]
fn without_most_members_nobody_leads() {
    let mut etcd = Etcd::of_members(3);
    let coordinator = etcd.connect();
    let leadership = lead(&coordinator, "a", Duration::from_secs(5));
    etcd.members[0].kill();
    etcd.members[2].kill();
    let began = Instant::now();
    assert!(is_unavailable(&leadership.apply(&join(1))));
    assert!(is_unavailable(&coordinator.leader()));
    assert!(is_unavailable(&coordinator.campaign(&candidate("b"), Duration::ZERO)));
    assert!(began.elapsed() < TTL * 3, "{:?}", began.elapsed());
    assert_eq!(ended(&leadership), Ended::Expired);
}

#[test]
fn an_answer_that_was_lost_does_not_lose_what_was_done() {
    let etcd = Etcd::new();
    let way = LossyWay::to(etcd.ports[0]);
    // Both addresses lead to the same member. When the first connection loses an answer, the retry over the second
    // finds the request done.
    let coordinator = at(&address(&[way.port, etcd.ports[0]]), CLUSTER);
    // Before the transaction that elects the leader come two requests: a read and a lease.
    way.lose_after(2);
    let leadership = lead(&coordinator, "a", Duration::ZERO);
    assert!(way.has_lost());
    for id in 1..4 {
        leadership.apply(&join(id)).expect("it leads");
        leadership.renew().expect("it leads");
    }
    leadership.resign().expect("it leads");
    assert_eq!(lead(&etcd.connect(), "b", Duration::ZERO).record().members().len(), 3);
}

#[test]
fn a_write_whose_answer_was_lost_is_found_done_or_repeated() {
    let etcd = Etcd::new();
    let way = LossyWay::to(etcd.ports[0]);
    let leadership = lead(&at(&address(&[way.port]), CLUSTER), "a", Duration::ZERO);
    for id in 1..4 {
        way.lose_after(0);
        let unknown = leadership.apply(&join(id));
        assert!(is_unavailable(&unknown) && way.has_lost(), "{unknown:?}");
        leadership.apply(&join(id)).expect("it leads");
        leadership.apply(&join(id + 10)).expect("it leads");
    }
    leadership.resign().expect("it leads");
    let ids: Vec<u128> = lead(&etcd.connect(), "b", Duration::ZERO)
        .record()
        .members()
        .map(|member| member.segment.0)
        .collect();
    assert_eq!(ids, [1, 2, 3, 11, 12, 13]);
}

#[test]
fn a_place_that_was_taken_up_again_without_an_answer_is_found_so() {
    let etcd = Etcd::new();
    let way = LossyWay::to(etcd.ports[0]);
    let leadership = lead(&at(&address(&[way.port]), CLUSTER), "a", Duration::ZERO);
    let coordinator = etcd.connect();
    wait_for("the end of the lease", TTL * 4, || (coordinator.leader() == Ok(None)).then_some(()));
    // Before the transaction come two requests: a read and a lease.
    way.lose_after(2);
    let unknown = leadership.renew();
    assert!(is_unavailable(&unknown) && way.has_lost(), "{unknown:?}");
    leadership.renew().expect("nobody else led");
    leadership.renew().expect("it leads");
    leadership.apply(&join(1)).expect("it leads");
    let seen = coordinator.leader();
    assert_eq!(seen.map(|view| view.map(|view| view.epoch)), Ok(Some(leadership.epoch())));
}

#[test]
fn a_write_that_arrives_late_changes_nothing() {
    let etcd = Etcd::new();
    let way = LossyWay::to(etcd.ports[0]);
    let leadership = lead(&at(&address(&[way.port]), CLUSTER), "a", Duration::ZERO);
    way.forget();
    leadership.apply(&join(1)).expect("it leads");
    let early = way.sent();
    leadership
        .apply(&[Change::Strike(SegmentId(1)), Change::Join(SegmentId(2))])
        .expect("it leads");
    let answer = way.send_late(&early);
    assert!(answer.starts_with("HTTP/1.1 200") && !answer.contains("succeeded"), "{answer}");
    leadership.resign().expect("it leads");
    let next = lead(&etcd.connect(), "b", Duration::ZERO);
    assert!(next.record().members().map(|member| member.segment.0).eq([2]));
}

#[test]
fn a_key_that_an_operator_removed_ends_the_leadership() {
    let etcd = Etcd::new();
    let leadership = lead(&etcd.connect(), "a", Duration::ZERO);
    let key = STANDARD.encode(format!("mooncake-store/{CLUSTER}/master_view"));
    post(etcd.ports[0], "/v3/kv/deleterange", &json!({"key": key})).expect("etcd answers");
    assert_eq!(ended(&leadership), Ended::Deposed);
}

#[test]
fn a_record_that_was_removed_under_its_leader_is_an_error() {
    let etcd = Etcd::new();
    let leadership = lead(&etcd.connect(), "a", Duration::ZERO);
    let key = STANDARD.encode(format!("mooncake-store/{CLUSTER}/membership"));
    post(etcd.ports[0], "/v3/kv/deleterange", &json!({"key": key})).expect("etcd answers");
    let refused = leadership.apply(&join(1));
    assert!(matches!(refused, Err(CoordinatorError::Corrupt { .. })), "{refused:?}");
}

#[test]
fn a_record_that_is_too_large_is_refused_and_changes_nothing() {
    let etcd = Etcd::new();
    let options = Options { ttl: TTL * 30, ..options(CLUSTER) };
    let coordinator = connect(&etcd.address(), &options).expect("an address");
    let leadership = lead(&coordinator, "a", Duration::ZERO);
    leadership.apply(&join(1)).expect("it leads");
    let many: Vec<Change> = (0..40_000).map(|id| Change::Join(SegmentId(id << 64))).collect();
    let refused = leadership.apply(&many);
    assert!(matches!(refused, Err(CoordinatorError::Full { .. })), "{refused:?}");
    leadership.apply(&many[..20_000]).expect("it fits");
    leadership.resign().expect("it leads");
    let next = lead(&coordinator, "b", Duration::ZERO);
    assert_eq!(next.record().members().len(), 20_001);
}

/// The answers of a member of this Raft term, for a cluster without a leader.
fn answer_of_term(path: &str, term: u64) -> HttpAnswer {
    let header = json!({"revision": "7", "raft_term": term.to_string()});
    let answer = match path {
        "/v3/lease/grant" => json!({"header": header, "ID": "1", "TTL": "5"}),
        "/v3/lease/keepalive" => json!({"result": {"header": header, "ID": "1", "TTL": "5"}}),
        "/v3/kv/txn" => {
            let parts = [json!({"response_range": {}}), json!({"response_range": {}})];
            json!({"header": header, "succeeded": true, "responses": parts})
        }
        _ => json!({"header": header}),
    };
    (200, answer.to_string().into_bytes())
}

#[test]
fn a_renewal_by_a_member_of_an_older_term_does_not_count() {
    for (renewed_in, counts) in [(3, true), (2, false), (4, false)] {
        let port = listen(move |stream| {
            let _ = serve_http(stream, |request| {
                let term = if request.path.ends_with("keepalive") { renewed_in } else { 3 };
                let mut answer = answer_of_term(&request.path, term);
                if !String::from_utf8_lossy(&request.body).contains("\"success\":[{") {
                    // This transaction only checks that the key belongs to the leader.
                    let bare =
                        json!({"header": {"revision": "7", "raft_term": "3"}, "succeeded": true});
                    if request.path == "/v3/kv/txn" {
                        answer.1 = bare.to_string().into_bytes();
                    }
                }
                answer
            });
        });
        let leadership = lead(&at(&address(&[port]), CLUSTER), "a", Duration::ZERO);
        let before = leadership.valid_until();
        let renewed = leadership.renew();
        assert_eq!(renewed.is_ok(), counts, "renewed in term {renewed_in}: {renewed:?}");
        assert!(counts || is_unavailable(&renewed));
        assert_eq!(leadership.valid_until() > before, counts);
    }
}

#[test]
fn odd_servers_are_errors_in_bounded_time() {
    let http = |body: &str| {
        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
    };
    let refused = free_port();
    let ports = [
        ("refuses", refused),
        ("is silent", says(b"")),
        ("talks garbage", says(b"garbage\r\n\r\n")),
        ("answers with garbage", says(&http("garbage"))),
        ("answers with nothing", says(&http("{}"))),
        ("answers with half of it", says(&http(r#"{"header":{"revision":"1"}}"#))),
        ("answers with numbers", says(&http(r#"{"header":{"revision":1}}"#))),
        ("answers 500", says(b"HTTP/1.1 500 X\r\ncontent-length: 2\r\n\r\nno")),
        ("stops in the middle", says(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{")),
        ("drips a head", drips(b"HTTP/1.1 200 OK\r\nx: ")),
        ("drips a body", drips(b"HTTP/1.1 200 OK\r\ncontent-length: 999999\r\n\r\n{ ")),
        ("floods a head", floods(b"HTTP/1.1 200 OK\r\nx: ")),
        ("floods a body", floods(b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n")),
    ];
    for (what, port) in ports {
        let coordinator = at(&address(&[port]), CLUSTER);
        let began = Instant::now();
        let seen = coordinator.leader();
        assert!(is_unavailable(&seen), "a server that {what}: {seen:?}");
        let campaign = coordinator.campaign(&candidate("a"), Duration::ZERO);
        assert!(is_unavailable(&campaign), "a server that {what}: {campaign:?}");
        assert!(began.elapsed() < TTL, "a server that {what}: {:?}", began.elapsed());
    }
}

#[test]
fn a_member_that_is_odd_is_passed_over() {
    let etcd = Etcd::new();
    for odd in [free_port(), says(b""), says(b"garbage\r\n\r\n")] {
        let coordinator = at(&address(&[odd, etcd.ports[0]]), CLUSTER);
        let leadership = follow(&coordinator, "a", TTL);
        leadership.apply(&join(1)).expect("it leads");
        leadership.resign().expect("it leads");
        assert!(
            matches!(coordinator.campaign(&candidate("b"), TTL), Ok(CampaignOutcome::Leads(l)) if l.resign().is_ok())
        );
    }
}

const WITHIN: Duration = Duration::from_secs(5);

/// Sends a request to the gateway, with a token if there is one. Returns the answer.
fn ask(port: u16, path: &str, body: &Value, token: Option<&str>) -> Value {
    let mut request = ureq::post(&format!("http://127.0.0.1:{port}{path}"));
    if let Some(token) = token {
        request = request.header("authorization", token);
    }
    let mut answer = request.send(body.to_string()).expect("an answer");
    serde_json::from_str(&answer.body_mut().read_to_string().expect("text")).expect("JSON")
}

fn token_of(port: u16, password: &str) -> String {
    let login = json!({"name": "root", "password": password});
    let answer = ask(port, "/v3/auth/authenticate", &login, None);
    answer["token"].as_str().expect("a token").to_owned()
}

#[test]
fn values_lie_in_a_cluster_behind_a_password() {
    let etcd = Etcd::of_members(3);
    let port = etcd.ports[0];
    for (path, body) in [
        ("/v3/auth/user/add", json!({"name": "root", "password": "p@ss:word"})),
        ("/v3/auth/role/add", json!({"name": "root"})),
        ("/v3/auth/user/grant", json!({"user": "root", "role": "root"})),
        ("/v3/auth/enable", json!({})),
    ] {
        ask(port, path, &body, None);
    }
    let members: Vec<String> = etcd.ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let address = format!("etcd://root:p@ss:word@{}", members.join(";"));
    let of = |address: &str| {
        Values::connect(address, &ValuesLogin::default(), WITHIN).expect("an address")
    };
    let values = of(&address);
    assert_eq!(values.endpoint(), members[0]);
    assert_eq!(values.get("k").expect("an answer"), None);
    values.put("k", "a value").expect("an answer");
    values.put("empty", "").expect("an answer");
    assert_eq!(values.get("k").expect("an answer"), Some(b"a value".to_vec()));
    assert_eq!(values.get("empty").expect("an answer"), Some(vec![]));
    // A new password ends the tokens of the user; here it is the old one again.
    let again = json!({"name": "root", "password": "p@ss:word"});
    ask(port, "/v3/auth/user/changepw", &again, Some(&token_of(port, "p@ss:word")));
    assert_eq!(values.get("k").expect("it logs in again"), Some(b"a value".to_vec()));
    values.remove("k").expect("an answer");
    assert_eq!(values.get("k").expect("an answer"), None);
    for (address, reason) in [
        (format!("etcd://{}", members[0]), "user name is empty"),
        (format!("etcd://root:wrong@{}", members[0]), "it refused the login"),
    ] {
        let refused = of(&address).put("k", "v").expect_err("no password").to_string();
        assert!(refused.contains(reason) && !refused.contains("wrong@"), "{refused}");
    }
    // Masters log in as well.
    let coordinator = connect(&address, &options(CLUSTER)).expect("an address");
    let leadership = lead(&coordinator, "a", Duration::ZERO);
    assert!(coordinator.leader().expect("an answer").is_some());
    drop(leadership);
}
