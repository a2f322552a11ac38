use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mooncake_client::{ErrorCode, Health, ReplicateConfig, Store, StoreConfig};
use mooncake_meta::Meta;
use mooncake_node::Host;
use mooncake_transfer::{DataServer, ServerConfig};
use mooncake_types::{
    ClientId, Epoch, MountOutcome, MountSegment, Reply, Request, SegmentId, Tick,
};

use crate::master::{self, CLUSTER, Master, TOKEN};
use crate::rig::{config, content, eventually, get, open, put};

/// Takes the state out of a master, for its restart.
fn keep(meta: &mut Meta) -> Meta {
    std::mem::replace(meta, Meta::new(master::config(), Epoch(1)))
}

/// An empty state under the next epoch, as of a master that restarts without a state file.
fn forget(meta: &mut Meta) -> Meta {
    Meta::new(master::config(), Epoch(meta.epoch().0 + 1))
}

#[test]
fn reads_go_on_from_the_other_replica_when_a_node_vanishes_unannounced() {
    let mut master = Master::start();
    let one = open(&master, 16 << 20);
    let two = open(&master, 16 << 20);
    let client = open(&master, 0);
    for number in 0..10 {
        assert_eq!(put(&client, &format!("key {number}"), 10_000, 2), Ok(()));
    }
    // The node leaves while the master is stopped, so every route still names both nodes.
    master.stop();
    one.close();
    let master = master.restart(keep);
    let started = Instant::now();
    for store in [&client, &two] {
        for number in 0..10 {
            let key = format!("key {number}");
            assert_eq!(get(store, &key), Ok(content(&key, 10_000)), "{key}");
        }
    }
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    // Puts succeed too: a put of two replicas keeps one, and a put of one replica goes to the other node.
    for number in 0..10 {
        assert_eq!(put(&client, &format!("new {number}"), 10_000, 1 + number % 2), Ok(()));
        let key = format!("new {number}");
        assert_eq!(get(&client, &key), Ok(content(&key, 10_000)), "{key}");
    }
    drop(master);
}

#[test]
fn an_object_whose_only_node_vanished_is_an_error_and_not_a_hang() {
    let mut master = Master::start();
    let node = open(&master, 16 << 20);
    let client = open(&master, 0);
    assert_eq!(put(&client, "lost", 10_000, 1), Ok(()));
    master.stop();
    node.close();
    let _master = master.restart(keep);
    assert_eq!(get(&client, "lost"), Err(ErrorCode::TransferFail));
    assert_eq!(put(&client, "new", 10_000, 1), Err(ErrorCode::TransferFail));
}

/// A node that lends a segment and accepts no connection.
fn full_node(master: &Master) -> DataServer {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let (cluster_id, auth_token) = (CLUSTER.to_owned(), TOKEN.to_owned());
    let config = ServerConfig {
        cluster_id,
        auth_token: auth_token.into(),
        max_connections: 0,
        ..ServerConfig::default()
    };
    let server = DataServer::start(listener, Arc::new(Host::new(Vec::new())), config)
        .expect("the server starts");
    let endpoint = server.local_addr().to_string();
    let mount = MountSegment {
        id: SegmentId(77),
        name: &endpoint,
        endpoint: &endpoint,
        len: 16 << 20,
        seen_epoch: Epoch(0),
        is_empty: true,
        run: 1,
        medium: mooncake_types::Medium::Memory,
        domains: &[],
        seal_key: None,
    };
    let request = Request::MountSegment(mount);
    let reply = master.with_meta(|meta| meta.handle(Tick(0), ClientId(77), &request));
    assert_eq!(reply, Reply::Mounted(MountOutcome::Ready));
    server
}

#[test]
fn a_node_without_a_connection_left_is_avoided_like_one_that_is_gone() {
    let master = Master::start();
    let _full = full_node(&master);
    let client = open(&master, 0);
    assert_eq!(put(&client, "alone", 10_000, 1), Err(ErrorCode::TransferFail));
    let _node = open(&master, 16 << 20);
    for number in 0..40 {
        let key = format!("key {number}");
        assert_eq!(put(&client, &key, 10_000, 1 + number % 2), Ok(()), "{key}");
        assert_eq!(get(&client, &key), Ok(content(&key, 10_000)), "{key}");
    }
}

#[test]
fn nodes_mount_again_at_a_master_that_has_forgotten_everything() {
    let master = Master::start();
    let node = open(&master, 16 << 20);
    let client = open(&master, 0);
    assert_eq!(put(&client, "old", 1000, 1), Ok(()));
    let _master = master.restart(forget);
    eventually("the node has told what it holds", || get(&client, "old").is_ok());
    assert_eq!(get(&client, "old"), Ok(content("old", 1000)));
    // The nodes obey the grants of the new leader.
    for number in 0..50 {
        let key = format!("new {number}");
        assert_eq!(put(&client, &key, 200_000, 1), Ok(()), "{key}");
        assert_eq!(get(&client, &key), Ok(content(&key, 200_000)), "{key}");
    }
    eventually("the node is well", || node.health() == Health::Ok);
}

