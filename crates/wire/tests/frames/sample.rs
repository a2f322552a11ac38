use bytes::Bytes;
use mooncake_types::{
    ChangesPage, ClientId, CreateTask, DrainId, DrainReport, DrainStatus, EntryState, Epoch,
    ErrorCode, ExistOptions, Follow, FollowPage, Grant, InventoryEntry, InventoryPage,
    ListedSegment, Located, MountOutcome, MountSegment, Placement, Pong, Prefetch, PrefetchLimits,
    PutEnd, PutItem, PutMode, PutRevoke, PutStart, RangeDrop, RangeRead, RangeWrite, ReadCounts,
    ReadReport, ReadVolume, RemainingRange, Remains, ReplicateConfig, Reply, Request, Scan,
    ScanAction, ScanPage, Seal, SegmentAddress, SegmentId, SegmentPage, SharedDirectory, SoftPin,
    TaskId, TaskKind, TaskOrder, TaskOrders, TaskReport, TaskStatus, Version,
};
use mooncake_wire::{
    Begun, Hello, Kind, LocalSocket, PROTOCOL_VERSION, Proof, Refusal, RemoteSegment, Role, Shared,
    TransportDescriptor, Welcome,
};

use crate::frame::Frame;
use crate::{sample_dummy, sample_sealed};

const SEGMENT: SegmentId = SegmentId(0x0011_2233_4455_6677_8899_AABB_CCDD_EEFF);
const OTHER: SegmentId = SegmentId(1);
const TASK: TaskId = TaskId(0x0F0E_0D0C_0B0A_0908_0706_0504_0302_0100);
pub(crate) const KEYS: [&str; 3] = ["model@layer-0@block-17", "", "schlüssel"];

const READS: ReadReport = ReadReport {
    run: 7,
    counts: ReadCounts {
        get_hits: 1,
        get_misses: 2,
        exist_hits: 3,
        exist_misses: 4,
        own: ReadVolume { objects: 5, bytes: 6 },
        host: ReadVolume { objects: 7, bytes: 8 },
        tcp: ReadVolume { objects: 9, bytes: u64::MAX },
        disk: ReadVolume { objects: 11, bytes: 12 },
        shared_disk: ReadVolume { objects: 13, bytes: 14 },
        object_store: ReadVolume { objects: 15, bytes: 16 },
        fabric: ReadVolume { objects: 17, bytes: 18 },
    },
    confirmed: ReadCounts {
        get_hits: 1,
        get_misses: 0,
        exist_hits: 0,
        exist_misses: 0,
        own: ReadVolume { objects: 0, bytes: 0 },
        host: ReadVolume { objects: 0, bytes: 0 },
        tcp: ReadVolume { objects: 9, bytes: 10 },
        disk: ReadVolume { objects: 1, bytes: 2 },
        shared_disk: ReadVolume { objects: 0, bytes: 0 },
        object_store: ReadVolume { objects: 1, bytes: 2 },
        fabric: ReadVolume { objects: 0, bytes: 0 },
    },
};

/// A named frame for every kind, every operation and every result.
pub(crate) fn all() -> Vec<(&'static str, Frame<'static>)> {
    let mut frames = handshake();
    frames.extend(segments().map(|(name, request)| (name, Frame::Request(request))));
    frames.extend(objects().map(|(name, request)| (name, Frame::Request(request))));
    frames.extend(with_options().map(|(name, request)| (name, Frame::Request(request))));
    frames.extend(tasks().map(|(name, request)| (name, Frame::Request(request))));
    frames.extend(task_replies().map(|(name, reply)| (name, Frame::Reply(reply))));
    frames.extend(replies().map(|(name, reply)| (name, Frame::Reply(reply))));
    frames.extend(places().map(|(name, reply)| (name, Frame::Reply(reply))));
    frames.extend(recovery().map(|(name, reply)| (name, Frame::Reply(reply))));
    frames.extend(data());
    frames.extend(following());
    frames.extend(sample_dummy::all());
    frames.extend(sample_sealed::sealed());
    frames
}

