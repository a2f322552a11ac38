use mooncake_client::SegmentId;

use super::master::{Master, Trouble};
use super::report::{Pool, json, problems, text};
use crate::drain::api::Progress;
use crate::segment_list::ListedSegment;

const GIB: u64 = 1 << 30;

fn master(http: &str, health: &str) -> Master {
    let health = serde_json::from_str(health).map_err(|error| error.to_string());
    Master { http: http.to_owned(), health }
}

fn report(masters: &[Master], pool: Option<&Pool>) -> (String, Vec<Trouble>) {
    let problems = problems(masters, pool);
    (text(masters, pool, &problems), problems)
}

fn texts(problems: &[Trouble]) -> Vec<&str> {
    problems.iter().map(|problem| &*problem.text).collect()
}

fn leader(state: &str) -> Master {
    let health = format!(
        r#"{{"status":"ok","role":"leader","ha_state":"{state}","service_ready":true,
            "leader_address":"m1:50051","view_version":7}}"#
    );
    master("m1:9003", &health)
}

fn standby() -> Master {
    let health = r#"{"status":"ok","role":"standby","ha_state":"standby","service_ready":false,
        "leader_address":"m1:50051","view_version":7,
        "following":{"is_warm":true,"segments":2,"known_segments":1,"entries":9}}"#;
    master("m2:9003", health)
}

fn segment(name: &str, medium: &str, used_bytes: u64) -> ListedSegment {
    ListedSegment {
        id: SegmentId(1),
        name: name.to_owned(),
        endpoint: "n1:15000".to_owned(),
        medium: medium.to_owned(),
        state: "OK".to_owned(),
        is_in_sight: true,
        is_reachable: true,
        used_bytes,
        len_bytes: 4 * GIB,
        domains: Vec::new(),
    }
}

fn drain() -> Progress {
    serde_json::from_str(
        r#"{"job_id":"1-2","status_name":"RUNNING","segments":["n1:1"],"succeeded_units":3,"failed_units":0,
            "blocked_units":0,"active_units":0,"migrated_bytes":1048576,"message":"","remaining_units":4}"#,
    )
    .unwrap()
}

#[test]
fn all_of_it_is_told_as_json() {
    let pool = Pool {
        object_count: Some(12),
        segments: vec![segment("n1:1", "memory", GIB)],
        drains: vec![drain()],
    };
    let silent = Master { http: "m3:9003".to_owned(), health: Err("it hangs".to_owned()) };
    let masters = [leader("serving"), standby(), silent];
    let told = json(&masters, Some(&pool), &problems(&masters, Some(&pool)));
    let check = |pointer: &str, expected: serde_json::Value| {
        assert_eq!(told.pointer(pointer), Some(&expected), "{pointer}");
    };
    check("/masters/0/role", "leader".into());
    check("/masters/0/epoch", 7.into());
    check("/masters/1/following/known_segments", 1.into());
    check("/masters/2", serde_json::json!({"http": "m3:9003", "error": "it hangs"}));
    check("/objects", 12.into());
    check("/segments/0/used_bytes", GIB.into());
    check("/drains/0/job", "1-2".into());
    check("/drains/0/moved_bytes", (1 << 20).into());
    check("/drains/0/left", 4.into());
    check("/problems", serde_json::json!([{"text": "it hangs", "remedy": ""}]));
    let unknown = json(&masters[1..], None, &[]);
    assert!(unknown["objects"].is_null() && unknown["segments"].is_null());
}

#[test]
fn a_pool_without_problems() {
    let segments = vec![
        segment("n1:50052", "memory", GIB),
        ListedSegment { domains: vec!["rack=7".to_owned()], ..segment("n2:1", "memory", 0) },
        segment("n1:50052", "disk", 0),
    ];
    let pool = Pool { object_count: Some(12), segments, drains: Vec::new() };
    let text = "masters
  m1:9003  leader   serving  m1:50051, epoch 7
  m2:9003  standby  standby  knows the ledgers of 1 of 2 segments
pool
  objects  12
  memory   1 GB of 8 GB (12.5%) in 2 segments
  disk     0 B of 4 GB (0.0%) in 1 segment
segments
  n1:50052  memory  OK  1 GB of 4 GB (25.0%)
  n2:1      memory  OK  0 B of 4 GB (0.0%)    rack=7
  n1:50052  disk    OK  0 B of 4 GB (0.0%)
";
    assert_eq!(report(&[leader("serving"), standby()], Some(&pool)), (text.to_owned(), Vec::new()));
}

