//! Clients that wait at the master for tasks.

use std::time::{Duration, Instant};

use mooncake_types::{CreateTask, Reply, Request, TaskKind, TaskOrder, limits};

use crate::support::{Rpc, Running, http_with, start};

/// Node A holds an object, and node B has room. The first client lends node A and would copy the object.
fn pool() -> (Running, Rpc, Rpc) {
    let master = start();
    let (mut first, mut other) = (master.connect(1), master.connect(2));
    first.mount(5, "node-a", 1 << 20);
    first.put(&["k"], 100);
    other.mount(6, "node-b", 1 << 20);
    (master, first, other)
}

fn copy_wanted(rpc: &mut Rpc) {
    let targets = vec!["node-b"];
    let copy = CreateTask { key: "k", kind: TaskKind::Copy, source: "", targets };
    let reply = rpc.ask(&Request::CreateTask(copy));
    assert!(matches!(reply, Reply::TaskCreated(_)), "{reply:?}");
}

fn received(rpc: &mut Rpc) -> Vec<TaskOrder> {
    match rpc.receive() {
        (_, Reply::TasksFetched(fetched)) => fetched.orders,
        (_, other) => panic!("{other:?}"),
    }
}

#[test]
fn a_client_that_waits_is_answered_when_there_is_a_task() {
    let (_master, mut first, mut other) = pool();
    first.send(&Request::FetchTasks { limit: 8, wait_ms: limits::MAX_TASK_WAIT_MS });
    // The master reads this request before the next one, which goes over another connection, or soon after.
    let begun = Instant::now();
    copy_wanted(&mut other);
    let orders = received(&mut first);
    assert_eq!(orders.len(), 1);
    let took = begun.elapsed();
    assert!(took < Duration::from_millis(200), "{took:?} is no answer at once");
}

#[test]
fn a_client_that_waits_is_answered_when_time_alone_brings_a_task() {
    let (master, mut first, _other) = pool();
    first.send(&Request::FetchTasks { limit: 8, wait_ms: limits::MAX_TASK_WAIT_MS });
    let begun = Instant::now();
    // The master plans a drain's moves when a timer is due, not when a request arrives.
    let body = br#"{"segments":["node-a"]}"#;
    let created = http_with(master.admin, "POST", "/api/v1/drain_jobs", body);
    assert_eq!(created.status, 200, "{created:?}");
    assert_eq!(received(&mut first).len(), 1);
    let took = begun.elapsed();
    assert!(took < Duration::from_millis(200), "{took:?} is no answer at once");
}

#[test]
fn a_client_that_waits_in_vain_is_told_so_when_its_time_is_over() {
    let (_master, mut first, mut other) = pool();
    let begun = Instant::now();
    first.send(&Request::FetchTasks { limit: 8, wait_ms: 50 });
    assert_eq!(received(&mut first), []);
    assert!(begun.elapsed() >= Duration::from_millis(50));
    first.send(&Request::FetchTasks { limit: 8, wait_ms: u32::MAX });
    let begun = Instant::now();
    assert_eq!(received(&mut first), []);
    let most = Duration::from_millis(u64::from(limits::MAX_TASK_WAIT_MS));
    assert!(begun.elapsed() < 2 * most, "the master bounds the wait");
    // The connection can still be used.
    copy_wanted(&mut other);
    first.send(&Request::FetchTasks { limit: 8, wait_ms: 50 });
    assert_eq!(received(&mut first).len(), 1);
}

#[test]
fn what_another_client_is_to_do_wakes_nobody_else() {
    let (master, mut first, mut other) = pool();
    let begun = Instant::now();
    other.send(&Request::FetchTasks { limit: 8, wait_ms: 300 });
    let mut third = master.connect(3);
    copy_wanted(&mut third);
    first.send(&Request::FetchTasks { limit: 8, wait_ms: 0 });
    assert_eq!(received(&mut first).len(), 1);
    assert_eq!(received(&mut other), []);
    assert!(begun.elapsed() >= Duration::from_millis(300));
}
