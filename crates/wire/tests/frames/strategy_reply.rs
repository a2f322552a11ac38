//! Random replies of a master.

use mooncake_types::limits::MAX_REPLICAS;
use mooncake_types::{
    ClientId, DrainId, DrainReport, DrainStatus, ErrorCode, Grant, ListedSegment, Located,
    MountOutcome, Placement, Pong, Prefetch, RemainingRange, Remains, Reply, ScanPage, Seal,
    SegmentAddress, SegmentPage, TaskOrder, TaskOrders, TaskReport, TaskStatus,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::strategy::{
    epoch, error, medium, number, range_drop, result, seal, segment_id, shared_text, status,
    task_id, task_kind, text, version,
};

pub(crate) fn reply() -> impl Strategy<Value = Reply> {
    let flags = any::<[bool; 4]>();
    let pong = (epoch(), number(), flags, number()).prop_map(
        |(epoch, client_ttl_ms, [need_remount, has_tasks, has_drops, is_unreached], routes_ms)| {
            Pong {
                need_remount,
                epoch,
                client_ttl_ms,
                has_tasks,
                has_drops,
                routes_ms,
                is_unreached,
            }
        },
    );
    prop_oneof![
        pong.prop_map(Reply::Pong),
        status().prop_map(Reply::Done),
        select(&[MountOutcome::Ready, MountOutcome::WantsInventory, MountOutcome::StartEmpty])
            .prop_map(Reply::Mounted),
        number().prop_map(|since| Reply::Mounted(MountOutcome::WantsChanges { since })),
        segment_page().prop_map(Reply::Segments),
        vec(range_drop(), 0..6).prop_map(Reply::Drops),
        with_segments(|placements| vec(result(grant(placements)), 0..6))
            .prop_map(|(results, segments)| Reply::Granted { results, segments }),
        vec(status(), 0..9).prop_map(Reply::Statuses),
        (with_segments(places), number()).prop_map(
            |(((results, successors, predecessors), segments), lease_ms)| Reply::Located {
                results,
                successors,
                predecessors,
                segments,
                lease_ms,
            }
        ),
        (vec(status(), 0..6), remains())
            .prop_map(|(results, remains)| Reply::Remaining { results, remains }),
        vec(result(any::<bool>()), 0..9).prop_map(Reply::Exist),
        any::<u32>().prop_map(Reply::PrefixLen),
        vec(result(select(&[Prefetch::InMemory, Prefetch::UnderWay])), 0..9)
            .prop_map(Reply::Prefetched),
        page().prop_map(Reply::Scanned),
        task_id().prop_map(Reply::TaskCreated),
        task_report().prop_map(Reply::TaskReported),
        with_segments(|placements| vec(task_order(placements), 0..4))
            .prop_map(|(orders, segments)| Reply::TasksFetched(TaskOrders { orders, segments })),
        drain_report().prop_map(|report| Reply::Draining(Box::new(report))),
        error().prop_map(Reply::Refused),
    ]
}

fn drain_report() -> impl Strategy<Value = DrainReport> {
    let statuses = &[
        DrainStatus::Created,
        DrainStatus::Planning,
        DrainStatus::Running,
        DrainStatus::Succeeded,
        DrainStatus::Failed,
        DrainStatus::Canceled,
    ];
    let names = vec(".{0,20}", 0..4);
    let units = (number(), number(), number(), number(), number());
    let rest = (number(), number(), number(), ".{0,40}");
    (any::<u128>(), select(statuses), (number(), number()), names, units, rest).prop_map(
        |(id, status, times, segments, units, rest)| DrainReport {
            id: DrainId(id),
            status,
            created_ms_ago: times.0,
            updated_ms_ago: times.1,
            segments,
            moved_units: units.0,
            moved_bytes: units.1,
            released_units: units.2,
            failed_units: units.3,
            blocked_units: units.4,
            active_units: rest.0,
            remaining_units: rest.1,
            remaining_bytes: rest.2,
            message: rest.3,
        },
    )
}

type Older = Vec<(u32, RemainingRange)>;
type Places = (Vec<Result<Located, ErrorCode>>, Vec<(u32, Located)>, Older);

/// Results, with newer and older versions of some of them.
fn places(placements: BoxedStrategy<Vec<Placement>>) -> BoxedStrategy<Places> {
    vec(result(located(placements.clone())), 0..6)
        .prop_flat_map(move |results| {
            let most = if results.is_empty() { 0 } else { 3 };
            let position = 0..results.len().max(1) as u32;
            let successors = vec((position.clone(), located(placements.clone())), 0..=most);
            let older = vec((position, remaining_ranges(placements.clone())), 0..=most);
            (successors, older).prop_map(move |(successors, older)| {
                let each = older.into_iter();
                let older = each.flat_map(|(key, them)| them.into_iter().map(move |it| (key, it)));
                (results.clone(), successors, older.collect())
            })
        })
        .boxed()
}

fn remaining_ranges(
    placements: BoxedStrategy<Vec<Placement>>,
) -> impl Strategy<Value = Vec<RemainingRange>> {
    (placements, version(), version()).prop_map(|(placements, version, grant)| {
        let range = |Placement { segment, offset, seal, .. }| RemainingRange {
            segment,
            offset,
            version,
            grant,
            seal,
        };
        placements.into_iter().map(range).collect()
    })
}

fn remains() -> impl Strategy<Value = Remains> {
    (with_segments(remaining_ranges), number()).prop_map(|((ranges, segments), lease_ms)| Remains {
        ranges,
        segments,
        lease_ms,
    })
}

fn task_report() -> impl Strategy<Value = TaskReport> {
    let statuses =
        &[TaskStatus::Pending, TaskStatus::Processing, TaskStatus::Failed, TaskStatus::Success];
    let times = (number(), number());
    (task_id(), task_kind(), select(statuses), times, any::<u128>(), ".{0,40}").prop_map(
        |(id, kind, status, (created_ms_ago, updated_ms_ago), assigned, message)| TaskReport {
            id,
            kind,
            status,
            created_ms_ago,
            updated_ms_ago,
            assigned: ClientId(assigned),
            message,
        },
    )
}

fn task_order(placements: BoxedStrategy<Vec<Placement>>) -> impl Strategy<Value = TaskOrder> {
    let places = (placements.clone(), placements);
    let text = (".{0,40}", vec(any::<u8>(), 0..4));
    (task_id(), text, version(), number(), version(), places).prop_map(
        |(id, (key, attributes), version, len, grant, (source, targets))| TaskOrder {
            id,
            key,
            version,
            len,
            grant,
            source,
            targets,
            attributes,
        },
    )
}

fn page() -> impl Strategy<Value = ScanPage> {
    let objects = with_segments(|placements| vec((".{0,40}", located(placements)), 0..6));
    (option::of(number()), number(), remains(), objects).prop_map(
        |(next_cursor, removed, remains, (objects, segments))| ScanPage {
            next_cursor,
            removed,
            remains: Box::new(remains),
            objects,
            segments,
        },
    )
}

fn address() -> impl Strategy<Value = SegmentAddress> {
    (segment_id(), shared_text(), shared_text(), medium())
        .prop_map(|(id, name, endpoint, medium)| SegmentAddress { id, name, endpoint, medium })
}

fn segment_page() -> impl Strategy<Value = SegmentPage> {
    let listed = (address(), number(), seal()).prop_map(|(address, len, seal)| ListedSegment {
        address,
        len,
        seal,
    });
    (vec(listed, 0..4), option::of(any::<u32>()), text()).prop_map(
        |(segments, next, put_obstacle)| SegmentPage {
            segments,
            next,
            put_obstacle: put_obstacle.to_owned(),
        },
    )
}

/// A table of segments, and a value of `make` whose placements point into it.
pub(crate) fn with_segments<T: std::fmt::Debug, S: Strategy<Value = T>>(
    make: fn(BoxedStrategy<Vec<Placement>>) -> S,
) -> impl Strategy<Value = (T, Vec<SegmentAddress>)> {
    vec(address(), 0..4).prop_flat_map(move |segments| {
        let most = if segments.is_empty() { 0 } else { 5 };
        let placement =
            (0..MAX_REPLICAS, 0..segments.len().max(1) as u32, number(), number(), seal())
                .prop_map(|(replica, segment, offset, len, seal)| Placement {
                    replica,
                    segment,
                    offset,
                    len,
                    seal,
                });
        (make(vec(placement, 0..=most).boxed()), Just(segments))
    })
}

fn grant(placements: BoxedStrategy<Vec<Placement>>) -> impl Strategy<Value = Grant> {
    let attributes = prop_oneof![Just(Vec::new()), vec(any::<u8>(), 0..4)];
    (version(), placements, attributes).prop_map(|(version, placements, attributes)| {
        let drop_seals = placements.iter().map(|place| Seal(place.offset | 1)).collect();
        Grant { version, placements, attributes, drop_seals }
    })
}

pub(crate) fn located(placements: BoxedStrategy<Vec<Placement>>) -> impl Strategy<Value = Located> {
    (version(), number(), placements).prop_map(|(version, len, placements)| Located {
        version,
        len,
        placements,
    })
}
