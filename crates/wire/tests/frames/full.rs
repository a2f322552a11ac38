use mooncake_types::limits::{
    MAX_ATTRIBUTES_BYTES, MAX_BATCH_KEYS, MAX_DRAIN_SEGMENTS, MAX_DUMMY_PIECES, MAX_FETCHED_DROPS,
    MAX_FETCHED_TASKS, MAX_FRAME_RANGES, MAX_GROUP_BYTES, MAX_INVENTORY_PAGE_ENTRIES,
    MAX_KEY_BYTES, MAX_LISTED_SEGMENTS, MAX_NAME_BYTES, MAX_TASK_MESSAGE_BYTES,
};
use mooncake_types::{
    ChangesPage, DrainReport, DummyFragments, DummyObject, DummyPut, DummyReply, DummyRequest,
    EntryState, Epoch, ErrorCode, FollowPage, Grant, InventoryEntry, InventoryPage, ListedSegment,
    Piece, PutItem, PutMode, PutStart, RangeDrop, RangeRead, RangeWrite, ReplicateConfig, Reply,
    Request, Seal, SegmentAddress, SegmentId, SegmentPage, TaskOrder, TaskOrders, TaskReport,
    Version,
};
use mooncake_wire::Kind;

use crate::frame::{Frame, decode, split};

/// The largest frames within the limits encode and decode to themselves.
#[test]
fn a_batch_within_the_limits_fits_a_frame() {
    let key = &*"k".repeat(MAX_KEY_BYTES);
    let (most, segment) = (u64::MAX, SegmentId(u128::MAX));
    let version = Version { epoch: Epoch(most), counter: most };
    let read = RangeRead {
        segment,
        offset: most,
        version,
        object_offset: most,
        from: most,
        len: most,
        seal: Seal(most),
    };
    let write = RangeWrite {
        segment,
        offset: most,
        entry_len: most,
        from: most,
        len: most,
        key,
        version,
        grant: version,
        object_len: most,
        object_offset: most,
        attributes: &[0xFF; MAX_ATTRIBUTES_BYTES],
        seal: Seal(most),
    };
    let group = &*"g".repeat(MAX_GROUP_BYTES);
    let put = PutItem { group, session: group, ..PutItem::new(key, most) };
    let config = ReplicateConfig::default();
    let start = PutStart { puts: vec![put; MAX_BATCH_KEYS], config, ..PutStart::default() };
    let message = "m".repeat(MAX_TASK_MESSAGE_BYTES);
    let report = TaskReport { created_ms_ago: most, message, ..TaskReport::default() };
    let order = TaskOrder { key: key.into(), version, grant: version, ..TaskOrder::default() };
    let orders = vec![order; MAX_FETCHED_TASKS as usize];
    let grant = Grant {
        version,
        placements: vec![],
        attributes: write.attributes.to_vec(),
        drop_seals: Vec::new(),
    };
    let drop = RangeDrop { segment, offset: most, version, grant: version };
    let drops = vec![drop; MAX_FETCHED_DROPS as usize];
    let keys = vec![key; MAX_BATCH_KEYS];
    let retract = Request::Retract { keys, ranges: drops.clone() };
    let results = vec![Err(ErrorCode::TenantNotEmpty); MAX_FRAME_RANGES];
    let frames = [
        Frame::Request(Request::PutStart(start)),
        Frame::Request(Request::FetchDrops { dropped: drops.clone(), limit: u32::MAX }),
        Frame::Request(Request::Dropped { dropped: drops.clone() }),
        Frame::Request(retract),
        Frame::Reply(Reply::Drops(drops)),
        Frame::Reply(Reply::Granted { results: vec![Ok(grant); MAX_BATCH_KEYS], segments: vec![] }),
        Frame::Request(Request::ClearReplicas { keys: vec![key; MAX_BATCH_KEYS], segment: key }),
        Frame::Reply(Reply::TaskReported(report)),
        Frame::Reply(Reply::Draining(Box::new(full_drain()))),
        Frame::Reply(Reply::TasksFetched(TaskOrders { orders, segments: vec![] })),
        Frame::Read(vec![read; MAX_FRAME_RANGES]),
        Frame::Results(Kind::ReadReply, results.clone()),
        Frame::Write(Epoch(most), vec![write; MAX_FRAME_RANGES]),
        Frame::Results(Kind::WriteReply, results.clone()),
        Frame::Drop(vec![(drop, Seal(most)); MAX_FRAME_RANGES]),
        Frame::Results(Kind::DropReply, results.clone()),
        Frame::Expose(vec![read; MAX_FRAME_RANGES]),
        Frame::Pin(vec![read; MAX_FRAME_RANGES]),
        Frame::Results(Kind::PinReply, results.clone()),
        Frame::Unpin(vec![most; MAX_FRAME_RANGES]),
        Frame::Promise(vec![read; MAX_FRAME_RANGES]),
        Frame::Results(Kind::PromiseReply, results),
    ];
    frames.iter().for_each(comes_back);
}

