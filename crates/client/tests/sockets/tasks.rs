use mooncake_client::{
    ErrorCode, ReplicateConfig, Store, TaskId, TaskKind, TaskReport, TaskStatus,
};
use mooncake_meta::Meta;
use mooncake_types::Epoch;

use crate::master::{self, Master};
use crate::rig::{content, eventually, get, open, places};

fn put_on(store: &Store, key: &str, len: usize, node: &Store) {
    let config =
        ReplicateConfig { preferred_segments: vec![node.hostname()], ..ReplicateConfig::default() };
    assert_eq!(store.put_bytes(key, &content(key, len), &config), Ok(()));
    assert_eq!(places(store, key), [node.hostname()]);
}

/// The report of a task, once it has ended.
fn ended(store: &Store, id: TaskId) -> TaskReport {
    let mut report = TaskReport::default();
    eventually("the task ends", || {
        report = store.query_task(id).expect("the master knows it");
        matches!(report.status, TaskStatus::Failed | TaskStatus::Success)
    });
    report
}

fn sorted(stores: &[&Store]) -> Vec<String> {
    let mut names: Vec<String> = stores.iter().map(|store| store.hostname().to_owned()).collect();
    names.sort();
    names
}

#[test]
fn objects_are_copied_and_moved_by_the_node_that_has_them() {
    let master = Master::start();
    let nodes = [open(&master, 16 << 20), open(&master, 16 << 20), open(&master, 16 << 20)];
    let client = open(&master, 0);
    let [one, two, three] = &nodes;
    for (key, len) in [("small", 10), ("large", 3_000_000)] {
        put_on(&client, key, len, one);
        let id = client
            .create_copy_task(key, &[two.hostname(), three.hostname()])
            .expect("the task is taken");
        let report = ended(&client, id);
        assert_eq!((report.kind, report.status), (TaskKind::Copy, TaskStatus::Success));
        assert_eq!((report.id, report.message.as_str()), (id, ""));
        assert_eq!(places(&client, key), sorted(&[one, two, three]));
        for store in [one, two, three, &client] {
            assert!(get(store, key) == Ok(content(key, len)), "{key}");
        }
    }
    for (key, len) in [("a", 10), ("b", 3_000_000)] {
        put_on(&client, key, len, one);
        let id = client
            .create_move_task(key, one.hostname(), two.hostname())
            .expect("the task is taken");
        let report = ended(&client, id);
        assert_eq!((report.kind, report.status), (TaskKind::Move, TaskStatus::Success));
        assert_eq!(places(&client, key), [two.hostname()]);
        assert!(get(&client, key) == Ok(content(key, len)), "{key}");
    }
    one.close();
    assert!(get(&client, "large") == Ok(content("large", 3_000_000)));
    master.with_meta(|meta| assert_eq!(meta.check(), Ok(())));
}

#[test]
fn striped_objects_are_copied_whole() {
    let config = mooncake_meta::Config { stripe_threshold_bytes: 64 << 10, ..master::config() };
    let master = Master::start_at("127.0.0.1:0", Meta::new(config, Epoch(1)));
    let nodes = [open(&master, 4 << 20), open(&master, 4 << 20), open(&master, 4 << 20)];
    let late = open(&master, 0);
    let bytes = content("striped", 1_000_003);
    assert_eq!(late.put_bytes("striped", &bytes, &ReplicateConfig::default()), Ok(()));
    let target = open(&master, 8 << 20);
    let id = late.create_copy_task("striped", &[target.hostname()]).expect("the task is taken");
    assert_eq!(ended(&late, id).status, TaskStatus::Success);
    for node in &nodes {
        node.close();
    }
    assert!(get(&late, "striped") == Ok(bytes));
}

#[test]
fn an_object_longer_than_what_is_held_at_a_time_goes_in_parts() {
    let master = Master::start();
    let nodes = [open(&master, 80 << 20), open(&master, 80 << 20)];
    let len = (65 << 20) + 5;
    put_on(&nodes[0], "long", len, &nodes[0]);
    let id = nodes[1]
        .create_move_task("long", nodes[0].hostname(), nodes[1].hostname())
        .expect("the task is taken");
    assert_eq!(ended(&nodes[1], id).status, TaskStatus::Success);
    assert_eq!(places(&nodes[0], "long"), [nodes[1].hostname()]);
    assert!(get(&nodes[0], "long") == Ok(content("long", len)));
}

