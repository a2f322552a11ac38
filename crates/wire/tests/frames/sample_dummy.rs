//! Frames between a dummy client and its host process.

use mooncake_types::{
    DummyFragments, DummyObject, DummyPut, DummyReply, DummyRequest, ErrorCode, ExistOptions,
    Located, Piece, PutMode, ReplicateConfig, SegmentId, SoftPin,
};

use crate::frame::Frame;
use crate::sample::{KEYS, addresses, placements, version};

pub(crate) fn all() -> impl Iterator<Item = (&'static str, Frame<'static>)> {
    let requests = requests().into_iter().map(|(name, it)| (name, Frame::DummyRequest(it)));
    requests.chain(replies().into_iter().map(|(name, it)| (name, Frame::DummyReply(it))))
}

fn requests() -> Vec<(&'static str, DummyRequest<'static>)> {
    let piece = |map| Piece { map, offset: u64::from(map) << 40, len: u64::MAX };
    let object = |key, count| DummyObject { key, pieces: (0..count).map(piece).collect() };
    let put = |key, group| DummyPut { object: object(key, 2), group, session: "" };
    let config = ReplicateConfig {
        replica_num: 3,
        soft_pin: SoftPin::Enable { ttl_ms: Some(7) },
        hard_pin: true,
        preferred_segments: vec!["node-1:12345"],
        excluded_segments: vec![SegmentId(1)],
        same_node: true,
        data_type: 9,
    };
    let (mode, puts) = (PutMode::Upsert, vec![put(KEYS[0], ""), put(KEYS[2], "gruppe-ä")]);
    let upsert = DummyRequest::Put { mode, config, puts };
    let (mode, config) = (PutMode::Insert, ReplicateConfig::default());
    let insert = DummyRequest::Put { mode, config, puts: vec![put(KEYS[0], "")] };
    let puts = vec![DummyPut { session: "sitzung-ä", ..put(KEYS[0], "") }, put(KEYS[2], "")];
    let of_session = DummyRequest::Put { mode, config: ReplicateConfig::default(), puts };
    let fragments = vec![(5, piece(0)), (u64::MAX, piece(1))];
    let fragments = vec![
        DummyFragments { key: KEYS[2], fragments },
        DummyFragments { key: KEYS[0], fragments: vec![] },
    ];
    vec![
        ("dummy, attach", DummyRequest::Attach { attachment: None }),
        ("dummy, attach again", DummyRequest::Attach { attachment: Some(u128::MAX - 1) }),
        ("dummy, share memory", DummyRequest::ShareMemory { len: 1 << 40 }),
        ("dummy, unshare memory", DummyRequest::UnshareMemory { map: 3 }),
        ("dummy, health", DummyRequest::Health),
        ("dummy, put", insert),
        ("dummy, upsert", upsert),
        ("dummy, put of a session", of_session),
        ("dummy, get", DummyRequest::Get { objects: vec![object(KEYS[0], 2), object("", 0)] }),
        ("dummy, get fragments", DummyRequest::GetFragments { objects: fragments }),
        ("dummy, exist", DummyRequest::exist(KEYS.to_vec())),
        ("dummy, prefix length", DummyRequest::PrefixLen { keys: KEYS.to_vec(), leased_from: 0 }),
        ("dummy, probe", DummyRequest::Exist { keys: KEYS.to_vec(), options: ExistOptions::PROBE }),
        (
            "dummy, prefix length from a position",
            DummyRequest::PrefixLen { keys: KEYS.to_vec(), leased_from: 1 },
        ),
        ("dummy, locate", DummyRequest::Locate { to_get: true, keys: KEYS.to_vec() }),
        ("dummy, remove", DummyRequest::Remove { keys: KEYS.to_vec(), force: true }),
        ("dummy, remove all", DummyRequest::RemoveMatching { pattern: None, force: false }),
        (
            "dummy, remove matching",
            DummyRequest::RemoveMatching { pattern: Some("^a"), force: true },
        ),
        ("dummy, list", DummyRequest::List { pattern: ".*" }),
        (
            "dummy, clear replicas",
            DummyRequest::ClearReplicas { keys: KEYS.to_vec(), segment: "node-1:12345" },
        ),
    ]
}

fn replies() -> Vec<(&'static str, DummyReply)> {
    const MISSING: ErrorCode = ErrorCode::ObjectNotFound;
    let located = Located { version: version(), len: 1 << 20, placements: placements() };
    let located = || located.clone();
    vec![
        ("dummy, attached", DummyReply::Attached { attachment: 5, hostname: "host:1".into() }),
        ("dummy, memory shared", DummyReply::MemoryShared { map: 3 }),
        ("dummy, statuses", DummyReply::Statuses(vec![Ok(()), Err(MISSING)])),
        ("dummy, healthy", DummyReply::Health(true)),
        ("dummy, lengths", DummyReply::Lengths(vec![Ok(u64::MAX), Err(MISSING), Ok(0)])),
        ("dummy, prefix counted", DummyReply::PrefixLen(2)),
        ("dummy, existing", DummyReply::Exist(vec![Ok(true), Ok(false), Err(MISSING)])),
        (
            "dummy, located",
            DummyReply::Located {
                results: vec![Ok(located()), Err(MISSING)],
                segments: addresses(),
            },
        ),
        ("dummy, removed", DummyReply::Removed(9)),
        (
            "dummy, listed",
            DummyReply::Listed {
                objects: vec![("schlüssel".into(), located())],
                segments: addresses(),
            },
        ),
        ("dummy, refused", DummyReply::Refused(ErrorCode::RpcFail)),
    ]
}
