//! Peers that send epochs which no leader has named.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mooncake_memory::crc32c;
use mooncake_testing::greet;
use mooncake_types::{
    ClientId, Epoch, ErrorCode, Grant, MountSegment, Placement, PutEnd, PutItem, PutMode, PutStart,
    RangeDrop, RangeWrite, ReplicateConfig, Reply, Request, Seal, SegmentAddress, SegmentId,
    Version, limits,
};
use mooncake_wire::{Hello, Kind, Role};

use crate::master::{CLUSTER, Master, TOKEN, read_frame};
use crate::rig::{content, get, open, put};

const WILD: Epoch = Epoch((1 << 61) - 1);

/// A connection after the handshake, on which a test sends any frame.
struct Peer(TcpStream);

impl Peer {
    fn meet(address: &str) -> Self {
        let stream = TcpStream::connect(address).expect("it is served");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket has this option");
        let mut peer = Self(stream);
        let (cluster_id, auth_token) = (CLUSTER.to_owned(), TOKEN.to_owned());
        let hello = Hello {
            cluster_id,
            auth_token: auth_token.into(),
            ..Hello::new(Role::Node, ClientId(99))
        };
        let (answer, _) = greet(&mut peer.0, &hello).expect("it answers");
        assert_eq!(answer.kind, Kind::Welcome);
        peer
    }

    fn ask(&mut self, encode: impl FnOnce(&mut Vec<u8>), payload: &[u8]) -> (Kind, Vec<u8>) {
        let mut out = Vec::new();
        encode(&mut out);
        out.extend_from_slice(payload);
        self.0.write_all(&out).expect("it listens");
        let (header, body) = read_frame(&mut self.0).expect("it answers");
        (header.kind, body)
    }

    fn mount(&mut self, id: SegmentId, seen_epoch: Epoch) -> Reply {
        let mount = MountSegment {
            id,
            name: "peer",
            endpoint: "127.0.0.1:9",
            len: 1 << 20,
            seen_epoch,
            is_empty: true,
            run: 1,
            medium: mooncake_types::Medium::Memory,
            domains: &[],
            seal_key: None,
        };
        self.request(&Request::MountSegment(mount))
    }

    fn request(&mut self, request: &Request<'_>) -> Reply {
        let (kind, body) = self.ask(|out| mooncake_wire::encode_request(out, 2, request), &[]);
        assert_eq!(kind, Kind::Reply);
        mooncake_wire::decode_reply(body.into()).expect("it is a reply")
    }
}

fn segment_of(master: &Master) -> (SegmentId, String) {
    master.with_meta(|meta| {
        let segment = &meta.segments()[0];
        (segment.id, segment.endpoint.to_string())
    })
}

/// The seals on a write and on a drop of 100 bytes of the key `wild`, of a master that grants what it should not.
fn seals(master: &Master, segment: SegmentId, (offset, version): (u64, Version)) -> [Seal; 2] {
    let puts = vec![PutItem::new("wild", 100)];
    let request = Request::PutStart(PutStart { puts, ..PutStart::default() });
    let placements = vec![Placement { offset, len: 100, ..Placement::default() }];
    let grant = Grant { version, placements, ..Grant::default() };
    let (name, endpoint): (Arc<str>, Arc<str>) = ("node".into(), "node:1".into());
    let address =
        SegmentAddress { id: segment, name, endpoint, medium: mooncake_types::Medium::Memory };
    let mut reply = Reply::Granted { results: vec![Ok(grant)], segments: vec![address] };
    master.seal(&request, &mut reply);
    let Reply::Granted { results, .. } = reply else { unreachable!("it was made above") };
    let grant = results[0].as_ref().expect("it was made above");
    [grant.placements[0].seal, grant.drop_seals[0]]
}