#[test]
fn tasks_that_cannot_be_are_refused() {
    let master = Master::start();
    let nodes = [open(&master, 4 << 20), open(&master, 4 << 20)];
    let client = open(&master, 0);
    put_on(&client, "a", 10, &nodes[0]);
    let here = nodes[0].hostname();
    let there = nodes[1].hostname();
    for (created, code) in [
        (client.create_copy_task("none", &[there]), ErrorCode::ObjectNotFound),
        (client.create_copy_task("a", &["nowhere:1"]), ErrorCode::InvalidParams),
        (client.create_copy_task("a", &[]), ErrorCode::InvalidParams),
        (client.create_copy_task("", &[there]), ErrorCode::InvalidKey),
        (client.create_move_task("a", there, here), ErrorCode::ReplicaNotFound),
        (client.create_move_task("a", "nowhere:1", there), ErrorCode::InvalidParams),
    ] {
        assert_eq!(created, Err(code));
    }
    assert_eq!(client.query_task(TaskId(1)), Err(ErrorCode::TaskNotFound));
    client.close();
    let closed = ErrorCode::UnavailableInCurrentStatus;
    assert_eq!(client.create_copy_task("a", &[there]), Err(closed));
    assert_eq!(client.create_move_task("a", here, there), Err(closed));
    assert_eq!(client.query_task(TaskId(1)), Err(closed));
    assert_eq!(client.clear_replicas(&["a"], ""), [Err(closed)]);
}

#[test]
fn a_task_whose_target_vanished_fails_and_the_object_stays() {
    let mut master = Master::start();
    let nodes = [open(&master, 4 << 20), open(&master, 4 << 20)];
    let client = open(&master, 0);
    put_on(&client, "a", 10_000, &nodes[0]);
    // The target leaves while the master is stopped.
    let target = nodes[1].hostname().to_owned();
    master.stop();
    nodes[1].close();
    let keep = |meta: &mut Meta| std::mem::replace(meta, Meta::new(master::config(), Epoch(1)));
    let master = master.restart(keep);
    let id = client.create_copy_task("a", &[&target]).expect("the task is taken");
    let report = ended(&client, id);
    assert_eq!(report.status, TaskStatus::Failed);
    assert!(!report.message.is_empty());
    assert_eq!(places(&client, "a"), [nodes[0].hostname()]);
    assert_eq!(get(&client, "a"), Ok(content("a", 10_000)));
    drop(master);
}

#[test]
fn a_node_that_leaves_in_the_middle_of_tasks_leaves_at_once() {
    let master = Master::start();
    let nodes = [open(&master, 64 << 20), open(&master, 64 << 20)];
    let client = open(&master, 0);
    for number in 0..8 {
        let key = format!("key {number}");
        put_on(&client, &key, 4 << 20, &nodes[0]);
        client.create_copy_task(&key, &[nodes[1].hostname()]).expect("the task is taken");
    }
    eventually("the tasks begin", || {
        let copied = |number| places(&client, &format!("key {number}")).len() == 2;
        (0..8).any(copied)
    });
    let started = std::time::Instant::now();
    nodes[0].close();
    assert!(started.elapsed() < std::time::Duration::from_secs(4), "{:?}", started.elapsed());
    let mut readable = 0;
    for number in 0..8 {
        let key = format!("key {number}");
        let found = get(&client, &key);
        readable += u32::from(found.is_ok());
        assert!(found == Ok(content(&key, 4 << 20)) || found.is_err(), "{key}");
    }
    assert!(readable > 0, "one copy had ended before");
    master.with_meta(|meta| assert_eq!(meta.check(), Ok(())));
}

#[test]
fn replicas_are_cleared_by_the_client_that_put_them() {
    let master = Master::start();
    let nodes = [open(&master, 4 << 20), open(&master, 4 << 20)];
    let client = open(&master, 0);
    let config = ReplicateConfig { replica_num: 2, ..ReplicateConfig::default() };
    // "b" is put first: once "a" may be cleared, "b" may be cleared too.
    for key in ["b", "a"] {
        assert_eq!(client.put_bytes(key, b"value", &config), Ok(()));
    }
    assert_eq!(nodes[0].clear_replicas(&["a"], ""), [Err(ErrorCode::IllegalClient)]);
    assert_eq!(client.clear_replicas(&["none"], ""), [Err(ErrorCode::ObjectNotFound)]);
    eventually("the objects are old enough", || {
        client.clear_replicas(&["a"], nodes[0].hostname()) == [Ok(())]
    });
    assert_eq!(places(&client, "a"), [nodes[1].hostname()]);
    let leased = [Err(ErrorCode::ObjectHasLease), Ok(())];
    assert_eq!(client.clear_replicas(&["a", "b"], ""), leased);
    assert_eq!(client.exist(&["a", "b"]), [Ok(true), Ok(false)]);
}
