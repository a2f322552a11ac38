//! Random values for every part of a frame.

use std::sync::Arc;

use bytes::Bytes;
use mooncake_types::{
    ChangesPage, ClientId, CreateTask, EntryState, Epoch, ErrorCode, ExistOptions, Follow,
    FollowPage, InventoryEntry, InventoryPage, Medium, MountSegment, PrefetchLimits, PutEnd,
    PutItem, PutMode, PutRevoke, PutStart, RangeDrop, RangeRead, RangeWrite, ReadCounts,
    ReadReport, ReadVolume, ReplicateConfig, Request, Scan, ScanAction, Seal, SealKey, Secret,
    SegmentId, SharedDirectory, SoftPin, TaskId, TaskKind, Version,
};
use mooncake_wire::{
    Begun, Hello, Kind, LocalSocket, PROTOCOL_VERSION, Proof, Refusal, RemoteSegment, Role, Shared,
    TransportDescriptor, Welcome,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::frame::Frame;
use crate::strategy_dummy;
use crate::strategy_reply::reply;

pub(crate) fn frame() -> impl Strategy<Value = Frame<'static>> {
    prop_oneof![
        1 => hello().prop_map(Frame::Hello),
        1 => welcome().prop_map(Frame::Welcome),
        1 => refusal().prop_map(Frame::Refusal),
        1 => any::<[u8; 16]>().prop_map(Frame::Challenge),
        1 => any::<([u8; 16], [u8; 32])>().prop_map(|(nonce, mac)| Frame::Proof(Proof { nonce, mac })),
        10 => request().prop_map(Frame::Request),
        8 => reply().prop_map(Frame::Reply),
        2 => vec(range_read(), 0..6).prop_map(Frame::Read),
        7 => (results_kind(), vec(status(), 0..9)).prop_map(|(kind, it)| Frame::Results(kind, it)),
        2 => (epoch(), vec(range_write(), 0..6)).prop_map(|(epoch, ranges)| Frame::Write(epoch, ranges)),
        1 => vec((range_drop(), seal()), 0..6).prop_map(Frame::Drop),
        1 => follow().prop_map(Frame::Follow),
        2 => result((segment_id(), follow_page())).prop_map(Frame::FollowReply),
        1 => segment_id().prop_map(Frame::Share),
        1 => shared().prop_map(Frame::ShareReply),
        1 => (bytes(), vec(result(bytes()), 0..5)).prop_map(|(address, ranges)| Frame::Begun(Begun { address, ranges })),
        1 => bytes().prop_map(Frame::Join),
        1 => result(bytes()).prop_map(Frame::JoinReply),
        1 => vec(range_read(), 0..6).prop_map(Frame::Pin),
        1 => vec(number(), 0..9).prop_map(Frame::Unpin),
        4 => strategy_dummy::request().prop_map(Frame::DummyRequest),
        4 => strategy_dummy::reply().prop_map(Frame::DummyReply),
    ]
}

/// A kind of frame that holds one result for each range.
fn results_kind() -> impl Strategy<Value = Kind> {
    select(vec![
        Kind::ReadReply,
        Kind::WriteReply,
        Kind::DropReply,
        Kind::BeginReply,
        Kind::Complete,
        Kind::CompleteReply,
        Kind::PinReply,
        Kind::PromiseReply,
    ])
}

/// Text that lives as long as the test process, so that requests can borrow it. Some comes again and again, so that
/// one request is about what another has begun.
pub(crate) fn text() -> impl Strategy<Value = &'static str> {
    let any = prop_oneof![8 => ".{0,40}", 1 => "[a-z]{120,140}"].prop_map(|text| &*text.leak());
    prop_oneof![2 => any, 1 => select(&["a", "b", "c"])]
}

pub(crate) fn shared_text() -> impl Strategy<Value = Arc<str>> {
    ".{0,40}".prop_map(Arc::from)
}

