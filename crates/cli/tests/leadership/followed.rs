//! What clients see under each coordinator when the leader dies or is paused.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::cluster::{Cluster, TTL, get, put, store, until_served};

/// How long a takeover may take beyond the lease.
pub(crate) const SLACK: Duration = Duration::from_secs(1);

/// Kills the leader. The first put and get after that succeed within the lease plus `slack`.
pub(crate) fn a_killed_leader_is_replaced(mut cluster: Cluster, slack: Duration) {
    let (mut leader, standby) = cluster.pair();
    cluster.add_node();
    let store = cluster.store();
    assert_eq!(put(&store, "early", 0), Ok(()));
    leader.program.kill();
    let took = until_served(&store, "after");
    assert!(took < TTL + slack, "{took:?}");
    assert_eq!(standby.says("/role"), "leader");
    assert_eq!(get(&store, "early", 0), Ok(()));
}

/// Pauses the leader until the standby leads. A put of a client that knows only the old leader must then fail.
pub(crate) fn a_paused_leader_is_fenced(mut cluster: Cluster) {
    let (paused, standby) = cluster.pair();
    cluster.add_node();
    let (store, loyal) = (cluster.store(), store(&paused.rpc));
    until_served(&store, "before");
    assert_eq!(put(&loyal, "loyal", 1), Ok(()));
    paused.program.signal(Signal::STOP);
    let late = std::thread::spawn(move || (put(&loyal, "late", 1), loyal));
    let begun = Instant::now();
    until_served(&store, "after");
    let took = begun.elapsed();
    println!("replaced after {took:?}");
    // A client that waits for a silent leader asks the coordinator for another one meanwhile.
    assert!(took < TTL + 3 * SLACK, "{took:?}");
    assert_eq!(put(&store, "late", 2), Ok(()));
    paused.program.signal(Signal::CONT);
    let (late, _loyal) = late.join().expect("a put does not panic");
    assert!(late.is_err(), "a leader that is none took a put: {late:?}");
    paused.program.line("leads no more");
    paused.wait_until("/ha_status", "standby");
    assert_eq!(standby.says("/role"), "leader");
    assert_eq!(get(&store, "late", 2), Ok(()));
}
