//! The tenant whose keys commands name.

use serde_json::json;

use crate::pool::{Ended, Pool, fed};

/// Runs a command with `MOONCAKE_TENANT_ID`.
fn run_as(pool: &Pool, tenant: &str, args: &[&str], input: &[u8]) -> Ended {
    let mut command = pool.command(args);
    command.env("MOONCAKE_TENANT_ID", tenant);
    fed(command, input)
}

#[test]
fn commands_name_the_keys_of_the_tenant_of_the_flag_or_the_variable() {
    let pool = Pool::start(&["--default_kv_lease_ttl=1ms"]);
    pool.run_with(&["put", "a"], b"own").ok();
    pool.run_with(&["put", "a", "--tenant", "blue"], b"blue").ok();
    run_as(&pool, "red", &["put", "b"], b"red").ok();

    assert_eq!(pool.run(&["get", "a"]).ok().text(), "own");
    assert_eq!(run_as(&pool, "blue", &["get", "a"], b"").ok().text(), "blue");
    assert_eq!(run_as(&pool, "blue", &["get", "b", "--tenant=red"], b"").ok().text(), "red");
    assert_eq!(run_as(&pool, "blue", &["ls", "--tenant=default"], b"").ok().text(), "a\n");
    assert_eq!(pool.run(&["ls", "--tenant=red"]).ok().text(), "b\n");
    pool.run(&["exists", "b"]).fails(3, "");

    // These ask the master's admin HTTP.
    pool.run(&["stat", "b"]).fails(3, "mooncake stat: there is no object \"b\"");
    let told = pool.run(&["stat", "b", "--json", "--tenant=red"]).ok().json().remove(0);
    assert_eq!((&told["key"], &told["len_bytes"]), (&json!("b"), &json!(3)), "{told}");
    pool.run(&["pin", "b"]).fails(3, "mooncake pin: there is no object \"b\"");
    run_as(&pool, "red", &["pin", "b"], b"").ok();
    let told = run_as(&pool, "red", &["stat", "b", "--json"], b"").ok().json().remove(0);
    assert!(told["soft_pin_ms"].as_u64().is_some(), "{told}");

    pool.run(&["rm", "--prefix", "a", "--force", "--tenant=blue"]).ok();
    pool.run(&["exists", "a", "--tenant=blue"]).fails(3, "");
    pool.run(&["exists", "a"]).ok();
}

#[test]
fn a_name_of_no_tenant_is_refused() {
    let pool = Pool::start(&[]);
    pool.run(&["get", "a", "--tenant=_x"]).fails(2, "error: invalid value '_x' for '--tenant");
    run_as(&pool, "_x", &["stat", "a"], b"")
        .fails(2, "mooncake stat: MOONCAKE_TENANT_ID=_x: a tenant has");
    run_as(&pool, "_x", &["get", "a"], b"").fails(1, "mooncake get: ");
}