/// Small numbers, which have short encodings, are as likely as large ones.
pub(crate) fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..3_u64, any::<u64>(), (0..64_u32).prop_map(|bit| 1 << bit), Just(u64::MAX)]
}

pub(crate) fn epoch() -> impl Strategy<Value = Epoch> {
    number().prop_map(Epoch)
}

pub(crate) fn version() -> impl Strategy<Value = Version> {
    (epoch(), number()).prop_map(|(epoch, counter)| Version { epoch, counter })
}

/// Few of them, and any.
pub(crate) fn segment_id() -> impl Strategy<Value = SegmentId> {
    prop_oneof![0..4_u128, any::<u128>()].prop_map(SegmentId)
}

pub(crate) fn error() -> impl Strategy<Value = ErrorCode> {
    select(&ErrorCode::ALL[1..])
}

pub(crate) fn status() -> impl Strategy<Value = Result<(), ErrorCode>> {
    result(Just(()))
}

pub(crate) fn result<T: Clone + std::fmt::Debug + 'static>(
    value: impl Strategy<Value = T> + 'static,
) -> impl Strategy<Value = Result<T, ErrorCode>> {
    prop_oneof![value.prop_map(Ok), error().prop_map(Err)]
}

fn hello() -> impl Strategy<Value = Hello> {
    (".{0,40}", select(&[Role::Client, Role::Node][..]), any::<u128>()).prop_map(
        |(cluster_id, role, client)| Hello {
            protocol_version: PROTOCOL_VERSION,
            cluster_id,
            role,
            client: ClientId(client),
            auth_token: Secret::default(),
        },
    )
}

fn welcome() -> impl Strategy<Value = Welcome> {
    let (socket, directory) =
        (proptest::option::of(local_socket()), proptest::option::of(shared_directory()));
    let transports = vec(transport(), 0..3);
    let mac = option::of(any::<[u8; 32]>());
    (any::<u32>(), epoch(), ".{0,20}", socket, directory, transports, mac).prop_map(
        |(
            protocol_version,
            epoch,
            software_version,
            local_socket,
            shared_directory,
            transports,
            mac,
        )| Welcome {
            protocol_version,
            epoch,
            software_version,
            local_socket,
            shared_directory,
            transports,
            mac,
        },
    )
}

fn transport() -> impl Strategy<Value = TransportDescriptor> {
    ("[a-z:]{0,40}", bytes()).prop_map(|(kind, address)| TransportDescriptor { kind, address })
}

/// Any bytes, but at least one.
fn bytes() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 1..40).prop_map(Bytes::from)
}

fn shared_directory() -> impl Strategy<Value = SharedDirectory> {
    (".{0,40}", number(), any::<bool>()).prop_map(|(path, most_bytes, evicts)| SharedDirectory {
        path,
        most_bytes,
        evicts,
    })
}

fn local_socket() -> impl Strategy<Value = LocalSocket> {
    (".{0,40}", number(), any::<u128>()).prop_map(|(boot_id, network_namespace, instance)| {
        LocalSocket { boot_id, network_namespace, instance }
    })
}

fn shared() -> impl Strategy<Value = Result<Shared, ErrorCode>> {
    let remote = (bytes(), bytes()).prop_map(|(memory, slots)| RemoteSegment { memory, slots });
    let shared = (number(), number(), any::<bool>(), option::of(remote));
    let shared = shared.prop_map(|(len, address, has_memory, remote)| Shared {
        len,
        address,
        has_memory,
        remote,
    });
    prop_oneof![3 => shared.prop_map(Ok), 1 => error().prop_map(Err)]
}

fn refusal() -> impl Strategy<Value = Refusal> {
    (error(), ".{0,80}").prop_map(|(code, message)| Refusal { code, message })
}

fn read_report() -> impl Strategy<Value = Box<ReadReport>> {
    let report = (number(), read_counts(), read_counts());
    report.prop_map(|(run, counts, confirmed)| Box::new(ReadReport { run, counts, confirmed }))
}

