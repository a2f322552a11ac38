//! The admin HTTP server of a running master.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mooncake_types::{PutItem, PutStart, RangeDrop, Reply, Request, SegmentId, limits};
use mooncake_wire::{PROTOCOL_VERSION, SOFTWARE_VERSION};
use serde_json::json;

use crate::support::{Answer, PATIENCE, Rpc, Running, eventually, get, http, http_with, start};

/// A master with two segments under one name, one under another, and two objects.
fn filled() -> Running {
    let master = start();
    let mut rpc = master.connect(1);
    rpc.mount(5, "node-a", 1 << 20);
    rpc.put(&["one", "two words"], 4096);
    rpc.mount(6, "node-a", 1 << 20);
    rpc.mount(7, "node-b", 1 << 20);
    master
}

#[test]
fn who_serves() {
    let master = start();
    let health = get(master.admin, "/health");
    assert_eq!(health.status, 200);
    assert!(health.head.contains("content-type: application/json"), "{}", health.head);
    let epoch = master.connect(1).epoch.0;
    let address = format!("127.0.0.1:{}", master.rpc.port());
    assert_eq!(
        health.json(),
        json!({"status": "ok", "role": "leader", "ha_state": "serving", "service_ready": true,
               "version": SOFTWARE_VERSION, "protocol_version": PROTOCOL_VERSION,
               "leader_address": address, "view_version": epoch, "problems": ["no node lends memory"],
               "remedies": ["start nodes that lend memory, or end drains: the list of segments says which are closed"]})
    );
    assert_eq!(
        get(master.admin, "/version").json(),
        json!({"version": SOFTWARE_VERSION, "protocol_version": PROTOCOL_VERSION})
    );
    assert_eq!(
        get(master.admin, "/leader").json(),
        json!({"present": true, "leader_address": address, "view_version": epoch})
    );
    assert_eq!(get(master.admin, "/role").body, "leader");
    assert_eq!(get(master.admin, "/ha_status").body, "serving");
}

#[test]
fn one_key() {
    let master = filled();
    let found = get(master.admin, "/query_key?key=one");
    assert_eq!(found.status, 200);
    let mut told = found.json();
    let times = ["lease_ms", "idle_ms"].map(|name| told["object"][name].take().as_u64());
    assert!(times.iter().all(Option::is_some) && times.contains(&Some(0)), "{times:?}");
    let version = told["object"]["version"].take();
    let epoch = format!("{}.", master.connect(2).epoch);
    assert!(version.as_str().is_some_and(|version| version.starts_with(&epoch)), "{version}");
    assert_eq!(
        told,
        json!({"success": true, "data": [{"size_": 4096, "buffer_address_": 0, "protocol_": "tcp",
                                          "transport_endpoint_": "node-a"}],
               "object": {"version": null, "len_bytes": 4096, "lease_ms": null, "idle_ms": null,
                          "replicas": [{"number": 0, "medium": "memory", "segments": ["node-a"]}],
                          "hard_pin": false, "soft_pin_ms": null, "group": null}})
    );
    assert_eq!(get(master.admin, "/query_key?key=two%20words").status, 200);
    let missing = get(master.admin, "/query_key?key=three");
    assert_eq!(missing.status, 404);
    assert_eq!(
        missing.json(),
        json!({"success": false, "error_code": -704, "error_message": "OBJECT_NOT_FOUND"})
    );
}

#[test]
fn several_keys() {
    let master = filled();
    let body = get(master.admin, "/batch_query_keys?keys=one,three").json();
    let nothing = json!([]);
    assert_eq!(
        body,
        json!({"success": true, "data": {
            "one": {"ok": true, "error": null, "disk_values": nothing, "local_disk_values": nothing,
                    "nof_values": nothing, "object_store_values": nothing,
                    "values": [{"size_": 4096, "buffer_address_": 0, "protocol_": "tcp",
                                "transport_endpoint_": "node-a"}]},
            "three": {"ok": false, "error": "OBJECT_NOT_FOUND", "values": nothing,
                      "disk_values": nothing, "local_disk_values": nothing, "nof_values": nothing,
                      "object_store_values": nothing}}})
    );
}