#[test]
fn health_follows_the_master() {
    let mut master = Master::start();
    let store = open(&master, 1 << 20);
    assert_eq!(store.health(), Health::Ok);
    master.stop();
    eventually("the loss is noticed", || store.health() == Health::MasterUnreachable);
    assert_eq!(get(&store, "key"), Err(ErrorCode::RpcFail));
    assert_eq!(put(&store, "key", 10, 1), Err(ErrorCode::RpcFail));
    assert_eq!(store.exist(&["a", "b"]), vec![Err(ErrorCode::RpcFail); 2]);
    assert_eq!(store.prefix_len(&["a", "b"], 0), Err(ErrorCode::RpcFail));
    assert_eq!(store.remove_all(true), Err(ErrorCode::RpcFail));
    let _master = master.restart(keep);
    eventually("the master is found again", || store.health() == Health::Ok);
    assert_eq!(put(&store, "key", 10, 1), Ok(()));
    store.close();
    assert_eq!(store.health(), Health::MasterUnreachable);
}

#[test]
fn a_master_that_does_not_answer_is_waited_for_no_longer_than_was_said() {
    let master = Master::start();
    let timeout = Duration::from_millis(300);
    let store = Store::open(StoreConfig { rpc_timeout: timeout, ..config(&master, 1 << 20) })
        .expect("the store opens");
    assert_eq!(put(&store, "key", 10, 1), Ok(()));
    master.set_mute(true);
    let started = Instant::now();
    assert_eq!(store.exist(&["key"]), vec![Err(ErrorCode::RpcTimeout)]);
    assert_eq!(get(&store, "key"), Err(ErrorCode::RpcTimeout));
    assert_eq!(put(&store, "new", 10, 1), Err(ErrorCode::RpcTimeout));
    assert_eq!(store.remove_by_regex("k", true), Err(ErrorCode::RpcTimeout));
    let elapsed = started.elapsed();
    assert!((timeout * 4..timeout * 8).contains(&elapsed), "{elapsed:?}");
    let started = Instant::now();
    store.close();
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
}

#[test]
fn idle_connections_that_the_master_closed_cost_nothing() {
    let master = Master::start();
    let store = open(&master, 1 << 20);
    assert_eq!(put(&store, "a", 10, 1), Ok(()));
    // The connections in the pool are closed; the next call opens a new one.
    let master = master.restart(keep);
    assert_eq!(put(&store, "b", 10, 1), Ok(()));
    assert_eq!(get(&store, "a"), Ok(content("a", 10)));
    drop(master);
}

#[test]
fn several_addresses_of_the_master_are_tried() {
    let master = Master::start();
    let dead = {
        let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
        port.local_addr().expect("it is bound").to_string()
    };
    let both = format!("{dead},{}", master.address());
    let store = Store::open(StoreConfig { master: both, ..config(&master, 1 << 20) })
        .expect("one of the addresses answers");
    assert_eq!(put(&store, "key", 10, 1), Ok(()));
    assert_eq!(get(&store, "key"), Ok(content("key", 10)));
}

#[test]
fn a_closed_store_refuses_everything_and_closing_again_does_nothing() {
    let master = Master::start();
    let store = open(&master, 1 << 20);
    assert_eq!(put(&store, "key", 10, 1), Ok(()));
    store.close();
    store.close();
    master.with_meta(|meta| {
        assert!(meta.peek("key").is_none());
    });
    let closed = ErrorCode::UnavailableInCurrentStatus;
    assert_eq!(get(&store, "key"), Err(closed));
    assert_eq!(put(&store, "key", 10, 1), Err(closed));
    assert_eq!(store.exist(&["a", "b"]), vec![Err(closed); 2]);
    assert_eq!(store.prefix_len(&["a", "b"], 0), Err(closed));
    assert_eq!(store.size("a"), Err(closed));
    assert_eq!(store.remove_all(false), Err(closed));
    assert_eq!(store.list_by_regex("a").map(|_| ()), Err(closed));
    assert!(store.hostname().starts_with("localhost:"), "{}", store.hostname());
}

#[test]
fn a_store_may_be_closed_in_the_middle_of_other_threads_calls() {
    let master = Master::start();
    let other = open(&master, 8 << 20);
    for number in 0..20 {
        assert_eq!(put(&other, &format!("key {number}"), 100_000, 1), Ok(()));
    }
    for _ in 0..10 {
        let store = open(&master, 8 << 20);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let store = &store;
                scope.spawn(move || {
                    for number in 0.. {
                        let key = format!("key {}", (number + thread) % 40);
                        if put(store, &key, 100_000, 2)
                            == Err(ErrorCode::UnavailableInCurrentStatus)
                        {
                            break;
                        }
                        if let Ok(bytes) = get(store, &key) {
                            assert!(bytes == content(&key, 100_000), "wrong bytes of {key}");
                        }
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(20));
            store.close();
        });
    }
}

#[test]
fn a_node_without_a_local_buffer_takes_no_copies() {
    let master = Master::start();
    let config = StoreConfig { local_buffer_bytes: 0, ..config(&master, 1 << 20) };
    let store = Store::open(config).expect("the store opens");
    assert!(!store.allows_copies());
    let refused = store.put_bytes("key", b"value", &ReplicateConfig::default());
    assert_eq!(refused, Err(ErrorCode::InvalidParams));
    assert_eq!(store.exist(&["key"]), vec![Ok(false)]);
    assert_eq!(put(&store, "key", 10, 1), Ok(()));
}
