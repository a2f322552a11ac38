use std::time::{Duration, Instant};

use mooncake_client::{
    Buffer, ErrorCode, Fragment, GetTarget, PutSource, Ranged, ReplicateConfig, SliceList, Store,
    StoreConfig,
};

use crate::master::{CLUSTER, Master, TOKEN};

/// A configuration for this master, with a segment of `segment_bytes`.
pub(crate) fn config(master: &Master, segment_bytes: u64) -> StoreConfig {
    StoreConfig {
        master: master.address(),
        segment_bytes,
        cluster_id: CLUSTER.to_owned(),
        auth_token: TOKEN.into(),
        rpc_connect_timeout: Duration::from_secs(5),
        ..StoreConfig::default()
    }
}

pub(crate) fn open(master: &Master, segment_bytes: u64) -> Store {
    Store::open(config(master, segment_bytes)).expect("the store opens")
}

/// Bytes generated from the key and from their offset.
pub(crate) fn content(key: &str, len: usize) -> Vec<u8> {
    let word = |at: usize| {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ (at as u64);
        for byte in key.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        (hash ^ (hash >> 29)).to_le_bytes()
    };
    (0..len.div_ceil(8)).flat_map(word).take(len).collect()
}

pub(crate) fn put(store: &Store, key: &str, len: usize, replicas: u32) -> Result<(), ErrorCode> {
    let bytes = Buffer::from_vec(content(key, len));
    let config = ReplicateConfig { replica_num: replicas, ..ReplicateConfig::default() };
    store.put(&[PutSource::new(key, SliceList::from(bytes.raw()))], &config).remove(0)
}

pub(crate) fn upsert(
    store: &Store,
    key: &str,
    bytes: &[u8],
    replicas: u32,
) -> Result<(), ErrorCode> {
    let bytes = Buffer::from_vec(bytes.to_vec());
    let config = ReplicateConfig { replica_num: replicas, ..ReplicateConfig::default() };
    store.upsert(&[PutSource::new(key, SliceList::from(bytes.raw()))], &config).remove(0)
}

/// A part of an object, at the same offset in a buffer as long as the object.
pub(crate) fn fragment(buffer: &Buffer, from: usize, len: usize) -> Fragment<'_> {
    Fragment { object_offset: from as u64, slice: buffer.raw().sub(from, len).into() }
}

/// One item of a ranged call.
pub(crate) fn ranged<'a>(key: &'a str, fragments: &[Fragment<'a>]) -> Ranged<'a> {
    Ranged { key, fragments: fragments.to_vec() }
}

/// The names of the segments that hold an object, sorted.
pub(crate) fn places(store: &Store, key: &str) -> Vec<String> {
    let location = store.locate(&[key]).remove(0).expect("it is there");
    let mut names: Vec<String> = location.segment_names().map(ToString::to_string).collect();
    names.sort();
    names
}

pub(crate) fn get(store: &Store, key: &str) -> Result<Vec<u8>, ErrorCode> {
    store.get(&[key]).remove(0).map(Buffer::into_vec)
}

pub(crate) fn get_into(store: &Store, key: &str, room: &Buffer) -> Result<u64, ErrorCode> {
    store.get_into(&[GetTarget { key, dst: SliceList::from(room.raw()) }]).remove(0)
}

/// Polls until the condition holds, for at most ten seconds.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