/// A node that accepted this epoch would refuse the grants of every real leader.
#[test]
fn a_frame_with_an_epoch_from_nowhere_does_not_stop_the_pool() {
    let master = Master::start_recorded();
    let _node = open(&master, 16 << 20);
    let client = open(&master, 0);
    assert_eq!(put(&client, "before", 500, 1), Ok(()));
    let (segment, endpoint) = segment_of(&master);
    let mut peer = Peer::meet(&endpoint);
    let wild = Version { epoch: WILD, counter: 1 };
    let (offset, version) = (1 << 20, wild);
    let range = RangeWrite {
        segment,
        offset,
        entry_len: 100,
        from: 0,
        len: 100,
        key: "wild",
        version,
        grant: wild,
        object_len: 100,
        object_offset: 0,
        attributes: &[],
        seal: seals(&master, segment, (offset, version))[0],
    };
    let unknown = || vec![Err(ErrorCode::UNKNOWN_LEADER)];
    let write = |out: &mut Vec<u8>| mooncake_wire::encode_write(out, 2, WILD, &[range]);
    // A node checks the checksum of a small range before anything else, so this one is right.
    let payload = [&[0; 100][..], &crc32c(&[0; 100]).to_le_bytes()].concat();
    let (_, body) = peer.ask(write, &payload);
    assert_eq!(mooncake_wire::decode_results(&body), Ok(unknown()));
    let range = RangeDrop { segment, offset: 0, version, grant: wild };
    let [_, seal] = seals(&master, segment, (0, version));
    let drop = |out: &mut Vec<u8>| mooncake_wire::encode_drop(out, 3, &[(range, seal)]);
    let (_, body) = peer.ask(drop, &[]);
    assert_eq!(mooncake_wire::decode_results(&body), Ok(unknown()));
    let mut at_master = Peer::meet(&master.address());
    assert_eq!(at_master.mount(SegmentId(99), WILD), Reply::Done(Err(ErrorCode::InvalidVersion)));
    assert_eq!(master.with_meta(|meta| meta.epoch()), Epoch(7));
    assert_eq!(put(&client, "after", 500, 1), Ok(()));
    let master = master.fail(|_| {});
    assert_eq!(put(&client, "under the next", 500, 1), Ok(()));
    for key in ["before", "after", "under the next"] {
        assert_eq!(get(&client, key), Ok(content(key, 500)), "{key}");
    }
    assert_eq!(master.with_meta(|meta| meta.epoch()), Epoch(8));
}

/// A leader that mounts a segment of a node with a higher epoch raises its own epoch above it. Its other nodes learn
/// the new epoch with their next heartbeat, or earlier from a client's write.
/// heartbeats, and clients may be there before.
#[test]
fn a_put_that_reaches_a_node_before_its_leader_does_is_done_a_little_later() {
    let master = Master::start();
    let _nodes = [open(&master, 16 << 20), open(&master, 16 << 20)];
    let client = open(&master, 0);
    for round in 1..6 {
        let seen = Epoch(7 + round * 1_000);
        let mut at_master = Peer::meet(&master.address());
        let id = SegmentId(99 + u128::from(round));
        let mounted = at_master.mount(id, seen);
        assert!(matches!(mounted, Reply::Mounted(_)), "{mounted:?}");
        // The segment has no server: puts must not go there.
        let unmount = Request::UnmountSegment { id, grace_ms: 0, failure: "" };
        assert_eq!(at_master.request(&unmount), Reply::Done(Ok(())));
        assert_eq!(master.with_meta(|meta| meta.epoch()), Epoch(seen.0 + 1));
        let begun = Instant::now();
        for number in 0..4 {
            let key = format!("key {round} {number}");
            assert_eq!(put(&client, &key, 500, 2), Ok(()), "{key}");
            assert_eq!(get(&client, &key), Ok(content(&key, 500)), "{key}");
        }
        println!("round {round}: {:?}", begun.elapsed());
    }
}

/// A client that puts keys without writing a byte and removes them by pattern gives the node one thing to drop for each
/// of them, of which it has never heard.
#[test]
fn what_was_put_without_a_byte_and_removed_costs_nobody_an_object() {
    const KEYS: usize = 100_000;
    let master = Master::start();
    let node = open(&master, 1 << 30);
    let client = open(&master, 0);
    assert_eq!(put(&client, "others", 500, 1), Ok(()));
    let mut peer = Peer::meet(&master.address());
    for first in (0..KEYS).step_by(limits::MAX_BATCH_KEYS) {
        let keys = first..KEYS.min(first + limits::MAX_BATCH_KEYS);
        let keys: Vec<String> = keys.map(|number| format!("void-{number}")).collect();
        let puts = keys.iter().map(|key| PutItem::new(key, 4096)).collect();
        let (config, mode) = (ReplicateConfig::default(), PutMode::Insert);
        let reply = peer.request(&Request::PutStart(PutStart { puts, config, mode }));
        let Reply::Granted { results, .. } = reply else { panic!("{reply:?}") };
        let versions = results.into_iter().map(|grant| grant.expect("there is room").version);
        let (failed_replicas, held_replicas) = (0, 0);
        let puts = keys.iter().zip(versions);
        let puts =
            puts.map(|(key, version)| PutEnd { key, version, failed_replicas, held_replicas });
        let reply = peer.request(&Request::PutEnd { puts: puts.collect() });
        assert!(matches!(reply, Reply::Statuses(_)), "{reply:?}");
    }
    assert_eq!(client.remove_by_regex("^void-", true), Ok(KEYS as u64));
    let left = || master.with_meta(|meta| meta.stats().tombstones);
    let give_up_at = Instant::now() + Duration::from_secs(60);
    while left() > 0 {
        assert!(Instant::now() < give_up_at, "{} are still to be dropped", left());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(get(&client, "others"), Ok(content("others", 500)));
    assert_eq!(put(&client, "after", 500, 1), Ok(()));
    drop(node);
}
