use std::cell::Cell;

use mooncake_ops::{
    CallError, CarryOp, ExistOp, GetItem, GetOp, ListOp, LocateOp, MoveError, Op, Part,
    PrefixLenOp, PutOp, RangeToRead, RangeToWrite, RemoveOp, RemoveScanOp, Step, Want,
};
use mooncake_types::{
    Chance, ErrorCode, Placement, PutItem, ReplicateConfig, Reply, Request, SegmentId, Tick,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::frame::{Frame, decode, split};
use crate::seed::runner;
use crate::strategy_reply::reply;

/// Most steps of one operation: a master that answers at random may keep a client busy.
const MOST_STEPS: usize = 200;

const KEYS: [&str; 3] = ["a", "b", "c"];

const LENS: [u64; 3] = [1, 5_000, 1 << 40];

/// What a master and nodes answer, over and over.
#[derive(Clone, Debug)]
struct Peers {
    replies: Vec<Reply>,
    results: Vec<Result<(), MoveError>>,
    asked: usize,
    /// How many ranges were read, and written.
    ranges: [usize; 2],
}

fn peers() -> impl Strategy<Value = Peers> {
    let result = select(vec![
        Ok(()),
        Ok(()),
        Err(MoveError::Stale),
        Err(MoveError::Refused(ErrorCode::ObjectNotFound)),
        Err(MoveError::Refused(ErrorCode::InvalidVersion)),
    ]);
    (vec(reply(), 40), vec(result, 1..7)).prop_map(|(replies, results)| Peers {
        replies,
        results,
        asked: 0,
        ranges: [0; 2],
    })
}

/// Whether a master might answer this request so: other replies end an operation at once.
fn fits(request: &Request<'_>, reply: &Reply) -> bool {
    use Request as Ask;
    match reply {
        Reply::Located { .. } => {
            matches!(request, Ask::GetReplicaList { .. } | Ask::RenewRoutes { .. })
        }
        Reply::Granted { .. } => matches!(request, Ask::PutStart(_)),
        Reply::Statuses(_) | Reply::Remaining { .. } => matches!(
            request,
            Ask::PutEnd { .. } | Ask::PutRevoke { .. } | Ask::Remove { .. } | Ask::Retract { .. }
        ),
        Reply::Exist(_) => matches!(request, Ask::ExistKey { .. }),
        Reply::PrefixLen(_) => matches!(request, Ask::PrefixLen { .. }),
        Reply::Scanned(_) => matches!(request, Ask::Scan(_)),
        Reply::Done(_) => matches!(request, Ask::EndTask { .. } | Ask::Dropped { .. }),
        _ => false,
    }
}

/// How many results the answer has.
fn count_of(request: &Request<'_>) -> usize {
    match request {
        Request::PutStart(start) => start.puts.len(),
        Request::PutEnd { puts } => puts.len(),
        Request::PutRevoke { puts } => puts.len(),
        Request::GetReplicaList { keys }
        | Request::ExistKey { keys, .. }
        | Request::Remove { keys, .. }
        | Request::Retract { keys, .. } => keys.len(),
        _ => 1,
    }
}

/// Makes each placement a replica of `len` bytes, unless the last is far out.
fn lay_out(placements: &mut [Placement], len: u64) {
    if placements.last().is_none_or(|last| last.offset == u64::MAX) {
        return;
    }
    for (number, placement) in (0..).zip(placements) {
        (placement.replica, placement.len) = (number, len);
        placement.offset %= 1 << 40;
    }
}

/// Repeats results until there are `count`, so that the operation does not refuse the reply at once.
fn fitted(reply: Reply, count: usize) -> Reply {
    fn fit<T: Clone>(results: Vec<T>, count: usize) -> Vec<T> {
        results.iter().cloned().cycle().take(if results.is_empty() { 0 } else { count }).collect()
    }
    match reply {
        Reply::Granted { results, segments } => {
            let mut results = fit(results, count);
            for (grant, len) in results.iter_mut().flatten().zip(LENS) {
                lay_out(&mut grant.placements, len);
            }
            Reply::Granted { results, segments }
        }
        Reply::Located { results, successors, predecessors, segments, lease_ms } => {
            let mut results = fit(results, count);
            for (found, len) in results.iter_mut().flatten().zip(LENS) {
                found.len = len;
                lay_out(&mut found.placements, len);
            }
            Reply::Located { results, successors, predecessors, segments, lease_ms }
        }
        Reply::Statuses(results) => Reply::Statuses(fit(results, count)),
        Reply::Exist(results) => Reply::Exist(fit(results, count)),
        Reply::Remaining { results, remains } => {
            Reply::Remaining { results: fit(results, count), remains }
        }
        other => other,
    }
}

impl Peers {
    fn answer(&mut self, request: &Request<'_>) -> Result<Reply, CallError> {
        self.asked += 1;
        let from = self.asked % self.replies.len();
        let mut known = self.replies[from..].iter().chain(&self.replies[..from]);
        let reply = known.find(|reply| fits(request, reply)).unwrap_or(&self.replies[from]);
        let reply = if self.asked.is_multiple_of(7) { &self.replies[from] } else { reply };
        let bytes = Frame::Reply(fitted(reply.clone(), count_of(request))).encode(1);
        let (header, body) = split(&bytes);
        let seen = decode(header.kind, body, |frame| match frame {
            Frame::Reply(reply) => reply,
            other => panic!("{other:?}"),
        });
        seen.map_err(|error| CallError::Protocol { reason: error.to_string() })
    }

    fn moved(&mut self, count: usize) -> Vec<Result<(), MoveError>> {
        self.asked += 1;
        self.results.iter().copied().cycle().skip(self.asked).take(count).collect()
    }

    /// Runs an operation. `lens` are the lengths of the caller's memory, where it has any.
    fn run<'a>(&mut self, mut op: impl Op<'a>, lens: Option<&[u64]>) {
        let mut now = Tick(1_000);
        for _ in 0..MOST_STEPS {
            match op.next(now) {
                Step::Call(request) => {
                    let reply = self.answer(&request);
                    op.on_reply(reply);
                }
                Step::Read(fetches) => {
                    self.ranges[0] += fetches.len();
                    fetches.iter().for_each(|fetch| check_fetch(fetch, lens));
                    op.on_transfer(self.moved(fetches.len()));
                }
                Step::Write(_, deposits) => {
                    self.ranges[1] += deposits.len();
                    deposits.iter().for_each(|deposit| check_deposit(deposit, lens));
                    op.on_transfer(self.moved(deposits.len()));
                }
                Step::Drop(discards) => op.on_transfer(self.moved(discards.len())),
                Step::Wait(until) => now = now.max(until).after_ms(1),
                Step::Done => {
                    op.finish();
                    return;
                }
            }
        }
    }
}

