//! A pool with a secret. Its nodes give and change only what the master has sealed, and all else is as without.

use std::time::Instant;

use mooncake_client::{
    Buffer, ErrorCode, PutSource, ReplicateConfig, SliceList, Store, StoreConfig,
};
use mooncake_testing::{Master, Node, PATIENCE, free_port, http_get};
use mooncake_transfer::{TcpConfig, TcpTransport, TransferError, Transport, WriteOp};
use mooncake_types::{Epoch, RangeWrite, Seal, TaskStatus, Version};

use crate::start::{self, MASTER};

const SECRET: &str = "--auth_token=a-secret";

/// A master with a state file, two nodes, and a store that reaches these by TCP.
struct Scene {
    master: Master,
    nodes: [(Node, String); 2],
    store: Store,
}

impl Scene {
    fn new() -> Scene {
        let master = Master::start_lasting(MASTER, &[SECRET]);
        let nodes = [(), ()].map(|()| {
            let http = format!("127.0.0.1:{}", free_port());
            let port = format!("--http_port={}", http.rsplit(':').next().unwrap_or_default());
            let flags = [SECRET, "--enable_http_server", "--http_host=127.0.0.1", &port];
            (start::node(&master.rpc, &flags), http)
        });
        let config = StoreConfig {
            auth_token: "a-secret".into(),
            transports: "tcp".parse().expect("a way"),
            ..start::config(&master.rpc)
        };
        let store = Store::open(config).expect("the master serves");
        Scene { master, nodes, store }
    }

    fn upsert(&self, key: &str, version: u8) -> Result<(), ErrorCode> {
        let value = Buffer::from_vec(value(key, version));
        let source = PutSource::new(key, SliceList::from(value.raw()));
        let config = ReplicateConfig { replica_num: 2, ..ReplicateConfig::default() };
        self.store.upsert(&[source], &config).remove(0)
    }

    /// Upserts until the master takes puts, as it does some time after it has started.
    fn upsert_soon(&self, key: &str, version: u8) {
        let begun = Instant::now();
        while let Err(error) = self.upsert(key, version) {
            assert!(begun.elapsed() < PATIENCE, "{key} cannot be put: {error}");
        }
    }

    #[track_caller]
    fn check(&self, key: &str, version: u8) {
        let bytes = self.store.get(&[key]).remove(0).expect(key).into_vec();
        assert!(bytes == value(key, version), "{key} of version {version} is wrong");
    }

    /// How many ranges the nodes refused, since the master had not given them.
    fn refused(&self) -> u64 {
        let refused = self.nodes.iter().map(|(_, http)| {
            let text = http_get(http, "/metrics");
            let mut lines = text.lines();
            let name = "mooncake_node_refused_ranges ";
            let value = lines.find_map(|line| line.strip_prefix(name));
            value.expect("the metric").parse::<u64>().expect("a number")
        });
        refused.sum()
    }
}

fn value(key: &str, version: u8) -> Vec<u8> {
    format!("{key}#{version}#").bytes().cycle().take(100_000).collect()
}

#[test]
fn a_pool_with_a_secret_serves_before_and_after_its_master_was_killed() {
    let mut scene = Scene::new();
    let keys: Vec<String> = (0..20).map(|number| format!("key-{number}")).collect();
    keys.iter().for_each(|key| scene.upsert(key, 1).expect(key));
    keys.iter().for_each(|key| scene.check(key, 1));
    // Readers have routes to these, so that the nodes drop the older versions before an upsert is over.
    keys[..5].iter().for_each(|key| scene.upsert(key, 2).expect(key));
    assert_eq!(scene.store.remove(&[&keys[19]], true), [Ok(())]);
    keys[..5].iter().for_each(|key| scene.check(key, 2));
    assert_eq!(scene.refused(), 0);

    scene.master.program.kill();
    keys[..19].iter().for_each(|key| scene.check(key, by(key)));
    scene.master.start_again();
    scene.upsert_soon("later", 1);
    scene.check("later", 1);
    keys[..19].iter().for_each(|key| scene.check(key, by(key)));
    assert_eq!(scene.store.get(&[&keys[19]]).remove(0).err(), Some(ErrorCode::ObjectNotFound));
    keys[..19].iter().for_each(|key| scene.upsert_soon(key, 3));
    keys[..19].iter().for_each(|key| scene.check(key, 3));
    assert_eq!(scene.store.remove(&[&keys[0]], true), [Ok(())]);
    assert_eq!(scene.store.get(&[&keys[0]]).remove(0).err(), Some(ErrorCode::ObjectNotFound));
    assert_eq!(scene.refused(), 0);
}

/// The version of a key before the master was killed.
fn by(key: &str) -> u8 {
    let number: usize = key.trim_start_matches("key-").parse().expect("a number");
    if number < 5 { 2 } else { 1 }
}

#[test]
fn a_member_that_forges_grants_changes_no_object() {
    let scene = Scene::new();
    scene.upsert("good", 1).expect("there is room");
    scene.check("good", 1);
    let located = scene.store.locate(&["good"]).remove(0).expect("it is there");
    let stripe = &located.replicas[0].stripes[0];
    let member = TcpTransport::new(TcpConfig {
        cluster_id: start::config("").cluster_id,
        auth_token: "a-secret".into(),
        ..TcpConfig::default()
    });
    let forged = Buffer::from_vec(vec![0x66; 100_000]);
    let epoch = located.version.epoch;
    let highest = Version { epoch, counter: u64::MAX };
    let all = Version { epoch: Epoch(u64::MAX), counter: u64::MAX };
    for (number, grant) in [highest, all].into_iter().enumerate() {
        let range = RangeWrite {
            segment: stripe.segment.id,
            offset: stripe.offset,
            entry_len: stripe.len,
            from: 0,
            len: stripe.len,
            key: "good",
            version: located.version,
            grant,
            object_len: stripe.len,
            object_offset: 0,
            attributes: &[],
            seal: Seal(number as u64),
        };
        let endpoint = stripe.segment.endpoint.clone();
        let op = WriteOp { endpoint, range, src: SliceList::from(forged.raw()) };
        let refused = Err(TransferError::Refused(ErrorCode::PermissionDenied));
        assert_eq!(member.write(grant.epoch, &[op]), [refused]);
    }
    assert_eq!(scene.refused(), 2);
    scene.check("good", 1);
    scene.upsert("good", 2).expect("true writers are not fenced");
    scene.check("good", 2);
}

#[test]
fn nodes_copy_and_move_what_they_hold_in_a_pool_with_a_secret() {
    let scene = Scene::new();
    let value = Buffer::from_vec(value("moved", 1));
    let names = scene.nodes.each_ref().map(|(node, _)| node.address.as_str());
    let config =
        ReplicateConfig { preferred_segments: vec![names[0]], ..ReplicateConfig::default() };
    let source = PutSource::new("moved", SliceList::from(value.raw()));
    assert_eq!(scene.store.put(&[source], &config), [Ok(())]);
    let task = scene.store.create_move_task("moved", names[0], names[1]).expect("both are there");
    let begun = Instant::now();
    while scene.store.query_task(task).expect("it is known").status != TaskStatus::Success {
        assert!(begun.elapsed() < PATIENCE, "it is not moved");
        std::thread::yield_now();
    }
    scene.check("moved", 1);
    let located = scene.store.locate(&["moved"]).remove(0).expect("it is there");
    assert_eq!(*located.replicas[0].stripes[0].segment.name, *names[1]);
    assert_eq!(scene.refused(), 0);
}