fn handshake() -> Vec<(&'static str, Frame<'static>)> {
    let hello = Hello {
        protocol_version: PROTOCOL_VERSION,
        cluster_id: "mooncake_cluster".into(),
        role: Role::Node,
        client: ClientId(0xFFEE_DDCC_BBAA_9988_7766_5544_3322_1100),
        auth_token: "".into(),
    };
    let plain = Hello { role: Role::Client, cluster_id: "".into(), ..hello.clone() };
    let welcome = Welcome {
        protocol_version: PROTOCOL_VERSION,
        epoch: Epoch(42),
        software_version: "0.1.0".into(),
        local_socket: None,
        shared_directory: None,
        transports: vec![],
        mac: None,
    };
    let proved = Welcome { mac: Some([0xC3; 32]), ..welcome.clone() };
    let proof = Proof { nonce: [7; 16], mac: [0x3C; 32] };
    let local_socket = LocalSocket {
        boot_id: "d3c4b5a6-0000-4000-8000-123456789abc".into(),
        network_namespace: 4_026_531_840,
        instance: 0x0011_2233_4455_6677_8899_AABB_CCDD_EEFF,
    };
    let shared = Welcome {
        shared_directory: Some(SharedDirectory {
            path: "/mnt/pool/green".to_owned(),
            most_bytes: 1 << 40,
            evicts: true,
        }),
        ..welcome.clone()
    };
    let transport = TransportDescriptor {
        kind: "libfabric:tcp;ofi_rxm".to_owned(),
        address: Bytes::from_static(&[1, 2, 3]),
    };
    let far = Welcome { transports: vec![transport], ..welcome.clone() };
    let near = Welcome { local_socket: Some(local_socket), ..welcome.clone() };
    let refusal = Refusal { code: ErrorCode::IllegalClient, message: "who are you?".into() };
    let first = Welcome { epoch: Epoch(0), software_version: "".into(), ..welcome.clone() };
    vec![
        ("hello", Frame::Hello(hello)),
        ("hello, no cluster", Frame::Hello(plain)),
        ("challenge", Frame::Challenge([9; 16])),
        ("proof", Frame::Proof(proof)),
        ("welcome, with a proof", Frame::Welcome(proved)),
        ("welcome", Frame::Welcome(welcome)),
        ("welcome, no epoch yet", Frame::Welcome(first)),
        ("welcome, with a local socket", Frame::Welcome(near)),
        ("welcome, with a shared directory", Frame::Welcome(shared)),
        ("welcome, with a transport", Frame::Welcome(far)),
        ("refusal", Frame::Refusal(refusal)),
    ]
}

fn segments() -> impl Iterator<Item = (&'static str, Request<'static>)> {
    let mount = MountSegment {
        id: SEGMENT,
        name: "node-1:12345",
        endpoint: "10.0.0.1:12345",
        len: 3 << 30,
        seen_epoch: Epoch(41),
        is_empty: true,
        run: 3,
        medium: mooncake_types::Medium::Memory,
        domains: &[],
        seal_key: None,
    };
    let domains = vec!["rack=r7".to_owned(), "zone=east".to_owned()];
    let in_domains = MountSegment { domains: domains.leak(), ..mount };
    let empty_page = InventoryPage { segment: OTHER, last: true, ..InventoryPage::default() };
    [
        (
            "ping",
            Request::Ping { segments: vec![SEGMENT, OTHER], unreachable: vec![], reads: None },
        ),
        ("ping, no segments", Request::Ping { segments: vec![], unreachable: vec![], reads: None }),
        (
            "ping, unreachable",
            Request::Ping { segments: vec![SEGMENT], unreachable: vec![OTHER], reads: None },
        ),
        (
            "ping, reads",
            Request::Ping { segments: vec![], unreachable: vec![], reads: Some(Box::new(READS)) },
        ),
        ("leave", Request::Leave { reads: None }),
        ("leave, reads", Request::Leave { reads: Some(Box::new(READS)) }),
        ("mount segment", Request::MountSegment(mount)),
        ("mount segment, failure domains", Request::MountSegment(in_domains)),
        (
            "mount segment, not empty",
            Request::MountSegment(MountSegment { is_empty: false, run: 0, ..mount }),
        ),
        ("report inventory", Request::ReportInventory(page())),
        ("report inventory, all columns", Request::ReportInventory(full_page())),
        ("report inventory, nothing", Request::ReportInventory(empty_page)),
        ("fetch drops", Request::FetchDrops { dropped: vec![drop_of(SEGMENT)], limit: 4096 }),
        ("fetch drops, none dropped", Request::FetchDrops { dropped: vec![], limit: 1 }),
        ("unmount segment", unmount(30_000, "")),
        ("unmount segment, failed", unmount(0, "its reads keep failing")),
    ]
    .into_iter()
}

