//! Drain jobs over HTTP, in the format of the C++ store.

use mooncake_types::{DrainStatus, Reply, Request, SegmentId, TaskOrder};
use serde_json::{Value, json};

use crate::support::{Answer, Rpc, Running, eventually, get, http_with, start};

fn post(master: &Running, path: &str, body: &Value) -> Answer {
    http_with(master.admin, "POST", path, body.to_string().as_bytes())
}

fn query(master: &Running, job: &str) -> Value {
    let answer = get(master.admin, &format!("/api/v1/drain_jobs/query?job_id={job}"));
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

fn status(master: &Running, segment: &str) -> String {
    let path = format!("/api/v1/segments/status?segment={segment}");
    let status = get(master.admin, &path).json();
    status["status_name"].as_str().expect("a name").to_owned()
}

fn create(master: &Running, body: &Value) -> String {
    let created = post(master, "/api/v1/drain_jobs", body);
    assert_eq!(created.status, 200, "{created:?}");
    let created = created.json();
    let job = created["job_id"].as_str().expect("an id").to_owned();
    assert_eq!(
        created,
        json!({"success": true, "job_id": job, "status": "CREATED", "error_code": 0,
               "error_message": ""})
    );
    job
}

fn fetch(rpc: &mut Rpc) -> Vec<TaskOrder> {
    match rpc.ask(&Request::FetchTasks { limit: 64, wait_ms: 0 }) {
        Reply::TasksFetched(fetched) => fetched.orders,
        other => panic!("{other:?}"),
    }
}

/// Two clients that lend `node-a` and `node-b`. The first holds two objects of 4096 bytes.
fn pool() -> (Running, Rpc, Rpc) {
    let master = start();
    let mut host = master.connect(1);
    host.mount(5, "node-a", 1 << 20);
    host.put(&["one", "two"], 4096);
    let mut other = master.connect(2);
    other.mount(6, "node-b", 1 << 20);
    (master, host, other)
}

#[test]
fn a_job_from_its_creation_to_its_end() {
    let (master, mut host, _other) = pool();
    let job = create(
        &master,
        &json!({"segments": ["node-a"], "target_segments": ["node-b"],
                                      "max_concurrency": 1}),
    );
    let (first, second) = job.split_once('-').expect("two numbers");
    assert!(first.parse::<u64>().is_ok() && second.parse::<u64>().is_ok(), "{job}");
    assert_eq!(status(&master, "node-a"), "DRAINING");
    let mut moved = 0;
    eventually("the drain", || {
        for order in fetch(&mut host) {
            assert_eq!(query(&master, &job)["active_units"], 1);
            let ended = Request::EndTask { id: order.id, outcome: Ok(()) };
            assert_eq!(host.ask(&ended), Reply::Done(Ok(())));
            moved += 1;
        }
        query(&master, &job)["status"] == json!(3)
    });
    assert_eq!(moved, 2);
    let mut ended = query(&master, &job);
    let (created_at, updated_at) = (
        ended["created_at_ms_epoch"].take().as_u64().expect("a moment"),
        ended["last_updated_at_ms_epoch"].take().as_u64().expect("a moment"),
    );
    assert!(
        created_at > 1_700_000_000_000 && updated_at >= created_at - 1,
        "{created_at} {updated_at}"
    );
    assert_eq!(
        ended,
        json!({"success": true, "job_id": job, "type": 0, "type_name": "DRAIN", "status": 3,
               "status_name": "SUCCEEDED", "created_at_ms_epoch": null,
               "last_updated_at_ms_epoch": null, "segments": ["node-a"], "succeeded_units": 2,
               "failed_units": 0, "blocked_units": 0, "active_units": 0, "migrated_bytes": 8192,
               "message": "Drain job finished successfully", "error_code": 0,
               "error_message": "", "released_units": 0, "remaining_units": 0,
               "remaining_bytes": 0})
    );
    assert_eq!(
        (status(&master, "node-a"), status(&master, "node-b")),
        ("DRAINED".into(), "OK".into())
    );
    let metrics = get(master.admin, "/metrics").body;
    for line in [
        "master_drain_jobs 0",
        "master_drain_moved_total 2",
        "master_drain_moved_bytes_total 8192",
        "master_drain_released_total 0",
        "master_drain_failures_total 0",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} is not in\n{metrics}");
    }
}

#[test]
fn a_job_that_is_canceled_gives_its_segments_back() {
    let (master, _host, _other) = pool();
    // The job sets no concurrency, so up to four units may run. The master ignores unknown fields.
    let job = create(&master, &json!({"segments": ["node-a"], "reason": "upgrade"}));
    eventually("units under way", || query(&master, &job)["active_units"] == 2);
    let path = format!("/api/v1/drain_jobs/cancel?job_id={job}");
    let canceled = post(&master, &path, &json!({}));
    assert_eq!(
        canceled.json(),
        json!({"success": true, "job_id": job, "status": "CANCELED", "error_code": 0,
               "error_message": ""})
    );
    assert_eq!(status(&master, "node-a"), "OK");
    let last = query(&master, &job);
    assert_eq!((&last["status_name"], &last["active_units"]), (&json!("CANCELED"), &json!(0)));
    let again = post(&master, &path, &json!({}));
    assert_eq!(again.status, 409);
    assert_eq!(
        again.json(),
        json!({"success": false, "error_code": -1010,
               "error_message": "UNAVAILABLE_IN_CURRENT_STATUS"})
    );
}

