use std::time::{Duration, Instant};

use mooncake_client::{ErrorCode, Store, StoreConfig};
use rustix::process::Signal;

use crate::cluster::{Cluster, Master, TTL, get, put, store, until_served};
use crate::followed::{SLACK, a_paused_leader_is_fenced};

fn list(masters: [&Master; 2]) -> String {
    masters.map(|master| master.rpc.clone()).join(";")
}

#[test]
fn a_standby_takes_over_from_a_killed_leader_and_clients_follow() {
    let mut cluster = Cluster::new("killed");
    let (mut leader, standby) = cluster.pair();
    cluster.add_node();
    let stores = [store(cluster.coordinator()), store(&list([&leader, &standby]))];
    for (number, store) in stores.iter().enumerate() {
        assert_eq!(put(store, &format!("before-{number}"), 0), Ok(()));
        assert_eq!(put(store, &format!("removed-{number}"), 0), Ok(()));
        assert_eq!(store.remove(&[&format!("removed-{number}")], true), [Ok(())]);
    }
    let begun = Instant::now();
    leader.program.kill();
    for (number, store) in stores.iter().enumerate() {
        until_served(store, &format!("after-{number}"));
    }
    let took = begun.elapsed();
    assert!(took < TTL + SLACK, "{took:?}");
    standby.wait_until_role("leader");
    for (number, store) in stores.iter().enumerate() {
        assert_eq!(get(store, &format!("before-{number}"), 0), Ok(()));
        let removed = get(store, &format!("removed-{number}"), 0);
        assert_eq!(removed, Err(ErrorCode::ObjectNotFound));
    }
}

#[test]
fn a_leader_that_is_asked_to_stop_is_replaced_without_waiting_for_its_lease() {
    let mut cluster = Cluster::new("stopped");
    let (mut leader, standby) = cluster.pair();
    cluster.add_node();
    let store = store(cluster.coordinator());
    until_served(&store, "before");
    leader.program.signal(Signal::TERM);
    assert!(leader.program.end().success());
    let took = until_served(&store, "after");
    assert!(took < TTL, "{took:?}");
    standby.wait_until_role("leader");
}

#[test]
fn a_planned_stop_of_a_leader_warns_of_no_node() {
    let mut cluster = Cluster::new("planned");
    let (mut leader, standby) = cluster.pair();
    cluster.add_node();
    cluster.add_node();
    until_served(&store(cluster.coordinator()), "before");
    leader.program.signal(Signal::TERM);
    leader.program.line("the master stopped");
    assert!(leader.program.end().success());
    assert_eq!(leader.program.seen(" WARN "), 0);
    standby.wait_until_role("leader");
}

#[test]
fn a_leader_that_was_paused_beyond_its_lease_does_nothing_and_stands_by() {
    a_paused_leader_is_fenced(Cluster::new("paused"));
}

