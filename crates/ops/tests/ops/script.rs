use std::sync::Arc;

use mooncake_ops::{CallError, Deadline, MoveError, Op, Step};
use mooncake_types::{
    Epoch, ErrorCode, Grant, Located, Placement, RangeDrop, RemainingRange, Remains, Reply,
    Request, Seal, SegmentAddress, SegmentId, Tick, Version,
};

/// One step that the operation must take at this time, and its result.
pub(crate) enum Turn<'a> {
    Call(u64, Request<'a>, Result<Reply, CallError>),
    /// The ranges to read: position of the item, segment, offset.
    Read(u64, Vec<(usize, u128, u64)>, Vec<Result<(), MoveError>>),
    /// The ranges to write: epoch, then position of the item, segment, offset.
    Write(u64, u64, Vec<(usize, u128, u64)>, Vec<Result<(), MoveError>>),
    /// The entries to drop: segment, offset, counter of the version.
    Drop(u64, Vec<(u128, u64, u64)>, Vec<Result<(), MoveError>>),
    /// The operation waits from the first time until the second.
    Wait(u64, u64),
}

/// A call, or each call of a batch, starts no step later than this after its start.
const CALL_MS: u64 = 30_000;

/// Plays a script. The operation must be done when the script ends.
pub(crate) fn play<'a, O: Op<'a>>(mut op: O, turns: Vec<Turn<'a>>) -> O::Output {
    let (mut now, mut deadline) = (0, Deadline::of_ms(CALL_MS));
    for turn in turns {
        match turn {
            Turn::Call(at, request, reply) => {
                now = at;
                assert_eq!(deadline.next(&mut op, Tick(now)), Step::Call(request));
                op.on_reply(reply);
            }
            Turn::Read(at, expected, results) => {
                now = at;
                let Step::Read(fetches) = deadline.next(&mut op, Tick(now)) else {
                    panic!("it does not read")
                };
                let places = fetches
                    .iter()
                    .map(|fetch| (fetch.position, fetch.range.segment.0, fetch.range.offset));
                assert_eq!(places.collect::<Vec<_>>(), expected);
                op.on_transfer(results);
            }
            Turn::Write(at, epoch, expected, results) => {
                now = at;
                let step = deadline.next(&mut op, Tick(now));
                let Step::Write(under, deposits) = step else { panic!("it does not write") };
                assert_eq!(under, Epoch(epoch));
                let places =
                    deposits.iter().map(|it| (it.position, it.range.segment.0, it.range.offset));
                assert_eq!(places.collect::<Vec<_>>(), expected);
                op.on_transfer(results);
            }
            Turn::Drop(at, expected, results) => {
                now = at;
                let Step::Drop(discards) = deadline.next(&mut op, Tick(now)) else {
                    panic!("it does not drop")
                };
                let ranges = discards.iter().map(|it| it.range);
                let places = ranges.map(|it| (it.segment.0, it.offset, it.version.counter));
                assert_eq!(places.collect::<Vec<_>>(), expected);
                op.on_transfer(results);
            }
            Turn::Wait(at, until) => {
                assert_eq!(deadline.next(&mut op, Tick(at)), Step::Wait(Tick(until)));
                now = until;
            }
        }
    }
    assert_eq!(deadline.next(&mut op, Tick(now)), Step::Done);
    op.finish()
}

pub(crate) fn version(counter: u64) -> Version {
    Version { epoch: Epoch(1), counter }
}

/// Segments 0 to 3, each on its own node.
pub(crate) fn segments() -> Vec<SegmentAddress> {
    let segment = |number: u128| SegmentAddress {
        id: SegmentId(number),
        name: format!("segment {number}").into(),
        endpoint: Arc::from(format!("node {number}")),
        medium: mooncake_types::Medium::Memory,
    };
    (0..4).map(segment).collect()
}

/// A range: replica, segment, offset, length.
pub(crate) type Range = (u32, u32, u64, u64);