fn objects() -> impl Iterator<Item = (&'static str, Request<'static>)> {
    let puts = vec![PutItem::new(KEYS[0], 1 << 20), PutItem::new(KEYS[2], 0)];
    let config = ReplicateConfig {
        replica_num: 3,
        soft_pin: SoftPin::Enable { ttl_ms: Some(60_000) },
        hard_pin: true,
        preferred_segments: vec!["node-1:12345", "node-2:12345"],
        excluded_segments: vec![OTHER],
        same_node: true,
        data_type: 255,
    };
    let grouped = PutItem { group: "gruppe-ä", ..puts[0] };
    let upsert =
        PutStart { puts: vec![grouped, puts[1]], mode: PutMode::Upsert, ..PutStart::default() };
    let plain = PutStart { puts: puts.clone(), ..PutStart::default() };
    let end = |key, failed_replicas| PutEnd {
        key,
        version: version(),
        failed_replicas,
        held_replicas: 0,
    };
    let revoked = vec![PutRevoke::new(KEYS[0], version())];
    let held = vec![PutRevoke { held_replicas: 5, ..revoked[0] }];
    let list = Scan {
        tenant: Some("default"),
        pattern: Some("^model@"),
        action: ScanAction::List,
        cursor: 1 << 40,
        limit: 1000,
    };
    let remove = Scan {
        tenant: Some("default"),
        pattern: None,
        action: ScanAction::Remove { force: true },
        cursor: 0,
        limit: u32::MAX,
    };
    [
        ("put start", Request::PutStart(PutStart { puts, config, mode: PutMode::Insert })),
        ("put start, plain", Request::PutStart(plain)),
        ("put start, upsert of a group", Request::PutStart(upsert)),
        ("put end", Request::PutEnd { puts: vec![end(KEYS[0], 0), end(KEYS[2], u32::MAX)] }),
        ("put revoke", Request::PutRevoke { puts: revoked }),
        ("put revoke, held", Request::PutRevoke { puts: held }),
        ("get replica list", Request::GetReplicaList { keys: KEYS.to_vec() }),
        ("renew routes", Request::RenewRoutes { keys: KEYS.to_vec(), uses: vec![1, 0, u32::MAX] }),
        ("exist key", Request::exist(KEYS.to_vec())),
        ("exist key, no keys", Request::exist(vec![])),
        ("prefetch", Request::Prefetch { keys: KEYS.to_vec() }),
        ("prefix length", Request::prefix_len(KEYS.to_vec())),
        ("remove", Request::Remove { keys: vec![KEYS[0]], force: false }),
        ("dropped", Request::Dropped { dropped: vec![drop_of(SEGMENT), drop_of(OTHER)] }),
        ("retract", retract(KEYS.to_vec())),
        ("retract, no keys", retract(vec![])),
        ("report losses", losses()),
        ("remove, forced", Request::Remove { keys: vec![KEYS[0]], force: true }),
        ("scan, list", Request::Scan(list)),
        ("scan, remove", Request::Scan(remove)),
    ]
    .into_iter()
}

/// Requests that name sessions, grant no leases or promote objects.
fn with_options() -> impl Iterator<Item = (&'static str, Request<'static>)> {
    let of_session = PutItem { session: "sitzung-ä", ..PutItem::new(KEYS[0], 1 << 20) };
    let puts = vec![of_session, PutItem::new(KEYS[2], 0)];
    let prefetch = Some(PrefetchLimits { cooldown_ms: 5_000, rest_ms: 0 });
    let prefetching = ExistOptions { prefetch, ..ExistOptions::default() };
    let ask = |options| Request::ExistKey { keys: KEYS.to_vec(), options };
    let prefix = Request::PrefixLen { keys: KEYS.to_vec(), leased_from: 300 };
    [
        ("put start, of a session", Request::PutStart(PutStart { puts, ..PutStart::default() })),
        ("exist key, a probe", ask(ExistOptions::PROBE)),
        ("exist key, with a prefetch", ask(prefetching)),
        ("prefix length from a position", prefix),
    ]
    .into_iter()
}