fn read_counts() -> impl Strategy<Value = ReadCounts> {
    any::<([u64; 4], [u64; 14])>().prop_map(|(lookups, volumes)| {
        let [get_hits, get_misses, exist_hits, exist_misses] = lookups;
        let volume = |at: usize| ReadVolume { objects: volumes[at], bytes: volumes[at + 1] };
        ReadCounts {
            get_hits,
            get_misses,
            exist_hits,
            exist_misses,
            own: volume(0),
            host: volume(2),
            tcp: volume(4),
            disk: volume(6),
            shared_disk: volume(8),
            object_store: volume(10),
            fabric: volume(12),
        }
    })
}

pub(crate) fn request() -> impl Strategy<Value = Request<'static>> {
    let keys = || vec(text(), 0..9);
    prop_oneof![
        (vec(segment_id(), 0..5), vec(segment_id(), 0..3), option::of(read_report())).prop_map(
            |(segments, unreachable, reads)| Request::Ping { segments, unreachable, reads }
        ),
        option::of(read_report()).prop_map(|reads| Request::Leave { reads }),
        mount_segment().prop_map(Request::MountSegment),
        inventory_page().prop_map(Request::ReportInventory),
        changes_page().prop_map(Request::ReportChanges),
        any::<(u32, u32)>().prop_map(|(from, limit)| Request::ListSegments { from, limit }),
        (vec(range_drop(), 0..6), any::<u32>())
            .prop_map(|(dropped, limit)| Request::FetchDrops { dropped, limit }),
        (segment_id(), number(), text())
            .prop_map(|(id, grace_ms, failure)| Request::UnmountSegment { id, grace_ms, failure }),
        put_start().prop_map(Request::PutStart),
        vec(put_end(), 0..6).prop_map(|puts| Request::PutEnd { puts }),
        vec(put_revoke(), 0..6).prop_map(|puts| Request::PutRevoke { puts }),
        keys().prop_map(|keys| Request::GetReplicaList { keys }),
        vec((text(), any::<u32>()), 1..9).prop_map(|uses| {
            let (keys, uses) = uses.into_iter().unzip();
            Request::RenewRoutes { keys, uses }
        }),
        (keys(), exist_options()).prop_map(|(keys, options)| Request::ExistKey { keys, options }),
        keys().prop_map(|keys| Request::Prefetch { keys }),
        (keys(), any::<u32>())
            .prop_map(|(keys, leased_from)| Request::PrefixLen { keys, leased_from }),
        vec(range_drop(), 0..6).prop_map(|dropped| Request::Dropped { dropped }),
        (keys(), any::<bool>()).prop_map(|(keys, force)| Request::Remove { keys, force }),
        (keys(), vec(range_drop(), 0..6))
            .prop_map(|(keys, ranges)| Request::Retract { keys, ranges }),
        (keys(), range_drop()).prop_map(|(keys, range)| {
            let ranges = vec![range; keys.len()];
            Request::ReportLosses { keys, ranges }
        }),
        scan().prop_map(Request::Scan),
        (keys(), text()).prop_map(|(keys, segment)| Request::ClearReplicas { keys, segment }),
        create_task().prop_map(Request::CreateTask),
        task_id().prop_map(|id| Request::QueryTask { id }),
        any::<(u32, u32)>().prop_map(|(limit, wait_ms)| Request::FetchTasks { limit, wait_ms }),
        vec(segment_id(), 0..4).prop_map(|segments| Request::DrainSegments { segments }),
        (task_id(), status()).prop_map(|(id, outcome)| Request::EndTask { id, outcome }),
    ]
}

pub(crate) fn task_id() -> impl Strategy<Value = TaskId> {
    any::<u128>().prop_map(TaskId)
}

pub(crate) fn task_kind() -> impl Strategy<Value = TaskKind> {
    select(&[TaskKind::Copy, TaskKind::Move])
}

fn create_task() -> impl Strategy<Value = CreateTask<'static>> {
    (text(), task_kind(), text(), vec(text(), 0..4))
        .prop_map(|(key, kind, source, targets)| CreateTask { key, kind, source, targets })
}