#[test]
fn of_candidates_that_start_at_once_one_leads() {
    let cluster = Cluster::new("racing");
    let coordinator = cluster.coordinator();
    let masters: Vec<Master> = std::thread::scope(|scope| {
        let start = move || Master::start(coordinator);
        let started: Vec<_> = (0..3).map(|_| scope.spawn(start)).collect();
        started.into_iter().map(|thread| thread.join().expect("it starts")).collect()
    });
    let deadline = Instant::now() + mooncake_testing::PATIENCE;
    let leaders = |masters: &[Master]| -> Vec<String> {
        let leads = |master: &&Master| master.says("/role") == "leader";
        masters.iter().filter(leads).map(|master| master.rpc.clone()).collect()
    };
    let knows = |master: &Master, leader: &str| {
        master.says("/leader").contains(&format!("\"leader_address\":\"{leader}\""))
    };
    loop {
        let leaders = leaders(&masters);
        assert!(leaders.len() < 2, "two lead: {leaders:?}");
        if leaders.first().is_some_and(|leader| masters.iter().all(|master| knows(master, leader)))
        {
            break;
        }
        assert!(Instant::now() < deadline, "nobody leads: {leaders:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_standby_says_who_leads_and_serves_nobody() {
    let cluster = Cluster::new("standby");
    let (leader, standby) = cluster.pair();
    assert_eq!(standby.says("/ha_status"), "standby");
    let health = standby.says("/health");
    for part in [
        "\"status\":\"ok\"",
        "\"role\":\"standby\"",
        "\"service_ready\":false",
        &format!("\"leader_address\":\"{}\"", leader.rpc),
    ] {
        assert!(health.contains(part), "{part} is not in {health}");
    }
    assert!(standby.says("/metrics").lines().any(|line| line == "master_is_leader 0"));
    assert!(leader.says("/metrics").lines().any(|line| line == "master_is_leader 1"));
    for path in ["/get_all_segments", "/get_all_keys"] {
        assert!(standby.says(path).contains("service plane is not active"), "{path}");
    }
    let config = StoreConfig {
        master: standby.rpc.clone(),
        segment_bytes: 0,
        rpc_connect_timeout: Duration::from_millis(300),
        ..StoreConfig::from_variables(|_| None).expect("the defaults make sense")
    };
    let error = Store::open(config).expect_err("a standby serves nobody").to_string();
    let expected = format!("this master stands by; the leader is {}", leader.rpc);
    assert!(error.contains(&expected), "{error}");
}

#[test]
fn a_standby_that_was_restarted_takes_over_like_any_other() {
    let mut cluster = Cluster::new("restarted");
    let (mut leader, mut standby) = cluster.pair();
    cluster.add_node();
    let store = store(cluster.coordinator());
    standby.program.kill();
    let standby = cluster.master();
    standby.wait_until("/ha_status", "standby");
    until_served(&store, "before");
    leader.program.kill();
    until_served(&store, "after");
    standby.wait_until_role("leader");
}

#[test]
fn without_a_leader_calls_fail_at_once_and_opening_says_what_is_missing() {
    let mut cluster = Cluster::new("nobody");
    let mut leader = cluster.master();
    leader.wait_until_role("leader");
    cluster.add_node();
    let store = store(cluster.coordinator());
    until_served(&store, "before");
    leader.program.kill();
    let begun = Instant::now();
    assert!(put(&store, "key", 0).is_err());
    assert!(begun.elapsed() < SLACK, "{:?}", begun.elapsed());
    let nobody = Cluster::new("nowhere");
    let config = StoreConfig {
        master: nobody.coordinator().to_owned(),
        segment_bytes: 0,
        rpc_connect_timeout: Duration::from_millis(300),
        ..StoreConfig::from_variables(|_| None).expect("the defaults make sense")
    };
    let error = Store::open(config).expect_err("nobody leads there").to_string();
    let expected = format!("{}: no master leads", nobody.coordinator());
    assert!(error.contains(&expected), "{error}");
}

/// Kills both masters under two stores: one asks the coordinator for the leader, the other has a list of masters.
#[test]
fn without_any_master_known_objects_are_read_and_everything_else_ends_soon() {
    let mut cluster = Cluster::new("headless");
    let (mut leader, mut standby) = cluster.pair();
    cluster.add_node();
    let stores = [cluster.store(), store(&list([&leader, &standby]))];
    for (number, store) in stores.iter().enumerate() {
        for name in ["known", "other"] {
            assert_eq!(put(store, &format!("{name}-{number}"), 0), Ok(()));
        }
        assert_eq!(get(store, &format!("known-{number}"), 0), Ok(()));
    }
    leader.program.kill();
    standby.program.kill();
    let soon = |what: &str, begun: Instant| {
        let took = begun.elapsed();
        assert!(took < SLACK, "{what} took {took:?}");
    };
    for (number, store) in stores.iter().enumerate() {
        for _ in 0..20 {
            let begun = Instant::now();
            assert_eq!(get(store, &format!("known-{number}"), 0), Ok(()));
            soon("a get of what is known", begun);
        }
        let other = format!("other-{number}");
        let begun = Instant::now();
        assert_eq!(get(store, &other, 0), Err(ErrorCode::RpcFail));
        soon("a get", begun);
        let begun = Instant::now();
        assert_eq!(put(store, "new", 0), Err(ErrorCode::RpcFail));
        soon("a put", begun);
        let begun = Instant::now();
        assert_eq!(store.remove(&[&other], true), [Err(ErrorCode::RpcFail)]);
        soon("a removal", begun);
        let begun = Instant::now();
        assert_eq!(store.exist(&[&other]), [Err(ErrorCode::RpcFail)]);
        soon("a question", begun);
    }
    // The next leader learns from the node which objects it holds.
    let next = cluster.master();
    next.wait_until_role("leader");
    until_served(&stores[0], "after");
    for name in ["known-0", "other-0", "known-1", "other-1"] {
        assert_eq!(get(&stores[0], name, 0), Ok(()), "{name}");
    }
}
