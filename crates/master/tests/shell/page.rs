//! The page of a master, and the stream of its data.

use std::io::{Read, Write};
use std::net::TcpStream;

use mooncake_master::Config;
use mooncake_types::Request;
use serde_json::{Value, json};

use crate::support::{Answer, Running, config, dial, get, http_with_header, start, start_with};

/// The events of a stream, in their order.
fn events(body: &str) -> Vec<(String, Value)> {
    let event = |text: &str| {
        let (name, data) = text.split_once('\n').expect("two lines");
        let name = name.strip_prefix("event: ").expect("a name").to_owned();
        let data = data.strip_prefix("data: ").expect("data");
        (name, serde_json::from_str(data).expect("JSON"))
    };
    body.split_terminator("\n\n").map(event).collect()
}

fn live(master: &Running, turns: u32, header: &str) -> Answer {
    http_with_header(master.admin, "GET", &format!("/api/v1/live?turns={turns}"), header, b"")
}

fn names(events: &[(String, Value)]) -> Vec<&str> {
    events.iter().map(|(name, _)| &**name).collect()
}

#[test]
fn the_page_is_one_file_without_data_whose_script_alone_runs() {
    let master = start_with(Config { auth_token: "secret".into(), ..config() });
    let nonce_of = |answer: &Answer| {
        assert_eq!(answer.status, 200);
        assert!(answer.head.contains("content-type: text/html; charset=utf-8"), "{}", answer.head);
        let policy =
            answer.head.lines().find_map(|line| line.strip_prefix("content-security-policy: "));
        let policy = policy.expect("a policy");
        assert!(policy.starts_with("default-src 'none'; script-src 'nonce-"), "{policy}");
        let (_, rest) = policy.split_once("'nonce-").expect("a nonce");
        rest.split('\'').next().expect("a nonce").to_owned()
    };
    let (one, other) = (get(master.admin, "/"), get(master.admin, "/"));
    let (nonce, next) = (nonce_of(&one), nonce_of(&other));
    assert!(nonce.len() == 32 && nonce != next);
    assert_eq!(one.body.matches(&format!("nonce=\"{nonce}\"")).count(), 2);
    assert_eq!(one.body.matches("<script").count(), 1);
    assert_eq!(one.body.replace(&nonce, &next), other.body);
    for elsewhere in ["src=\"", "@import", "url(", "href=\"http", "localhost", "secret"] {
        assert!(!one.body.contains(elsewhere), "{elsewhere}");
    }
}

#[test]
fn a_viewer_hears_of_the_pool_at_once_and_then_of_its_changes() {
    let master = start();
    let mut rpc = master.connect(1);
    rpc.mount(5, "node-<b>", 1 << 20);
    rpc.put(&["one", "two"], 4096);
    let answer = live(&master, 2, "");
    assert!(answer.head.contains("content-type: text/event-stream"), "{}", answer.head);
    let told = events(&answer.body);
    let first = ["samples", "segments", "hot", "now"];
    assert_eq!(names(&told)[..4], first);
    assert_eq!(names(&told).iter().filter(|name| **name == "now").count(), 2);
    let (samples, segments, hot, now) = (&told[0].1, &told[1].1, &told[2].1, &told[3].1);
    assert_eq!(samples["restart"], true);
    let segment = &segments["segments"][0];
    let expected = json!({"id": "00000000000000000000000000000005", "name": "node-<b>", "endpoint": "127.0.0.1:1",
        "medium": "memory", "domains": [], "state": "OK", "in_sight": true, "reachable": segment["reachable"],
        "behind": false, "bytes": 1 << 20});
    assert_eq!(*segment, expected);
    assert_eq!(*hot, json!({"counts_reads": false, "keys": []}));
    assert_eq!((&now["role"], &now["state"]), (&json!("leader"), &json!("serving")));
    assert_eq!(now["leader"], format!("127.0.0.1:{}", master.rpc.port()));
    assert_eq!(now["used"], json!([8192]));
    assert!(now["leads_ms"].as_u64().is_some_and(|ms| ms < 60_000), "{now}");
    let fields = samples["fields"].as_array().expect("names");
    let value = |name: &str| {
        let place = fields.iter().position(|field| field == name).expect("a field");
        now["sample"][place].as_u64().expect("a number")
    };
    let numbers = ["keys", "memory_used", "memory_bytes", "puts", "put_bytes"].map(value);
    assert_eq!(numbers, [2, 8192, 1 << 20, 2, 8192]);
}

#[test]
fn what_is_wrong_is_told_with_what_to_do() {
    let master = start();
    let told = events(&live(&master, 1, "").body);
    let (_, now) = told.last().expect("an event");
    assert_eq!(
        now["problems"],
        json!([{"text": "no node lends memory", "remedy":
                "start nodes that lend memory, or end drains: the list of segments says which are closed"}])
    );
    let mut node = master.connect(1);
    node.ask(&Request::Ping { segments: vec![], unreachable: vec![], reads: None });
    node.mount(5, "node-a", 1 << 20);
    drop(node);
    crate::support::eventually("the node is a problem", || {
        let told = events(&live(&master, 1, "").body);
        let (_, now) = told.last().expect("an event");
        let of_node = "memory of node-a: its node does not ping; what lies there cannot be read";
        let problems = now["problems"].as_array().expect("a list");
        problems.iter().any(|problem| problem["text"] == of_node && problem["remedy"] != "")
    });
}

#[test]
fn the_data_needs_the_token_of_a_master_that_has_one() {
    let master = start_with(Config { auth_token: "a token".into(), ..config() });
    for header in ["", "Authorization: Bearer another\r\n", "Authorization: Basic a token\r\n"] {
        let answer = live(&master, 1, header);
        assert_eq!(answer.status, 401, "{header}");
        assert!(answer.body.contains("auth token"), "{}", answer.body);
    }
    let answer = live(&master, 1, "Authorization: Bearer a token\r\n");
    assert_eq!(answer.status, 200);
    assert_eq!(names(&events(&answer.body)), ["samples", "segments", "hot", "now"]);
    assert_eq!(live(&master, 0, "Authorization: Bearer a token\r\n").body, "");
    assert_eq!(get(master.admin, "/metrics").status, 200, "other data needs none");
    let wrong = http_with_header(
        master.admin,
        "GET",
        "/api/v1/live?turns=x",
        "Authorization: Bearer a token\r\n",
        b"",
    );
    assert_eq!(wrong.status, 400);
}

#[test]
fn viewers_leave_connections_to_others() {
    let master = start();
    let look = || {
        let mut stream = dial(master.admin);
        let request = b"GET /api/v1/live HTTP/1.1\r\nHost: x\r\n\r\n";
        stream.write_all(request).expect("the server reads");
        let mut status = [0; 12];
        stream.read_exact(&mut status).expect("the server answers");
        (String::from_utf8_lossy(&status).into_owned(), stream)
    };
    let viewers: Vec<(String, TcpStream)> = (0..64).map(|_| look()).collect();
    assert!(viewers.iter().all(|(status, _)| status == "HTTP/1.1 200"));
    assert_eq!(look().0, "HTTP/1.1 503");
    master.assert_serves();
    drop(viewers);
    crate::support::eventually("places are free again", || look().0 == "HTTP/1.1 200");
}
