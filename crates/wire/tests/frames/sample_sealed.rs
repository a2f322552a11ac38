//! Samples of a pool with secrets: mounts tell a key, and what the master allows has its seals.

use mooncake_types::{
    Epoch, Follow, Grant, ListedSegment, Located, MountSegment, Placement, RangeDrop, RangeRead,
    RangeWrite, RemainingRange, Remains, Reply, Request, Seal, SealKey, SegmentId, SegmentPage,
    TaskOrder, TaskOrders,
};

use crate::frame::Frame;
use crate::sample::{KEYS, addresses, placements, version};

const SEGMENT: SegmentId = SegmentId(1 << 100 | 5);
const SEAL: Seal = Seal(0xFEDC_BA98_7654_3210);

pub(crate) fn sealed() -> Vec<(&'static str, Frame<'static>)> {
    let (version, seal) = (version(), SEAL);
    let (segment, offset, len) = (SEGMENT, 1 << 40, 100);
    let read = RangeRead { segment, offset, version, object_offset: 0, from: 7, len, seal };
    let write = RangeWrite {
        segment,
        offset,
        entry_len: len,
        from: 0,
        len,
        key: KEYS[0],
        version,
        grant: version,
        object_len: len,
        object_offset: 0,
        attributes: &[],
        seal,
    };
    let drop = RangeDrop { segment, offset, version, grant: version };
    let unsealed = RangeRead { seal: Seal::NONE, ..read };
    let follow = Follow { segment, since: Some(7), from: Some(9), seal };
    vec![
        ("sealed read", Frame::Read(vec![read, read])),
        ("sealed read, in part", Frame::Read(vec![unsealed, read])),
        ("sealed write", Frame::Write(Epoch(42), vec![write])),
        ("sealed begin", Frame::Begin(Epoch(42), vec![write])),
        ("sealed drop", Frame::Drop(vec![(drop, seal), (drop, Seal::NONE)])),
        ("sealed pin", Frame::Pin(vec![read])),
        ("sealed promise", Frame::Promise(vec![read])),
        ("sealed follow", Frame::Follow(follow)),
        ("sealed mount", Frame::Request(Request::MountSegment(mount()))),
        ("sealed grant", Frame::Reply(granted())),
        ("sealed route", Frame::Reply(located())),
        (
            "sealed remains",
            Frame::Reply(Reply::Remaining { results: vec![Ok(())], remains: remains() }),
        ),
        ("sealed tasks", Frame::Reply(Reply::TasksFetched(orders()))),
        ("sealed list", Frame::Reply(Reply::Segments(listed()))),
    ]
}

fn mount() -> MountSegment<'static> {
    MountSegment {
        id: SEGMENT,
        name: "node",
        endpoint: "node:1",
        len: 1 << 30,
        seen_epoch: Epoch(42),
        is_empty: true,
        run: 1,
        medium: mooncake_types::Medium::Memory,
        domains: &[],
        seal_key: Some(SealKey([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0])),
    }
}

fn sealed_placements() -> Vec<Placement> {
    placements().into_iter().map(|it| Placement { seal: SEAL, ..it }).collect()
}

fn granted() -> Reply {
    let placements = sealed_placements();
    let drop_seals = vec![Seal(1), Seal(u64::MAX), SEAL];
    let grant = Grant { version: version(), placements, drop_seals, ..Grant::default() };
    Reply::Granted { results: vec![Ok(grant.clone()), Ok(grant)], segments: addresses() }
}

fn located() -> Reply {
    let located = |placements| Located { version: version(), len: 1 << 20, placements };
    Reply::Located {
        results: vec![Ok(located(placements())), Ok(located(sealed_placements()))],
        successors: vec![],
        predecessors: vec![(1, range())],
        segments: addresses(),
        lease_ms: 5000,
    }
}

fn range() -> RemainingRange {
    RemainingRange { segment: 1, offset: 9, version: version(), grant: version(), seal: SEAL }
}

fn remains() -> Remains {
    Remains { ranges: vec![range()], segments: addresses(), lease_ms: 0 }
}

fn orders() -> TaskOrders {
    let (source, targets) = (sealed_placements(), sealed_placements());
    let order = TaskOrder { key: KEYS[0].into(), source, targets, ..TaskOrder::default() };
    TaskOrders { orders: vec![order], segments: addresses() }
}

fn listed() -> SegmentPage {
    let address = addresses().remove(0);
    let listed = ListedSegment { address, len: 1 << 30, seal: SEAL };
    SegmentPage { segments: vec![listed], ..SegmentPage::default() }
}