/// The bytes that are read have their place in the caller's memory.
fn check_fetch(fetch: &RangeToRead, lens: Option<&[u64]>) {
    let end = fetch.at.checked_add(fetch.range.len).expect("the end is a number");
    let room = lens.map_or(fetch.object_len, |lens| lens[fetch.position]);
    assert!(end <= room, "{fetch:?} in {room} bytes");
}

/// The bytes that are written are some of the caller's.
fn check_deposit(deposit: &RangeToWrite<'_>, lens: Option<&[u64]>) {
    let end = deposit.at.checked_add(deposit.range.len).expect("the end is a number");
    let room = lens.map_or(deposit.range.object_len, |lens| lens[deposit.position]);
    assert!(end <= room, "{deposit:?} of {room} bytes");
}

fn run_all(peers: &mut Peers) {
    let own = [SegmentId(1)];
    let config = ReplicateConfig { replica_num: 2, ..ReplicateConfig::default() };
    let puts: Vec<PutItem<'_>> =
        KEYS.iter().zip(LENS).map(|(key, len)| PutItem::new(key, len)).collect();
    let parts = [Part { from: 0, len: 7 }, Part { from: 4_000, len: 1_000 }];
    let whole = KEYS.iter().map(|key| GetItem::whole(key, None)).collect::<Vec<_>>();
    let bounded: Vec<GetItem<'_>> =
        KEYS.iter().zip(LENS).map(|(key, len)| GetItem::whole(key, Some(len))).collect();
    let some = KEYS.map(|key| GetItem { key, want: Want::Parts(&parts) });
    peers.run(GetOp::new(&whole, &own, Chance::new(1)), None);
    peers.run(GetOp::new(&bounded, &own, Chance::new(2)), Some(&LENS));
    peers.run(GetOp::new(&some, &own, Chance::new(3)), Some(&[1_007; 3]));
    peers.run(PutOp::new(&puts, &config), Some(&LENS));
    peers.run(PutOp::upsert(&puts, &config), Some(&LENS));
    peers.run(RemoveOp::new(&KEYS, true), None);
    peers.run(RemoveScanOp::new(Some(".*"), true), None);
    peers.run(ListOp::new(None), None);
    peers.run(ExistOp::new(&KEYS), None);
    peers.run(LocateOp::new(&KEYS), None);
    peers.run(PrefixLenOp::new(&KEYS, 0), None);
    for reply in peers.replies.clone() {
        let Reply::TasksFetched(orders) = reply else { continue };
        for order in &orders.orders {
            let window = [order.len.min(1_000)];
            peers.run(CarryOp::new(order, orders.segments.clone(), 1_000), Some(&window));
        }
    }
}

#[test]
fn no_reply_off_a_socket_ends_a_client() {
    let ranges = [const { Cell::new(0) }; 2];
    runner(2_000)
        .run(&peers(), |mut peers| {
            run_all(&mut peers);
            ranges.iter().zip(peers.ranges).for_each(|(all, some)| all.set(all.get() + some));
            Ok(())
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
    assert!(ranges.iter().all(|ranges| ranges.get() > 1_000), "{ranges:?}");
}
