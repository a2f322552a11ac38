//! Invalid requests to the admin port: the server answers with an HTTP error or closes, and serves other clients.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use mooncake_master::Config;

use crate::support::{Running, config, dial, get, random, start, start_with};

/// Sends `bytes`, closes the sending side, and returns all that the server answers.
fn converse(master: &Running, bytes: &[u8]) -> String {
    let mut stream = dial(master.admin);
    // The server may refuse the request before it has read all of it.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => panic!("the server neither answers nor closes: {error}"),
    }
    String::from_utf8_lossy(&answer).into_owned()
}

fn status(answer: &str) -> Option<u16> {
    answer.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()
}

#[test]
fn requests_that_are_none() {
    let master = start();
    let many_headers: String = (0..200).map(|i| format!("h{i}: v\r\n")).collect();
    let cases: [(&str, Vec<u8>, Option<u16>); 12] = [
        ("nothing", vec![], None),
        ("half a method", b"GE".to_vec(), None),
        ("half a request line", b"GET /hea".to_vec(), None),
        ("half a head", b"GET /health HTTP/1.1\r\nHost".to_vec(), None),
        ("no version", b"GET /health\r\n\r\n".to_vec(), Some(400)),
        ("a version from the future", b"GET /health HTTP/9.9\r\n\r\n".to_vec(), Some(400)),
        ("HTTP/2 without HTTP/1", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), None),
        ("a TLS greeting", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(), Some(400)),
        ("zeros", vec![0; 64], Some(400)),
        ("a header without a colon", b"GET /health HTTP/1.1\r\nHost\r\n\r\n".to_vec(), Some(400)),
        (
            "two lengths",
            b"GET /health HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n".to_vec(),
            Some(400),
        ),
        (
            "too many headers",
            format!("GET /health HTTP/1.1\r\n{many_headers}\r\n").into_bytes(),
            Some(431),
        ),
    ];
    for (what, bytes, expected) in cases {
        let answer = converse(&master, &bytes);
        assert_eq!(status(&answer), expected, "{what}: {answer}");
        assert_eq!(get(master.admin, "/health").status, 200, "after {what}");
    }
    master.assert_serves();
}

#[test]
fn heads_that_are_too_large() {
    let master = start();
    let long = "x".repeat(1 << 20);
    let cases = [
        format!("GET /health HTTP/1.1\r\nHost: {long}\r\n\r\n"),
        format!("GET /{long} HTTP/1.1\r\nHost: x\r\n\r\n"),
        format!("{long} /health HTTP/1.1\r\nHost: x\r\n\r\n"),
        long,
    ];
    for bytes in cases {
        let answer = converse(&master, bytes.as_bytes());
        // If the server closes with unread input, the kernel may send a reset in place of the answer.
        assert!(matches!(status(&answer), None | Some(400 | 414 | 431)), "{bytes:.40}: {answer}");
        assert_eq!(get(master.admin, "/health").status, 200);
    }
}

#[test]
fn a_request_target_as_long_as_they_get_is_served() {
    let master = start();
    let keys = vec!["k".repeat(4000); 16].join(",");
    let answer = get(master.admin, &format!("/batch_query_keys?keys={keys}"));
    assert_eq!(answer.status, 200);
}

#[test]
fn half_sent_requests_hold_nobody_up() {
    let master = start();
    let halves = [
        "",
        "GET /health HTTP/1.1\r\nHos",
        "POST /api/v1/remove_all HTTP/1.1\r\nContent-Length: 9\r\n\r\n",
    ];
    let open: Vec<TcpStream> = (0..120)
        .map(|i| {
            let mut stream = dial(master.admin);
            stream.write_all(halves[i % halves.len()].as_bytes()).expect("the server reads");
            stream
        })
        .collect();
    for _ in 0..20 {
        assert_eq!(get(master.admin, "/health").status, 200);
    }
    drop(open);
    master.assert_serves();
}

#[test]
fn a_body_that_never_comes_is_not_waited_for() {
    let master = start();
    let mut stream = dial(master.admin);
    stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a socket");
    stream
        .write_all(b"GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")
        .expect("the server reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer and the end");
    assert_eq!(status(&answer), Some(200), "{answer}");
}

#[test]
fn random_bytes_harm_nobody() {
    let mut next = random();
    let master = start();
    let request = b"GET /query_key?key=one HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    for round in 0..200 {
        let mut bytes = if round % 2 == 0 { request.to_vec() } else { Vec::new() };
        for _ in 0..next() % 8 {
            if !bytes.is_empty() {
                let at = next() as usize % bytes.len();
                bytes[at] = next() as u8;
            }
        }
        bytes.extend((0..next() % 200).map(|_| next() as u8));
        let answer = converse(&master, &bytes);
        assert!(answer.is_empty() || status(&answer).is_some(), "{bytes:?}: {answer}");
    }
    master.assert_serves();
}

/// Without the token, any client that reaches the port could empty the pool, or learn what it holds.
#[test]
fn what_changes_something_or_names_keys_and_nodes_needs_the_token() {
    let token = "a token";
    let master = start_with(Config { auth_token: token.into(), ..config() });
    let ask = |method: &str, path: &str, header: &str, body: &str| {
        let len = body.len();
        let head = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n");
        let request = format!("{head}Content-Length: {len}\r\n{header}\r\n{body}");
        let mut stream = dial(master.admin);
        stream.write_all(request.as_bytes()).expect("the server reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("the server answers and closes");
        (status(&answer), answer)
    };
    let wrong = [
        "",
        "Authorization: \r\n",
        "Authorization: Bearer\r\n",
        "Authorization: Bearer \r\n",
        "Authorization: Bearer a toke\r\n",
        "Authorization: Bearer a tokens\r\n",
        "Authorization: Basic a token\r\n",
        "Authorization: Bearer \u{e9}\u{e9}\r\n",
        "Authorisation: Bearer a token\r\n",
    ];
    let job = r#"{"segments":["none"]}"#;
    for (path, body, known) in [
        ("/api/v1/remove_all", "", 200),
        ("/api/v1/drain_jobs", job, 404),
        ("/api/v1/drain_jobs/cancel?job_id=1-1", "", 404),
        ("/api/v1/soft_pin", r#"{"keys":["k"],"ttl_ms":1}"#, 200),
        ("/api/v1/soft_unpin", r#"{"keys":["k"]}"#, 200),
    ] {
        for header in wrong {
            let (status, answer) = ask("POST", path, header, body);
            assert_eq!(status, Some(401), "{path} {header:?}");
            assert!(answer.contains("auth token") && answer.contains("-601"), "{answer}");
        }
        for header in ["Authorization: Bearer a token\r\n", "authorization: bearer a token\r\n"] {
            let (status, answer) = ask("POST", path, header, body);
            assert_eq!(status, Some(known), "{answer}");
        }
    }
    for path in ["/get_all_keys", "/get_segments_detail", "/api/v1/drain_jobs/query?job_id=1-1"] {
        assert_eq!(ask("GET", path, "", "").0, Some(401), "{path}");
        let (status, answer) = ask("GET", path, "Authorization: Bearer a token\r\n", "");
        assert!(matches!(status, Some(200 | 404)), "{answer}");
    }
    for path in ["/health", "/version", "/metrics", "/metrics/summary"] {
        let (status, answer) = ask("GET", path, "", "");
        assert_eq!(status, Some(200), "{answer}");
    }
}