#[test]
fn keys_with_commas_are_asked_for_one_by_one_or_as_json() {
    let master = filled();
    let ok = |answer: Answer| {
        let body = answer.json();
        let data = body["data"].as_object().expect("an object").clone();
        data.into_iter().map(|(key, it)| (key, it["ok"] == true)).collect::<Vec<_>>()
    };
    let expected = [("a,b".to_owned(), false), ("one".to_owned(), true)];
    assert_eq!(ok(get(master.admin, "/batch_query_keys?key=a,b&key=one")), expected);
    let post = |body: &[u8]| http_with(master.admin, "POST", "/batch_query_keys", body);
    assert_eq!(ok(post(br#"{"keys": ["a,b", "one"]}"#)), expected);
    let mixed = ok(get(master.admin, "/batch_query_keys?key=a,b&keys=one,x"));
    assert_eq!((mixed.len(), &mixed[..2]), (3, &expected[..]));
    for body in ["", "[]", "{}", r#"{"keys": []}"#, r#"{"keys": "a"}"#, r#"{"keys": [1]}"#] {
        assert_eq!(post(body.as_bytes()).status, 400, "{body}");
    }
    let many = vec!["k"; limits::MAX_BATCH_KEYS + 1];
    assert_eq!(post(json!({ "keys": many }).to_string().as_bytes()).status, 400);
}

#[test]
fn all_keys_over_several_pages() {
    let master = start();
    let mut rpc = master.connect(1);
    rpc.mount(5, "node-a", 64 << 20);
    let keys: Vec<String> = (0..5000).map(|i| format!("key-{i:05}")).collect();
    for batch in keys.chunks(1000) {
        rpc.put(&batch.iter().map(String::as_str).collect::<Vec<_>>(), 64);
    }
    let answer = get(master.admin, "/get_all_keys");
    assert_eq!(answer.status, 200);
    let mut found: Vec<&str> = answer.body.lines().collect();
    found.sort_unstable();
    assert_eq!(found, keys);
}

#[test]
fn keys_that_hold_line_ends_are_told_apart_and_can_be_chosen() {
    let master = start();
    let mut rpc = master.connect(1);
    rpc.mount(5, "node-a", 64 << 20);
    let mut keys = vec!["b \"quoted\"", "a\nb", "a", "\u{e4}"];
    rpc.put(&keys, 64);
    keys.sort_unstable();
    let list = |query: &str| {
        let answer = get(master.admin, &format!("/get_all_keys?{query}"));
        assert!(answer.head.contains("content-type: application/json"), "{}", answer.head);
        let answer = answer.json();
        assert_eq!(answer["success"], true);
        let list = answer["data"].as_array().expect("a list").clone();
        let mut list: Vec<String> =
            list.iter().map(|key| key.as_str().expect("a key").to_owned()).collect();
        list.sort_unstable();
        list
    };
    assert_eq!(list("format=json"), keys);
    assert_eq!(list("format=json&prefix=a"), ["a", "a\nb"]);
    assert_eq!(list("format=json&prefix=none"), [""; 0]);
    assert_eq!(list("format=json&limit=3").len(), 3);
    assert_eq!(list("format=json&limit=0"), [""; 0]);
    assert_eq!(get(master.admin, "/get_all_keys?prefix=b").body, "b \"quoted\"\n");
    for (query, reason) in [("format=xml", "format is 'xml'"), ("limit=-1", "limit is '-1'")] {
        let answer = get(master.admin, &format!("/get_all_keys?{query}"));
        assert_eq!(answer.status, 400);
        assert!(answer.body.contains(reason), "{}", answer.body);
    }
}

#[test]
fn a_client_that_closed_is_not_active() {
    let master = start();
    let active = |count: u32| {
        let wanted = format!("master_active_clients {count}\n");
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
        while !get(master.admin, "/metrics").body.contains(&wanted) {
            assert!(std::time::Instant::now() < deadline, "not {count} active clients");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    };
    let ping = Request::Ping { segments: vec![], unreachable: vec![], reads: None };
    let (mut first, mut second) = (master.connect(1), master.connect(2));
    first.ask(&ping);
    second.ask(&ping);
    active(2);
    drop(first);
    active(1);
    master.connect(1).ask(&ping);
    drop(second);
    active(0);
}

#[test]
fn segments() {
    let master = filled();
    assert_eq!(get(master.admin, "/get_all_segments").body, "node-a\nnode-b\n");
    assert_eq!(
        get(master.admin, "/query_segment?segment=node-a").body,
        "node-a\nUsed(bytes): 8192\nCapacity(bytes) : 2097152\n"
    );
    let missing = get(master.admin, "/query_segment?segment=nowhere");
    assert_eq!(missing.status, 404);
    assert_eq!(
        missing.json(),
        json!({"success": false, "error_code": -101, "error_message": "SEGMENT_NOT_FOUND"})
    );
    let details = get(master.admin, "/get_segments_detail").json();
    assert_eq!(details["total_segments"], 3);
    assert_eq!(
        details["segments"][0],
        json!({"segment_name": "node-a", "segment_id": format!("{:032x}", 5), "client_id": "00000000",
               "base_address": "0x0", "size_bytes": 1 << 20, "size_human": "0.0009765625 GiB",
               "te_endpoint": "127.0.0.1:1", "domains": [], "protocol": "tcp", "medium": "memory", "status": "OK", "in_sight": true,
               "reachable": true,
               "allocator_used_bytes": 8192, "allocator_capacity_bytes": 1 << 20,
               "allocator_usage_percent": 0.78125})
    );
    assert_eq!(
        get(master.admin, "/api/v1/segments/status?segment=node-b").json(),
        json!({"success": true, "segment": "node-b", "status": 1, "status_name": "OK",
               "error_code": 0, "error_message": ""})
    );
}

/// A node thread that drops the entries that the master names to client 1, until this is dropped.
struct Node {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Node {
    fn start(master: &Running) -> Self {
        let mut rpc = master.connect(1);
        let is_over = Arc::new(AtomicBool::new(false));
        let of_thread = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            let mut dropped = Vec::new();
            while !of_thread.load(Ordering::SeqCst) {
                dropped = fetch_drops(&mut rpc, std::mem::take(&mut dropped));
                thread::sleep(Duration::from_millis(5));
            }
        });
        Self { is_over, thread: Some(thread) }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            // If the thread panicked, the test has failed while it waited for the node.
            let _ = thread.join();
        }
    }
}

fn fetch_drops(rpc: &mut Rpc, dropped: Vec<RangeDrop>) -> Vec<RangeDrop> {
    match rpc.ask(&Request::FetchDrops { dropped, limit: 100 }) {
        Reply::Drops(drops) => drops,
        other => panic!("{other:?}"),
    }
}

/// An earlier answer would be wrong: a later leader could find entries that are not dropped.
#[test]
fn remove_all_answers_when_the_nodes_have_dropped_what_went() {
    let master = filled();
    let admin = master.admin;
    let answer = thread::spawn(move || http(admin, "POST", "/api/v1/remove_all"));
    let mut node = master.connect(1);
    let begun = Instant::now();
    let mut named = Vec::new();
    while named.len() < 2 {
        named = fetch_drops(&mut node, Vec::new());
        assert!(begun.elapsed() < PATIENCE, "nothing is to be dropped");
    }
    let last = named.pop().expect("there are two");
    fetch_drops(&mut node, named);
    // By the time that this request is answered, the removal would be too, if it did not wait.
    assert_eq!(get(admin, "/get_all_keys").body, "");
    assert!(!answer.is_finished(), "one is still there");
    fetch_drops(&mut node, vec![last]);
    let answer = answer.join().expect("it is answered");
    assert_eq!((answer.status, answer.json()["removed_count"].as_u64()), (200, Some(2)));
}

/// If this node returns, its segment starts empty. So no removal waits for it.
#[test]
fn remove_all_does_not_wait_for_a_node_that_is_out_of_sight() {
    let master = start();
    let mut node = master.connect(1);
    node.mount(5, "node-a", 1 << 20);
    node.put(&["one"], 4096);
    node.ask(&Request::Ping { segments: vec![SegmentId(5)], unreachable: vec![], reads: None });
    drop(node);
    let begun = Instant::now();
    while get(master.admin, "/get_segments_detail").json()["segments"][0]["in_sight"] == true {
        assert!(begun.elapsed() < PATIENCE, "it is in sight");
    }
    let answer = http(master.admin, "POST", "/api/v1/remove_all");
    assert_eq!((answer.status, answer.json()["removed_count"].as_u64()), (200, Some(1)));
    assert!(begun.elapsed() < PATIENCE);
}

#[test]
fn remove_all_skips_what_is_leased_unless_forced() {
    let master = filled();
    let _node = Node::start(&master);
    let mut rpc = master.connect(1);
    rpc.ask(&Request::GetReplicaList { keys: vec!["one"] });
    let remove = |query: &str| http(master.admin, "POST", &format!("/api/v1/remove_all{query}"));
    assert_eq!(remove("").json(), json!({"success": true, "removed_count": 1}));
    assert_eq!(remove("?force=false").json(), json!({"success": true, "removed_count": 0}));
    assert_eq!(
        remove("?force&tenant_id=blue").json(),
        json!({"success": true, "removed_count": 0})
    );
    assert_eq!(
        remove("?force&tenant_id=default").json(),
        json!({"success": true, "removed_count": 1})
    );
    assert_eq!(
        rpc.ask(&Request::exist(vec!["one", "two words"])),
        Reply::Exist(vec![Ok(false), Ok(false)])
    );
}

#[test]
fn what_makes_no_sense_is_refused_in_json() {
    let master = start();
    let cases = [
        ("GET", "/nowhere", 404, -600, "there is no /nowhere"),
        ("POST", "/", 405, -600, "/ does not take POST"),
        ("POST", "/metrics", 405, -600, "/metrics does not take POST"),
        ("GET", "/api/v1/remove_all", 405, -600, "/api/v1/remove_all does not take GET"),
        ("GET", "/query_by_regex", 400, -600, "Missing regex query parameter"),
        ("POST", "/api/v1/remove_by_regex", 400, -600, "Missing regex query parameter"),
        ("GET", "/query_key", 400, -600, "Missing key query parameter"),
        ("GET", "/query_key?key=", 400, -600, "Missing key query parameter"),
        ("GET", "/query_segment", 400, -600, "Missing segment query parameter"),
        ("GET", "/api/v1/segments/status", 400, -600, "Missing segment query parameter"),
        (
            "GET",
            "/batch_query_keys",
            400,
            -600,
            "No keys provided. Use ?keys=key1,key2,... or ?key=key1&key=key2&...",
        ),
        (
            "POST",
            "/api/v1/remove_all?force=maybe",
            400,
            -600,
            "force is 'maybe'; it must be true or false",
        ),
        (
            "POST",
            "/api/v1/remove_all?tenant_id=_blue",
            400,
            -600,
            "tenant_id \"_blue\": a tenant has a name of 1 to 128 bytes that does not begin with '_' and has no \
             control characters",
        ),
        (
            "GET",
            "/api/v1/tenant_quotas",
            409,
            -1011,
            "tenants have no quotas here: start the master with --enable_multi_tenants",
        ),
    ];
    for (method, path, status, code, message) in cases {
        let answer = http(master.admin, method, path);
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        assert_eq!(
            answer.json(),
            json!({"success": false, "error_code": code, "error_message": message}),
            "{path}"
        );
    }
    master.assert_serves();
}

#[test]
fn keys_are_soft_pinned_and_unpinned() {
    let master = filled();
    let pinned = || {
        let body = get(master.admin, "/metrics").body;
        let line = body.lines().find_map(|line| line.strip_prefix("master_soft_pin_key_count "));
        line.expect("it is there").to_owned()
    };
    let post = |path: &str, body: &str| {
        http_with(master.admin, "POST", &format!("/api/v1/{path}"), body.as_bytes())
    };
    let keys = r#""keys": ["one", "none", ""]"#;
    let expected = json!({"results": [{"key": "one", "error_code": 0}, {"key": "none", "error_code": -704},
                                      {"key": "", "error_code": -400}]});
    let answer = post("soft_pin", &format!("{{{keys}, \"ttl_ms\": 60000}}"));
    assert_eq!((answer.status, answer.json(), pinned()), (200, expected.clone(), "1".to_owned()));
    let answer = post("soft_unpin", &format!("{{{keys}, \"tenant_id\": \"default\"}}"));
    assert_eq!((answer.status, answer.json()), (200, expected));
    eventually("the pin ends with the lease that it granted", || pinned() == "0");
    let others = post("soft_pin", r#"{"keys": ["one"], "ttl_ms": 1, "tenant_id": "blue"}"#).json();
    assert_eq!(others, json!({"results": [{"key": "one", "error_code": -704}]}));
    let too_long = post("soft_pin", r#"{"keys": ["one"], "ttl_ms": 604800001}"#).json();
    assert_eq!(too_long, json!({"results": [{"key": "one", "error_code": -600}]}));
    for (path, body, message) in [
        ("soft_pin", "", "Invalid JSON body"),
        ("soft_pin", "[1]", "Invalid JSON body"),
        ("soft_pin", r#"{"keys": ["a"]}"#, "needs ttl_ms"),
        ("soft_pin", r#"{"keys": ["a"], "ttl_ms": -1}"#, "Invalid JSON body"),
        ("soft_pin", r#"{"ttl_ms": 1}"#, "0 keys"),
        ("soft_pin", r#"{"keys": ["a"], "ttl_ms": 1, "tenant_id": "_t"}"#, "a tenant has a name"),
        ("soft_unpin", r#"{"keys": ["a"], "ttl_ms": 1}"#, "takes no ttl_ms"),
    ] {
        let answer = post(path, body);
        assert!(answer.body.contains(message), "{body}: {}", answer.body);
        assert_eq!((answer.status, answer.json()["error_code"].clone()), (400, json!(-600)));
    }
}

#[test]
fn metrics_have_the_names_that_dashboards_know() {
    let master = filled();
    let mut rpc = master.connect(1);
    rpc.ask(&Request::GetReplicaList { keys: vec!["one"] });
    rpc.ask(&Request::exist(vec!["one", "", "three"]));
    let answer = get(master.admin, "/metrics");
    assert!(
        answer.head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"),
        "{}",
        answer.head
    );
    let expected = [
        "master_allocated_bytes 8192",
        "master_total_capacity_bytes 3145728",
        "master_key_count 2",
        "master_soft_pin_key_count 0",
        "master_active_clients 1",
        "segment_allocated_bytes{segment=\"node-a\"} 8192",
        "segment_total_capacity_bytes{segment=\"node-a\"} 2097152",
        "segment_total_capacity_bytes{segment=\"node-b\"} 1048576",
        "mem_cache_nums_ 2",
        "file_cache_hit_nums_ 0",
        "master_mount_segment_requests_total 3",
        "master_get_replica_list_requests_total 1",
        "master_get_replica_list_failures_total 0",
        "master_batch_put_start_requests_total 1",
        "master_batch_put_start_items_total 2",
        "master_batch_exist_key_requests_total 1",
        "master_batch_exist_key_items_total 3",
        "master_batch_exist_key_failed_items_total 1",
        "master_batch_exist_key_partial_successes_total 1",
        "master_ping_requests_total 0",
        "master_attempted_evictions_total 0",
        "master_successful_evictions_total 0",
        "master_evicted_key_count 0",
        "master_evicted_size_bytes 0",
        "master_attempted_evictions_mem 0",
        "master_promotion_in_flight 0",
        "master_remount_segment_requests_total 0",
        "valid_get_nums_ 0",
        "master_put_start_discard_cnt 0",
        "master_put_start_release_cnt 0",
        "master_put_start_alloc_failures_total 0",
        "master_put_start_partial_allocations_total 0",
        "master_value_size_bytes_count 2",
        "master_value_size_bytes_sum 8192.0",
        "master_value_size_bytes_bucket{le=\"1024.0\"} 0",
        "master_value_size_bytes_bucket{le=\"+Inf\"} 2",
        "master_operation_latency_seconds_count{operation=\"batch_exist_key\"} 1",
        "# TYPE master_key_count gauge",
        "# TYPE master_get_replica_list_requests_total counter",
        "# TYPE master_operation_latency_seconds histogram",
    ];
    let lines: Vec<&str> = answer.body.lines().collect();
    for line in expected {
        assert!(lines.contains(&line), "{line} is missing in\n{}", answer.body);
    }
    assert!(
        !answer.body.contains("# EOF") && !answer.body.contains("total_total"),
        "{}",
        answer.body
    );
    let names: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    let mut unique = names.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), names.len(), "a metric is described twice");
}

#[test]
fn clients_in_sight_and_puts_of_taken_keys_are_counted() {
    let master = filled();
    let mut rpc = master.connect(1);
    let put = |key| PutItem::new(key, 1);
    for puts in [vec![put("one")], vec![put("one"), put("")]] {
        rpc.ask(&Request::PutStart(PutStart { puts, ..PutStart::default() }));
    }
    let body = get(master.admin, "/metrics").body;
    for line in [
        "master_client_liveness_active_clients 1",
        "master_client_liveness_suspected_clients 0",
        "master_batch_put_start_object_already_exists_total 1",
        "master_put_start_object_already_exists_total 1",
    ] {
        assert!(body.lines().any(|it| it == line), "{line} is missing in\n{body}");
    }
}

/// What the panels of the C++ master's dashboard ask for, but for NVMe-oF and snapshots, which are absent here.
#[test]
fn each_panel_of_the_dashboard_has_its_metrics() {
    let operations = [
        "batch_exist_key:items",
        "batch_get_replica_list:items",
        "batch_put_end:items",
        "batch_put_revoke",
        "batch_put_start:items",
        "batch_query_ip:items",
        "batch_replica_clear:items",
        "copy_end:failures",
        "copy_revoke",
        "copy_start:failures",
        "create_copy_task:failures",
        "create_move_task:failures",
        "evict_disk_replica",
        "exist_key:failures",
        "fetch_tasks",
        "get_replica_list:failures",
        "get_replica_list_by_regex:failures",
        "mount_segment",
        "move_end:failures",
        "move_revoke",
        "move_start:failures",
        "ping:failures",
        "put_end:failures",
        "put_revoke:failures",
        "put_start:failures",
        "query_task",
        "remount_segment",
        "remove:failures",
        "remove_all:failures",
        "remove_by_regex:failures",
        "unmount_segment",
        "update_task",
    ];
    let of_operations = operations.iter().flat_map(|it| {
        let (name, more) = it.split_once(':').unwrap_or((it, "requests"));
        ["requests", more].map(|what| format!("master_{name}_{what}_total"))
    });
    let others = "file_cache_hit_bytes_total file_cache_hit_nums_ file_cache_nums_ master_active_clients \
        master_allocated_bytes master_allocated_file_size_bytes master_attempted_evictions_mem \
        master_attempted_evictions_total master_evicted_key_count master_evicted_key_count_mem \
        master_evicted_size_bytes master_evicted_size_bytes_mem master_key_count \
        master_promotion_admitted_total master_promotion_cancelled_total \
        master_promotion_completed_bytes_total master_promotion_completed_total \
        master_promotion_expired_total master_promotion_failed_total master_promotion_in_flight \
        master_promotion_rejected_cap_total master_promotion_rejected_frequency_total \
        master_promotion_rejected_watermark_total master_put_start_alloc_failures_total \
        master_put_start_discard_cnt master_put_start_discarded_staging_size \
        master_put_start_release_cnt master_soft_pin_key_count master_successful_evictions_mem \
        master_successful_evictions_total master_total_capacity_bytes \
        master_total_file_capacity_bytes mem_cache_hit_bytes_total mem_cache_hit_nums_ mem_cache_nums_ \
        total_get_nums_ valid_get_nums_ \
        master_client_liveness_active_clients master_client_liveness_suspected_clients \
        master_client_liveness_offline_clients master_client_liveness_suspected_transitions_total \
        master_client_liveness_recoveries_total master_client_liveness_offline_transitions_total \
        master_client_offboarding_queue_depth master_client_offboarding_retries_total \
        master_client_offboarding_alerts_total master_offload_enqueued_total master_offload_completed_total \
        master_offload_failed_total master_offload_cancelled_total master_offload_enqueue_rejected_total \
        master_put_start_object_already_exists_total master_batch_put_start_object_already_exists_total \
        mooncake_process_rss_bytes mooncake_process_rss_peak_bytes mooncake_process_rss_anon_bytes \
        mooncake_process_rss_file_bytes mooncake_process_rss_shmem_bytes mooncake_process_vsize_bytes \
        mooncake_process_swap_bytes";
    let body = get(filled().admin, "/metrics").body;
    let missing: Vec<String> = of_operations
        .chain(others.split_whitespace().map(str::to_owned))
        .filter(|name| !body.lines().any(|line| line.starts_with(&format!("{name} "))))
        .collect();
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn the_summary_is_one_line() {
    let master = filled();
    let summary = get(master.admin, "/metrics/summary").body;
    let start = "role=leader, state=serving, service_ready=true, master={Mem Storage: 8.00 KB / 3.00 MB (0.3%) | \
                 SSD Storage: 0 B / 0 B | Keys: 2 (soft-pinned: 0) | Clients: 1 | Requests ";
    assert!(summary.starts_with(start), "{summary}");
    assert_eq!(summary.lines().count(), 1);
}

#[test]
fn objects_that_a_regular_expression_finds() {
    let master = filled();
    let mut rpc = master.connect(1);
    let keys: Vec<String> = (0..3000).map(|n| format!("many/{n}")).collect();
    for keys in keys.chunks(500) {
        rpc.put(&keys.iter().map(String::as_str).collect::<Vec<_>>(), 8);
    }
    let found = |query: &str| -> Vec<String> {
        let answer = get(master.admin, &format!("/query_by_regex?{query}"));
        assert_eq!(answer.status, 200, "{query}: {}", answer.body);
        let answer = answer.json();
        assert_eq!(answer["success"], json!(true));
        let data = answer["data"].as_object().expect("a map");
        assert!(data.values().all(|replicas| replicas["values"][0]["size_"].is_u64()), "{query}");
        data.keys().cloned().collect()
    };
    assert_eq!(found("regex=%5Eone%24"), ["one"]);
    assert_eq!(found("regex=wo&prefix=t"), ["two words"]);
    assert_eq!(found("regex=%5Enothing"), [""; 0]);
    assert_eq!(found("regex=%5Emany/").len(), 3000);
    assert_eq!(found("regex=%5Emany/%5B0-9%5D%2B7%24").len(), 299);
    assert_eq!(found("regex=many&limit=5").len(), 5);
    assert_eq!(found("regex=many&limit=0").len(), 0);
    for query in ["", "regex=", "regex=%28", "regex=a&limit=x", "regex=%28%3F%3Da%29"] {
        let refused = get(master.admin, &format!("/query_by_regex?{query}"));
        assert_eq!(refused.status, 400, "{query}: {}", refused.body);
    }
}

#[test]
fn what_a_regular_expression_finds_is_removed() {
    let master = filled();
    let _node = Node::start(&master);
    let mut rpc = master.connect(1);
    rpc.put(&["three", "two/1", "two/2"], 8);
    rpc.ask(&Request::GetReplicaList { keys: vec!["two/2"] });
    let remove =
        |query: &str| http(master.admin, "POST", &format!("/api/v1/remove_by_regex?{query}"));
    let left = || {
        let body = get(master.admin, "/get_all_keys").body;
        let mut keys: Vec<String> = body.lines().map(str::to_owned).collect();
        keys.sort();
        keys.join(",")
    };
    assert_eq!(remove("regex=%5Etwo/").json(), json!({"success": true, "removed_count": 1}));
    assert_eq!(left(), "one,three,two words,two/2", "one has a lease");
    let forced = remove("regex=%5Etwo/&force");
    assert_eq!(forced.json(), json!({"success": true, "removed_count": 1}));
    for query in ["", "regex=", "regex=%5Bz-a%5D", "regex=a&force=perhaps"] {
        let refused = remove(query);
        assert_eq!(refused.status, 400, "{query}: {}", refused.body);
    }
    assert_eq!(left(), "one,three,two words");
}