fn placements(ranges: &[Range]) -> Vec<Placement> {
    let placement = |&(replica, segment, offset, len)| Placement {
        replica,
        segment,
        offset,
        len,
        seal: Seal::NONE,
    };
    ranges.iter().map(placement).collect()
}

pub(crate) fn located(counter: u64, len: u64, ranges: &[Range]) -> Result<Located, ErrorCode> {
    Ok(Located { version: version(counter), len, placements: placements(ranges) })
}

/// A reply to a lookup, with leases of five seconds.
pub(crate) fn found(results: Vec<Result<Located, ErrorCode>>) -> Result<Reply, CallError> {
    Ok(Reply::Located {
        results,
        successors: vec![],
        predecessors: vec![],
        segments: segments(),
        lease_ms: 5000,
    })
}

/// Like [`found`], with older entries to drop: position of the key, segment, offset, counter of the version.
pub(crate) fn found_after(
    results: Vec<Result<Located, ErrorCode>>,
    older: &[(u32, u32, u64, u64)],
) -> Result<Reply, CallError> {
    let range = |&(key, segment, offset, counter)| {
        let version = version(counter);
        (key, RemainingRange { segment, offset, version, grant: version, seal: Seal::NONE })
    };
    let predecessors = older.iter().map(range).collect();
    let (successors, segments) = (vec![], segments());
    Ok(Reply::Located { results, successors, predecessors, segments, lease_ms: 5000 })
}

pub(crate) fn grant(counter: u64, ranges: &[Range]) -> Result<Grant, ErrorCode> {
    let (version, placements) = (version(counter), placements(ranges));
    Ok(Grant { version, placements, ..Grant::default() })
}

pub(crate) fn granted(results: Vec<Result<Grant, ErrorCode>>) -> Result<Reply, CallError> {
    Ok(Reply::Granted { results, segments: segments() })
}

pub(crate) fn statuses(results: Vec<Result<(), ErrorCode>>) -> Result<Reply, CallError> {
    Ok(Reply::Statuses(results))
}

/// A reply that also names entries to drop: segment, offset, counter of the version.
pub(crate) fn remaining(
    results: Vec<Result<(), ErrorCode>>,
    ranges: &[(u32, u64, u64)],
    lease_ms: u64,
) -> Result<Reply, CallError> {
    let range = |&(segment, offset, counter)| RemainingRange {
        segment,
        offset,
        version: version(counter),
        grant: version(counter),
        seal: Seal::NONE,
    };
    let ranges = ranges.iter().map(range).collect();
    Ok(Reply::Remaining { results, remains: Remains { ranges, segments: segments(), lease_ms } })
}

fn range_drop(&(segment, offset, counter): &(u128, u64, u64)) -> RangeDrop {
    let version = version(counter);
    RangeDrop { segment: SegmentId(segment), offset, version, grant: version }
}

/// The request that reports these drops to the master.
pub(crate) fn dropped(ranges: &[(u128, u64, u64)]) -> Request<'static> {
    Request::Dropped { dropped: ranges.iter().map(range_drop).collect() }
}

/// The request that asks the master whether these entries must still be dropped.
pub(crate) fn retract<'a>(keys: &[&'a str], ranges: &[(u128, u64, u64)]) -> Request<'a> {
    let ranges = ranges.iter().map(range_drop).collect();
    Request::Retract { keys: keys.to_vec(), ranges }
}

pub(crate) fn done() -> Result<Reply, CallError> {
    Ok(Reply::Done(Ok(())))
}

/// Calls that failed: no connection, an invalid reply, and no reply in time. Each with the code that the operation
/// returns.
pub(crate) fn failures() -> [(CallError, ErrorCode); 3] {
    let reason = || "gone".to_owned();
    [
        (CallError::Unreachable { reason: reason() }, ErrorCode::RpcFail),
        (CallError::Protocol { reason: reason() }, ErrorCode::RpcFail),
        (CallError::TimedOut { after_ms: 30_000 }, ErrorCode::RpcTimeout),
    ]
}
