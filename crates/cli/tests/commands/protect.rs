//! `stat` and `pin`.

use serde_json::json;

use crate::pool::Pool;

#[test]
fn an_objects_place_and_lease_are_told_and_not_changed() {
    let pool = Pool::start(&["--default_kv_lease_ttl=600s"]);
    pool.run_with(&["put", "a"], b"value").ok();
    let told = || pool.run(&["stat", "a", "--json"]).ok().json().remove(0);
    // To look twice grants no lease.
    for _ in 0..2 {
        let told = told();
        assert_eq!((&told["lease_ms"], &told["soft_pin_ms"]), (&json!(0), &json!(null)), "{told}");
    }
    let text = pool.run(&["stat", "a"]).ok();
    let node = &pool.node.address;
    assert!(text.text().starts_with("a\n  length     5 B (5 bytes)\n  version    "), "{text:?}");
    assert!(text.text().contains("\n  lease      none; not used for "), "{text:?}");
    assert!(
        text.text().ends_with(&format!("\n  pin        none\n  replica 0  memory on {node}\n")),
        "{text:?}"
    );
    pool.run(&["get", "a"]).ok();
    let told = told();
    assert!(told["lease_ms"].as_u64().is_some_and(|left| left > 500_000), "{told}");
    let ended = pool.run(&["stat", "x", "a"]).fails(3, "mooncake stat: there is no object \"x\"\n");
    assert!(ended.text().starts_with("a\n"), "{ended:?}");
    let told = pool.run(&["stat", "x", "--json"]).fails(3, "").json();
    assert_eq!(told, [json!({"key": "x", "error": "OBJECT_NOT_FOUND", "error_code": -704})]);
}

#[test]
fn without_admin_http_a_stat_asks_as_a_client() {
    let pool = Pool::start(&[]);
    pool.run_with(&["put", "a"], b"value").ok();
    let told =
        pool.run(&["stat", "a", "--json", "--master-http", "127.0.0.1:1"]).ok().json().remove(0);
    let node = &pool.node.address;
    assert_eq!(told["replicas"], json!([{"number": 0, "medium": "memory", "segments": [node]}]));
    assert_eq!(told.get("lease_ms"), None);
    let text = pool.run(&["stat", "a", "--master-http", "127.0.0.1:1"]).ok();
    assert!(!text.text().contains("lease"), "{text:?}");
}

#[test]
fn a_pin_begins_and_ends() {
    let pool = Pool::start(&["--default_kv_lease_ttl=1ms"]);
    pool.run_with(&["put", "a"], b"value").ok();
    let left = || pool.run(&["stat", "a", "--json"]).ok().json()[0]["soft_pin_ms"].as_u64();
    assert_eq!(pool.run(&["pin", "a", "--for", "2h"]).ok().text(), "");
    assert!(left().is_some_and(|ms| (7_000_000..=7_200_000).contains(&ms)));
    assert_eq!(
        pool.run(&["pin", "a", "--undo", "--json"]).ok().json(),
        [json!({"key": "a", "error_code": 0})]
    );
    let deadline = std::time::Instant::now() + mooncake_testing::PATIENCE;
    while left().is_some() {
        assert!(std::time::Instant::now() < deadline, "it stays pinned");
    }
    let both =
        pool.run(&["pin", "a", "x", "--json"]).fails(3, "mooncake pin: there is no object \"x\"");
    assert_eq!(both.json()[1], json!({"key": "x", "error_code": -704}));
    pool.run(&["pin", "a", "--for", "1000h"]).fails(1, "mooncake pin: \"a\": INVALID_PARAMS");
    pool.run(&["pin", "a", "--for", "soon"]).fails(2, "error: invalid value 'soon'");
}

#[test]
fn a_pool_with_a_token_wants_it() {
    let master = mooncake_testing::Master::start(crate::pool::MASTER, &["--auth_token=secret"]);
    let run = |args: &[&str]| {
        let mut command = crate::pool::mooncake(args);
        command.env("MOONCAKE_MASTER", &master.rpc).env("MOONCAKE_MASTER_HTTP", &master.admin);
        crate::pool::fed(command, b"")
    };
    run(&["pin", "a"]).fails(1, "mooncake pin: the master refused: ");
    run(&["pin", "a", "--auth-token=secret"]).fails(3, "mooncake pin: there is no object");
    run(&["exists", "a"]).fails(1, "mooncake exists: the master at ");
    run(&["exists", "a", "--auth-token=secret"]).fails(3, "");
}