/// The same for pages of inventories and changes.
#[test]
fn a_page_within_the_limits_fits_a_frame() {
    let key = &*"k".repeat(MAX_KEY_BYTES);
    let (most, segment) = (u64::MAX, SegmentId(u128::MAX));
    let version = Version { epoch: Epoch(most), counter: most };
    let entry = InventoryEntry {
        offset: most,
        len: most,
        key,
        version,
        grant: version,
        object_len: most,
        object_offset: most,
        state: EntryState::Writing,
        attributes: &[0xFF; MAX_ATTRIBUTES_BYTES],
    };
    let entries = vec![entry; MAX_INVENTORY_PAGE_ENTRIES];
    let gone = vec![most; MAX_INVENTORY_PAGE_ENTRIES];
    let changes = ChangesPage {
        segment,
        page: u32::MAX,
        last: true,
        entries: entries.clone(),
        gone: gone.clone(),
    };
    let followed =
        FollowPage { entries: entries.clone(), gone, cursor: most, next: Some(most), more: true };
    let page = InventoryPage { segment, run: most, page: u32::MAX, last: true, entries };
    let frames = [
        Frame::Request(Request::ReportInventory(page)),
        Frame::Request(Request::ReportChanges(changes)),
        Frame::FollowReply(Ok((segment, followed))),
        Frame::Reply(Reply::Segments(full_list())),
    ];
    frames.iter().for_each(comes_back);
}

/// The same for requests of dummy clients.
#[test]
fn a_call_of_a_dummy_within_the_limits_fits_a_frame() {
    let key = &*"k".repeat(MAX_KEY_BYTES);
    let group = &*"g".repeat(MAX_GROUP_BYTES);
    let piece = Piece { map: u32::MAX, offset: u64::MAX, len: u64::MAX };
    let pieces = vec![piece; MAX_DUMMY_PIECES / MAX_BATCH_KEYS];
    let object = DummyObject { key, pieces };
    let fragments = object.pieces.iter().map(|piece| (u64::MAX, *piece)).collect();
    let fragments = DummyFragments { key, fragments };
    let put = DummyPut { object: object.clone(), group, session: group };
    let config = ReplicateConfig::default();
    let puts = vec![put; MAX_BATCH_KEYS];
    let lengths = vec![Ok(u64::MAX); MAX_DUMMY_PIECES];
    let frames = [
        Frame::DummyRequest(DummyRequest::Put { mode: PutMode::Upsert, config, puts }),
        Frame::DummyRequest(DummyRequest::Get { objects: vec![object; MAX_BATCH_KEYS] }),
        Frame::DummyRequest(DummyRequest::GetFragments {
            objects: vec![fragments; MAX_BATCH_KEYS],
        }),
        Frame::DummyReply(DummyReply::Lengths(lengths)),
    ];
    frames.iter().for_each(comes_back);
}

fn comes_back(sent: &Frame<'_>) {
    let bytes = sent.encode(1);
    let (header, body) = split(&bytes);
    let same = decode(header.kind, body, |received| received == *sent);
    assert_eq!(same, Ok(true), "{:?}", header.kind);
}

fn full_list() -> SegmentPage {
    let name = "s".repeat(MAX_NAME_BYTES);
    let id = SegmentId(u128::MAX);
    let address = SegmentAddress {
        id,
        name: name.as_str().into(),
        endpoint: name.into(),
        medium: mooncake_types::Medium::Memory,
    };
    let listed = ListedSegment { address, len: u64::MAX, seal: Seal(u64::MAX) };
    let segments = vec![listed; MAX_LISTED_SEGMENTS as usize];
    let put_obstacle = "m".repeat(MAX_TASK_MESSAGE_BYTES);
    SegmentPage { segments, next: Some(u32::MAX), put_obstacle }
}

fn full_drain() -> DrainReport {
    DrainReport {
        segments: vec!["s".repeat(MAX_NAME_BYTES); MAX_DRAIN_SEGMENTS],
        moved_units: u64::MAX,
        message: "m".repeat(MAX_TASK_MESSAGE_BYTES),
        ..DrainReport::default()
    }
}