fn tasks() -> impl Iterator<Item = (&'static str, Request<'static>)> {
    let copy = CreateTask {
        key: KEYS[2],
        kind: TaskKind::Copy,
        source: "",
        targets: vec!["node-1:12345", "node-2:12345"],
    };
    let moving = CreateTask {
        kind: TaskKind::Move,
        source: "node-1:12345",
        targets: vec!["node-2:12345"],
        ..copy.clone()
    };
    let failed = Err(ErrorCode::TransferFail);
    [
        ("clear replicas", Request::ClearReplicas { keys: KEYS.to_vec(), segment: "" }),
        (
            "clear replicas, of a segment",
            Request::ClearReplicas { keys: vec![KEYS[0]], segment: "node-1:12345" },
        ),
        ("create task, copy", Request::CreateTask(copy)),
        ("create task, move", Request::CreateTask(moving)),
        ("query task", Request::QueryTask { id: TASK }),
        ("fetch tasks", Request::FetchTasks { limit: 64, wait_ms: 500 }),
        ("drain segments", Request::DrainSegments { segments: vec![SEGMENT, OTHER] }),
        ("end task", Request::EndTask { id: TASK, outcome: Ok(()) }),
        ("end task, failed", Request::EndTask { id: TASK, outcome: failed }),
    ]
    .into_iter()
}

fn task_replies() -> impl Iterator<Item = (&'static str, Reply)> {
    let report = TaskReport {
        id: TASK,
        kind: TaskKind::Move,
        status: TaskStatus::Failed,
        created_ms_ago: 61_000,
        updated_ms_ago: 5,
        assigned: ClientId(7),
        message: "no room".into(),
    };
    let pending = TaskReport { id: TASK, assigned: ClientId(7), ..TaskReport::default() };
    let order = TaskOrder {
        id: TASK,
        key: KEYS[0].into(),
        version: version(),
        len: 1 << 19,
        grant: Version { counter: 0x0102_0304_0506_0709, ..version() },
        source: placements()[..1].to_vec(),
        targets: placements()[1..].to_vec(),
        attributes: Vec::new(),
    };
    let noted = TaskOrder { attributes: vec![9; 3], ..order.clone() };
    let bare = TaskOrder { key: KEYS[2].into(), ..TaskOrder::default() };
    let noted = TaskOrders { orders: vec![noted, bare.clone()], segments: addresses() };
    let orders = TaskOrders { orders: vec![order, bare], segments: addresses() };
    [
        ("task created", Reply::TaskCreated(TASK)),
        ("task reported", Reply::TaskReported(report)),
        ("task reported, pending", Reply::TaskReported(pending)),
        ("tasks fetched", Reply::TasksFetched(orders)),
        ("tasks fetched, with attributes", Reply::TasksFetched(noted)),
        ("tasks fetched, none", Reply::TasksFetched(TaskOrders::default())),
        ("draining", Reply::Draining(Box::new(drain_report()))),
        ("draining, created", Reply::Draining(Box::default())),
    ]
    .into_iter()
}

fn replies() -> impl Iterator<Item = (&'static str, Reply)> {
    let pong = Pong {
        need_remount: true,
        epoch: Epoch(42),
        client_ttl_ms: 10_000,
        has_tasks: false,
        has_drops: false,
        routes_ms: 1_350,
        is_unreached: false,
    };
    let busy = Pong { has_tasks: true, ..pong };
    let holding = Pong { has_drops: true, ..pong };
    let unreached = Pong { is_unreached: true, ..pong };
    let grant = Grant {
        version: version(),
        placements: placements(),
        attributes: Vec::new(),
        drop_seals: Vec::new(),
    };
    let located = Located { version: version(), len: 1 << 20, placements: placements() };
    let page = ScanPage {
        next_cursor: Some(1 << 40),
        removed: 0,
        remains: Box::default(),
        objects: vec![(KEYS[0].into(), located)],
        segments: addresses(),
    };
    let removed = ScanPage { removed: 16_384, ..ScanPage::default() };
    let removed_by_force =
        ScanPage { removed: 2, remains: Box::new(remains()), ..ScanPage::default() };
    [
        ("pong", Reply::Pong(pong)),
        ("pong, tasks", Reply::Pong(busy)),
        ("pong, drops", Reply::Pong(holding)),
        ("pong, not reached", Reply::Pong(unreached)),
        ("done", Reply::Done(Ok(()))),
        ("done, not", Reply::Done(Err(ErrorCode::SegmentNotFound))),
        (
            "granted",
            Reply::Granted {
                results: vec![Ok(grant), Err(ErrorCode::NoAvailableHandle), Ok(Grant::default())],
                segments: addresses(),
            },
        ),
        ("granted, nothing", Reply::Granted { results: vec![], segments: vec![] }),
        ("statuses", Reply::Statuses(vec![Ok(()), Err(ErrorCode::ObjectHasLease), Ok(())])),
        (
            "remaining",
            Reply::Remaining {
                results: vec![Ok(()), Err(ErrorCode::ObjectNotFound)],
                remains: remains(),
            },
        ),
        ("scanned, removed, remaining", Reply::Scanned(removed_by_force)),
        ("exist", Reply::Exist(vec![Ok(true), Ok(false), Err(ErrorCode::InvalidKey)])),
        ("prefix counted", Reply::PrefixLen(2)),
        (
            "prefetched",
            Reply::Prefetched(vec![
                Ok(Prefetch::InMemory),
                Ok(Prefetch::UnderWay),
                Err(ErrorCode::ObjectNotFound),
            ]),
        ),
        ("scanned", Reply::Scanned(page)),
        ("scanned, removed", Reply::Scanned(removed)),
        ("refused", Reply::Refused(ErrorCode::UnavailableInCurrentMode)),
    ]
    .into_iter()
}