#[test]
fn what_makes_no_sense_is_refused() {
    let (master, _host, _other) = pool();
    let jobs = "/api/v1/drain_jobs";
    let unknown = "JOB_NOT_FOUND: the master that leads now knows of no such drain job; \
                   jobs end with the leader that took them";
    let bad_id = "Missing or invalid job_id";
    let cases: [(&str, &str, &str, u16, i32, &str); 16] = [
        ("POST", jobs, "{}", 400, -600, "INVALID_PARAMS"),
        ("POST", jobs, r#"{"segments": []}"#, 400, -600, "INVALID_PARAMS"),
        ("POST", jobs, r#"{"segments": ["node-a", "node-a"]}"#, 400, -600, "INVALID_PARAMS"),
        (
            "POST",
            jobs,
            r#"{"segments": ["node-a"], "max_concurrency": 0}"#,
            400,
            -600,
            "INVALID_PARAMS",
        ),
        (
            "POST",
            jobs,
            r#"{"segments": ["node-a"], "target_segments": ["node-a"]}"#,
            400,
            -600,
            "INVALID_PARAMS",
        ),
        ("POST", jobs, r#"{"segments": ["none"]}"#, 404, -101, "SEGMENT_NOT_FOUND"),
        (
            "POST",
            jobs,
            r#"{"segments": ["node-a"], "target_segments": ["none"]}"#,
            404,
            -101,
            "SEGMENT_NOT_FOUND",
        ),
        ("GET", "/api/v1/drain_jobs/query", "", 400, -600, bad_id),
        ("GET", "/api/v1/drain_jobs/query?job_id=", "", 400, -600, bad_id),
        ("GET", "/api/v1/drain_jobs/query?job_id=seven", "", 400, -600, bad_id),
        ("POST", "/api/v1/drain_jobs/cancel?job_id=1", "", 400, -600, bad_id),
        ("GET", "/api/v1/drain_jobs/query?job_id=1-2", "", 404, -1402, unknown),
        ("POST", "/api/v1/drain_jobs/cancel?job_id=1-2", "", 404, -1402, unknown),
        ("GET", "/api/v1/segments/status?segment=none", "", 404, -101, "SEGMENT_NOT_FOUND"),
        ("POST", "/api/v1/segments/undrain?segment=none", "", 404, -101, "SEGMENT_NOT_FOUND"),
        ("POST", "/api/v1/segments/undrain", "", 400, -600, "Missing segment query parameter"),
    ];
    for (method, path, body, status, code, message) in cases {
        let answer = http_with(master.admin, method, path, body.as_bytes());
        assert_eq!(answer.status, status, "{path} {body}: {answer:?}");
        assert_eq!(
            answer.json(),
            json!({"success": false, "error_code": code, "error_message": message}),
            "{path} {body}"
        );
    }
    for body in
        ["", "{", r#"{"segments": "node-a"}"#, r#"{"segments": ["a"], "max_concurrency": -1}"#]
    {
        let answer = http_with(master.admin, "POST", jobs, body.as_bytes());
        assert_eq!((answer.status, &answer.json()["error_code"]), (400, &json!(-600)), "{body}");
        let message = answer.json()["error_message"].to_string();
        assert!(message.starts_with("\"Invalid JSON body: "), "{body}: {message}");
    }
    assert_eq!(get(master.admin, jobs).json(), json!({"success": true, "jobs": []}));
    create(&master, &json!({"segments": ["node-a"]}));
    let listed = get(master.admin, jobs).json();
    assert_eq!(listed["jobs"][0]["segments"], json!(["node-a"]), "{listed}");
    let again = post(&master, jobs, &json!({"segments": ["node-a"]}));
    assert_eq!((again.status, &again.json()["error_code"]), (409, &json!(-1010)));
    let target =
        post(&master, jobs, &json!({"segments": ["node-b"], "target_segments": ["node-a"]}));
    assert_eq!(target.status, 409);
}

#[test]
fn a_node_asks_for_the_drain_of_its_own_segments() {
    let (_master, mut host, mut other) = pool();
    let ask = |rpc: &mut Rpc| rpc.ask(&Request::DrainSegments { segments: vec![SegmentId(5)] });
    assert!(matches!(ask(&mut other), Reply::Refused(_)));
    let Reply::Draining(first) = ask(&mut host) else { panic!("refused") };
    assert_eq!(first.segments, ["node-a"]);
    eventually("the drain", || {
        for order in fetch(&mut host) {
            host.ask(&Request::EndTask { id: order.id, outcome: Ok(()) });
        }
        let Reply::Draining(report) = ask(&mut host) else { panic!("refused") };
        assert_eq!(report.id, first.id);
        report.status == DrainStatus::Succeeded && report.moved_units == 2
    });
}