#[test]
fn problems_are_listed_at_the_end() {
    let absent = Master { http: "m3:9003".to_owned(), health: Err("cannot reach it".to_owned()) };
    let segments = vec![
        ListedSegment { is_in_sight: false, ..segment("n1", "disk", 0) },
        ListedSegment { is_reachable: false, ..segment("n2", "disk", 0) },
    ];
    let pool = Pool { object_count: None, segments, drains: Vec::new() };
    let (text, problems) = report(&[leader("recovering"), absent], Some(&pool));
    let expected = [
        "the leader is recovering: puts and removals are tried for a while, and then fail with -1010",
        "cannot reach it",
        "no node lends memory",
        "disk of n1: its node does not ping; what lies there cannot be read",
        "disk of n2: the master cannot reach it at n1:15000",
    ];
    assert_eq!(texts(&problems), expected);
    let text_of_masters = "masters
  m1:9003  leader     recovering  m1:50051, epoch 7
  m3:9003  no answer
pool
  disk  0 B of 4 GB (0.0%) in 1 segment
segments
  n1  disk  OK  0 B of 4 GB (0.0%)  out of sight
  n2  disk  OK  0 B of 4 GB (0.0%)  unreachable
problems
";
    assert!(text.starts_with(text_of_masters), "{text}");
    let last = "  disk of n2: the master cannot reach it at n1:15000\n    look at the --host or --advertise_address of the \
                node, and at firewalls\n";
    assert!(text.ends_with(last), "{text}");
}

#[test]
fn a_pool_without_segments() {
    let pool = Pool { object_count: Some(0), segments: Vec::new(), drains: Vec::new() };
    let text = "masters
  m1:9003  leader  serving  m1:50051, epoch 7
pool
  objects  0
segments
  none
problems
  no node lends memory
";
    let (told, problems) = report(&[leader("serving")], Some(&pool));
    assert_eq!((&*told, texts(&problems)), (text, vec!["no node lends memory"]));
}

#[test]
fn the_version_and_the_protocol_of_each_master_are_told() {
    let told = r#"{"status":"ok","version":"1.2.3","protocol_version":9,"role":"standby",
        "ha_state":"candidate","leader_address":null,"view_version":null}"#;
    let (text, _) = report(&[leader("serving"), master("m2:9003", told)], None);
    assert!(text.contains("m2:9003  standby  candidate  version 1.2.3, protocol 9\n"), "{text}");
}

#[test]
fn standbys_alone_are_a_problem() {
    let candidate = r#"{"status":"ok","role":"standby","ha_state":"candidate","service_ready":false,
        "leader_address":null,"view_version":null}"#;
    let named = "the master that leads serves clients at m1:50051: name its admin server, too";
    for (master, problem) in [(standby(), named), (master("m2:9003", candidate), "no master leads")]
    {
        let (text, problems) = report(&[master], None);
        assert_eq!(texts(&problems), [problem]);
        assert!(text.ends_with(&format!("problems\n  {problem}\n")), "{text}");
    }
}

#[test]
fn what_the_leader_finds_wrong_and_what_is_drained_is_told() {
    let health = r#"{"status":"ok","role":"leader","ha_state":"suspended","service_ready":false,
        "leader_address":"m1:50051","view_version":7,"reason":"no coordinator since 9 s: etcd is silent",
        "problems":["100 objects have fewer replicas than were asked for","another"],"remedies":["add a node"]}"#;
    let drain = drain();
    // The leader names a lack of memory itself.
    let pool = Pool { object_count: None, segments: Vec::new(), drains: vec![drain] };
    let candidate = r#"{"status":"ok","role":"standby","ha_state":"candidate","service_ready":false,
        "reason":"no coordinator since 8 s: etcd is silent"}"#;
    let masters = [master("m1:9003", health), master("m2:9003", candidate)];
    let (text, problems) = report(&masters, Some(&pool));
    assert!(
        text.contains("drains\n  1-2  n1:1  RUNNING: 3 moved (1 MB), 4 left\nproblems\n"),
        "{text}"
    );
    let expected = [
        "the leader is suspended (no coordinator since 9 s: etcd is silent): puts and removals are tried for a while, \
         and then fail with -1010",
        "m2:9003: no coordinator since 8 s: etcd is silent",
        "100 objects have fewer replicas than were asked for",
        "another",
    ];
    assert!(text.ends_with("than were asked for\n    add a node\n  another\n"), "{text}");
    assert_eq!(texts(&problems), expected);
}

#[test]
fn a_leader_that_was_named_and_does_not_answer_is_not_asked_to_be_named() {
    let silent = Master { http: "m1:9003".to_owned(), health: Err("it hangs".to_owned()) };
    let (_, problems) = report(&[silent, standby()], None);
    let expected =
        "the master that leads serves clients at m1:50051, and its admin server gave no answer";
    assert_eq!(texts(&problems), ["it hangs", expected]);
}

#[test]
fn an_answer_that_is_no_masters_is_a_problem() {
    let strange = master("m1:9003", "hello");
    assert!(!strange.leads());
    assert!(strange.problem().is_some());
}