pub(crate) fn medium() -> impl Strategy<Value = Medium> {
    select(&[Medium::Memory, Medium::Disk, Medium::SharedDisk, Medium::ObjectStore])
}

fn mount_segment() -> impl Strategy<Value = MountSegment<'static>> {
    let place = (text(), text(), vec(text(), 0..4));
    let lent = (any::<bool>(), number(), medium(), option::of(any::<[u8; 16]>()));
    (segment_id(), place, number(), epoch(), lent).prop_map(
        |(id, (name, endpoint, domains), len, seen_epoch, (is_empty, run, medium, key))| {
            MountSegment {
                id,
                name,
                endpoint,
                len,
                seen_epoch,
                is_empty,
                run,
                medium,
                domains: domains.into_iter().map(str::to_owned).collect::<Vec<_>>().leak(),
                seal_key: key.map(SealKey),
            }
        },
    )
}

fn inventory_page() -> impl Strategy<Value = InventoryPage<'static>> {
    let plain = inventory_entry().prop_map(|entry| InventoryEntry {
        grant: entry.version,
        object_len: entry.len,
        object_offset: 0,
        attributes: &[],
        ..entry
    });
    let entries = prop_oneof![vec(plain, 0..6), vec(inventory_entry(), 0..6)];
    (segment_id(), number(), any::<u32>(), any::<bool>(), entries).prop_map(
        |(segment, run, page, last, entries)| InventoryPage { segment, run, page, last, entries },
    )
}

fn changes_page() -> impl Strategy<Value = ChangesPage<'static>> {
    (inventory_page(), vec(number(), 0..4)).prop_map(|(inventory, gone)| {
        let InventoryPage { segment, page, last, entries, .. } = inventory;
        ChangesPage { segment, page, last, entries, gone }
    })
}

pub(crate) fn follow() -> impl Strategy<Value = Follow> {
    (segment_id(), option::of(number()), option::of(number()), seal())
        .prop_map(|(segment, since, from, seal)| Follow { segment, since, from, seal })
}

fn follow_page() -> impl Strategy<Value = FollowPage<'static>> {
    (changes_page(), number(), option::of(number())).prop_map(|(page, cursor, next)| {
        let ChangesPage { last, entries, gone, .. } = page;
        FollowPage { entries, gone, cursor, next, more: last }
    })
}

fn inventory_entry() -> impl Strategy<Value = InventoryEntry<'static>> {
    let state = select(&[EntryState::Complete, EntryState::Writing]);
    let place = (number(), number());
    let object = (number(), number());
    (place, text(), version(), version(), object, (state, attributes())).prop_map(
        |((offset, len), key, version, grant, (object_len, object_offset), (state, attributes))| {
            InventoryEntry {
                offset,
                len,
                key,
                version,
                grant,
                object_len,
                object_offset,
                state,
                attributes,
            }
        },
    )
}

/// Attributes that live as long as the test process.
fn attributes() -> impl Strategy<Value = &'static [u8]> {
    vec(any::<u8>(), 0..9).prop_map(|bytes| &*bytes.leak())
}

fn put_start() -> impl Strategy<Value = PutStart<'static>> {
    let plain = (text(), number()).prop_map(|(key, len)| PutItem::new(key, len)).boxed();
    let grouped = (plain.clone(), text(), text()).prop_map(|(put, group, session)| PutItem {
        group,
        session,
        ..put
    });
    let puts = prop_oneof![vec(plain, 0..6), vec(grouped, 0..6)];
    let mode = select(&[PutMode::Insert, PutMode::Upsert]);
    (puts, config(), mode).prop_map(|(puts, config, mode)| PutStart { puts, config, mode })
}