/// Replies that locate objects.
fn places() -> impl Iterator<Item = (&'static str, Reply)> {
    let located = Located { version: version(), len: 1 << 20, placements: placements() };
    let newer = vec![(1, Located { len: 9, ..located.clone() })];
    let older = remains().ranges.into_iter().map(|range| (1, range)).collect();
    let reply = |successors, predecessors, lease_ms| Reply::Located {
        results: vec![Err(ErrorCode::ObjectNotFound), Ok(located.clone())],
        successors,
        predecessors,
        segments: addresses(),
        lease_ms,
    };
    [
        ("located", reply(vec![], vec![], 5000)),
        ("located, with a newer version", reply(newer, vec![], 12)),
        ("located, with what is older", reply(vec![], older, 5000)),
    ]
    .into_iter()
}

/// Replies of recovery.
fn recovery() -> impl Iterator<Item = (&'static str, Reply)> {
    let noted = Grant {
        version: version(),
        placements: placements(),
        attributes: vec![3, 1, 4],
        drop_seals: Vec::new(),
    };
    [
        ("mounted", Reply::Mounted(MountOutcome::Ready)),
        ("mounted, wants inventory", Reply::Mounted(MountOutcome::WantsInventory)),
        ("mounted, start empty", Reply::Mounted(MountOutcome::StartEmpty)),
        ("drops", Reply::Drops(vec![drop_of(SEGMENT), drop_of(OTHER)])),
        ("drops, none", Reply::Drops(vec![])),
        (
            "granted, with attributes",
            Reply::Granted {
                results: vec![Err(ErrorCode::NoAvailableHandle), Ok(noted), Ok(Grant::default())],
                segments: addresses(),
            },
        ),
    ]
    .into_iter()
}

fn data() -> Vec<(&'static str, Frame<'static>)> {
    let read = RangeRead {
        segment: SEGMENT,
        offset: 5 << 30,
        version: version(),
        object_offset: 0,
        from: 4096,
        len: 65_536,
        seal: Seal::NONE,
    };
    let write = RangeWrite {
        segment: SEGMENT,
        offset: 5 << 30,
        entry_len: 1 << 19,
        from: 0,
        len: 1 << 19,
        key: KEYS[0],
        version: version(),
        grant: version(),
        object_len: 1 << 20,
        object_offset: 1 << 19,
        attributes: &[],
        seal: Seal::NONE,
    };
    let results = || vec![Ok(()), Err(ErrorCode::ObjectNotFound), Err(ErrorCode::TransferFail)];
    let reads = vec![read, RangeRead { segment: OTHER, from: 0, ..read }];
    let striped = vec![read, RangeRead { object_offset: 1 << 30, ..read }];
    let writes = vec![write, RangeWrite { key: KEYS[2], object_offset: 0, ..write }];
    let part = RangeWrite { from: 1 << 18, len: 1 << 18, ..write };
    let noted = RangeWrite { attributes: &[7, 7], ..write };
    let copy = RangeWrite { grant: Version { counter: u64::MAX, ..version() }, ..write };
    let shared = Shared { len: 3 << 30, address: 0x7fff_1234_5000, has_memory: true, remote: None };
    let (memory, slots) = (Bytes::from_static(b"memory"), Bytes::from_static(b"slots"));
    let remote = Some(RemoteSegment { memory: memory.clone(), slots });
    let lent = Shared { address: 0, has_memory: false, remote, ..shared.clone() };
    let ranges = vec![Ok(memory), Err(ErrorCode::InvalidVersion)];
    let begun = Begun { address: Bytes::from_static(b"there"), ranges };
    vec![
        ("read", Frame::Read(reads)),
        ("read, striped", Frame::Read(striped)),
        ("read reply", Frame::Results(Kind::ReadReply, results())),
        ("write", Frame::Write(Epoch(42), writes)),
        ("write, in parts", Frame::Write(Epoch(42), vec![part, copy, write])),
        ("write, with attributes", Frame::Write(Epoch(42), vec![write, noted])),
        ("write, nothing", Frame::Write(Epoch(0), vec![])),
        ("write reply", Frame::Results(Kind::WriteReply, results())),
        ("drop", Frame::Drop(vec![(drop_of(SEGMENT), Seal::NONE), (drop_of(OTHER), Seal::NONE)])),
        ("drop reply", Frame::Results(Kind::DropReply, results())),
        ("share", Frame::Share(SEGMENT)),
        ("share reply", Frame::ShareReply(Ok(shared))),
        ("share reply, by a transport", Frame::ShareReply(Ok(lent))),
        ("share reply, refused", Frame::ShareReply(Err(ErrorCode::SegmentNotFound))),
        ("begin", Frame::Begin(Epoch(42), vec![part, write])),
        ("begin, with attributes", Frame::Begin(Epoch(42), vec![noted])),
        ("begin reply", Frame::Results(Kind::BeginReply, results())),
        ("begun", Frame::Begun(begun)),
        ("join", Frame::Join(Bytes::from_static(b"here"))),
        ("join reply", Frame::JoinReply(Ok(Bytes::from_static(b"there")))),
        ("join reply, refused", Frame::JoinReply(Err(ErrorCode::NoAvailableHandle))),
        ("complete", Frame::Results(Kind::Complete, results())),
        ("complete reply", Frame::Results(Kind::CompleteReply, results())),
        ("expose", Frame::Expose(vec![read, RangeRead { segment: OTHER, ..read }])),
        ("pin", Frame::Pin(vec![read, RangeRead { segment: OTHER, ..read }])),
        ("pin reply", Frame::Results(Kind::PinReply, results())),
        ("promise", Frame::Promise(vec![read, RangeRead { segment: OTHER, ..read }])),
        ("promise reply", Frame::Results(Kind::PromiseReply, results())),
        ("unpin", Frame::Unpin(vec![0, 7, u64::MAX])),
        ("keepalive", Frame::Keepalive),
    ]
}

/// Requests and replies between a standby and the nodes that it follows.
fn following() -> Vec<(&'static str, Frame<'static>)> {
    let begin = Follow { segment: SEGMENT, since: None, from: None, seal: Seal::NONE };
    let InventoryPage { entries, .. } = full_page();
    let changes = ChangesPage {
        segment: SEGMENT,
        page: 1,
        last: true,
        entries: entries.clone(),
        gone: vec![0, 1 << 40],
    };
    let listing = FollowPage {
        entries: page().entries,
        cursor: 1 << 50,
        next: Some(7 << 30),
        ..FollowPage::default()
    };
    let told = FollowPage { entries, gone: vec![1 << 40], cursor: 1, next: None, more: true };
    let listed = addresses().into_iter().zip([3 << 30, 1 << 46]);
    let listed = listed.map(|(address, len)| ListedSegment { address, len, seal: Seal::NONE });
    let listed =
        SegmentPage { segments: listed.collect(), next: Some(2), put_obstacle: String::new() };
    let refused = Err(ErrorCode::InvalidVersion);
    vec![
        ("report changes", Frame::Request(Request::ReportChanges(changes))),
        ("list segments", Frame::Request(Request::ListSegments { from: 2, limit: 4096 })),
        ("segments", Frame::Reply(Reply::Segments(listed))),
        ("segments, none", Frame::Reply(Reply::Segments(SegmentPage::default()))),
        (
            "mounted, wants changes",
            Frame::Reply(Reply::Mounted(MountOutcome::WantsChanges { since: 0 })),
        ),
        ("follow", Frame::Follow(begin)),
        ("follow, entries", Frame::Follow(Follow { since: Some(0), from: Some(5 << 30), ..begin })),
        ("follow, changes", Frame::Follow(Follow { since: Some(1 << 50), ..begin })),
        ("follow reply", Frame::FollowReply(Ok((SEGMENT, listing)))),
        ("follow reply, changes", Frame::FollowReply(Ok((OTHER, told)))),
        ("follow reply, refused", Frame::FollowReply(refused)),
    ]
}