pub(crate) fn config() -> impl Strategy<Value = ReplicateConfig<'static>> {
    let soft_pin = prop_oneof![
        Just(SoftPin::Preserve),
        option::of(number()).prop_map(|ttl_ms| SoftPin::Enable { ttl_ms }),
        Just(SoftPin::Disable),
        Just(SoftPin::Sliding),
    ];
    let segments = (vec(text(), 0..4), vec(segment_id(), 0..4));
    (any::<u32>(), soft_pin, any::<[bool; 2]>(), segments, any::<u8>()).prop_map(
        |(
            replica_num,
            soft_pin,
            [hard_pin, same_node],
            (preferred_segments, excluded_segments),
            data_type,
        )| {
            ReplicateConfig {
                replica_num,
                soft_pin,
                hard_pin,
                preferred_segments,
                excluded_segments,
                same_node,
                data_type,
            }
        },
    )
}

fn put_end() -> impl Strategy<Value = PutEnd<'static>> {
    (text(), version(), any::<u32>()).prop_map(|(key, version, failed_replicas)| PutEnd {
        key,
        version,
        failed_replicas,
        held_replicas: 0,
    })
}

fn put_revoke() -> impl Strategy<Value = PutRevoke<'static>> {
    (text(), version(), select(&[0, 1, u32::MAX]))
        .prop_map(|(key, version, held_replicas)| PutRevoke { key, version, held_replicas })
}

fn scan() -> impl Strategy<Value = Scan<'static>> {
    let action = select(&[
        ScanAction::List,
        ScanAction::Remove { force: false },
        ScanAction::Remove { force: true },
    ]);
    let tenant = select(&[Some("default"), Some("blue"), None]);
    (tenant, option::of(text()), action, number(), any::<u32>()).prop_map(
        |(tenant, pattern, action, cursor, limit)| Scan { tenant, pattern, action, cursor, limit },
    )
}

pub(crate) fn range_drop() -> impl Strategy<Value = RangeDrop> {
    let range = |(segment, offset, version, grant)| RangeDrop { segment, offset, version, grant };
    (segment_id(), number(), version(), version()).prop_map(range)
}

pub(crate) fn seal() -> impl Strategy<Value = Seal> {
    prop_oneof![Just(Seal::NONE), any::<u64>().prop_map(Seal)]
}

pub(crate) fn range_read() -> impl Strategy<Value = RangeRead> {
    let object_offset = prop_oneof![Just(0), number()];
    (segment_id(), number(), version(), object_offset, number(), number(), seal()).prop_map(
        |(segment, offset, version, object_offset, from, len, seal)| RangeRead {
            segment,
            offset,
            version,
            object_offset,
            from,
            len,
            seal,
        },
    )
}

pub(crate) fn range_write() -> impl Strategy<Value = RangeWrite<'static>> {
    let whole = (segment_id(), (number(), number()), text(), version(), (number(), number()))
        .prop_map(|(segment, (offset, len), key, version, (object_len, object_offset))| {
            RangeWrite {
                segment,
                offset,
                entry_len: len,
                from: 0,
                len,
                key,
                version,
                grant: version,
                object_len,
                object_offset,
                attributes: &[],
                seal: Seal::NONE,
            }
        })
        .boxed();
    let part = (whole.clone(), number(), number(), version())
        .prop_map(|(range, entry_len, from, grant)| RangeWrite { entry_len, from, grant, ..range });
    let noted = (whole.clone(), attributes())
        .prop_map(|(range, attributes)| RangeWrite { attributes, ..range });
    let sealed = (whole.clone(), seal()).prop_map(|(range, seal)| RangeWrite { seal, ..range });
    prop_oneof![3 => whole, 1 => part, 1 => noted, 1 => sealed]
}

pub(crate) fn exist_options() -> impl Strategy<Value = ExistOptions> {
    let limits = (any::<u32>(), any::<u32>())
        .prop_map(|(cooldown_ms, rest_ms)| PrefetchLimits { cooldown_ms, rest_ms });
    (any::<bool>(), option::of(limits))
        .prop_map(|(probe, prefetch)| ExistOptions { probe, prefetch })
}