fn drop_of(segment: SegmentId) -> RangeDrop {
    let grant = Version { counter: u64::MAX, ..version() };
    RangeDrop { segment, offset: 5 << 30, version: version(), grant }
}

fn unmount(grace_ms: u64, failure: &'static str) -> Request<'static> {
    Request::UnmountSegment { id: SEGMENT, grace_ms, failure }
}

fn losses() -> Request<'static> {
    Request::ReportLosses {
        keys: vec![KEYS[0], KEYS[1]],
        ranges: vec![drop_of(SEGMENT), drop_of(OTHER)],
    }
}

fn retract(keys: Vec<&'static str>) -> Request<'static> {
    Request::Retract { keys, ranges: vec![drop_of(SEGMENT), drop_of(OTHER)] }
}

fn entry() -> InventoryEntry<'static> {
    InventoryEntry {
        offset: 5 << 30,
        len: 1 << 19,
        key: KEYS[0],
        version: version(),
        grant: version(),
        object_len: 1 << 19,
        object_offset: 0,
        state: EntryState::Complete,
        attributes: &[],
    }
}

fn page() -> InventoryPage<'static> {
    let other = InventoryEntry { offset: 6 << 30, key: KEYS[2], ..entry() };
    InventoryPage { segment: SEGMENT, run: 0, page: 1, last: false, entries: vec![entry(), other] }
}

/// A page with every optional column.
fn full_page() -> InventoryPage<'static> {
    let grant = Version { counter: u64::MAX, ..version() };
    let (state, attributes) = (EntryState::Writing, &[2, 7, 1][..]);
    let stripe = InventoryEntry { object_len: 1 << 20, object_offset: 1 << 19, ..entry() };
    let writing = InventoryEntry { offset: 6 << 30, grant, state, attributes, ..entry() };
    InventoryPage { run: 7, last: true, entries: vec![stripe, writing], ..page() }
}

pub(crate) fn version() -> Version {
    Version { epoch: Epoch(42), counter: 0x0102_0304_0506_0708 }
}

pub(crate) fn placements() -> Vec<Placement> {
    let place = |replica, segment, offset| Placement {
        replica,
        segment,
        offset,
        len: 1 << 19,
        seal: Seal::NONE,
    };
    vec![place(0, 0, 0), place(0, 1, 1 << 35), place(31, 1, u64::MAX)]
}

fn remains() -> Remains {
    let grant = Version { counter: u64::MAX, ..version() };
    let range = |segment, offset| RemainingRange {
        segment,
        offset,
        version: version(),
        grant,
        seal: Seal::NONE,
    };
    let ranges = vec![range(1, 0), range(0, 1 << 35)];
    Remains { ranges, segments: addresses(), lease_ms: 4990 }
}

pub(crate) fn addresses() -> Vec<SegmentAddress> {
    let address = |id, name: &str, endpoint: &str| SegmentAddress {
        id,
        name: name.into(),
        endpoint: endpoint.into(),
        medium: mooncake_types::Medium::Memory,
    };
    vec![
        address(SEGMENT, "node-1:12345", "10.0.0.1:12345"),
        address(OTHER, "node-2:12345", "[::1]:12345"),
    ]
}

fn drain_report() -> DrainReport {
    DrainReport {
        id: DrainId(TASK.0 + 1),
        status: DrainStatus::Failed,
        created_ms_ago: 61_000,
        updated_ms_ago: 5,
        segments: vec!["node-1:12345".into(), "node-2:12345".into()],
        moved_units: 3,
        moved_bytes: 3 << 20,
        released_units: 2,
        failed_units: 4,
        blocked_units: 5,
        active_units: 6,
        remaining_units: 15,
        remaining_bytes: 15 << 20,
        message: "no room".into(),
    }
}
