pub(crate) mod predecessors;

use std::sync::Arc;

use mooncake_types::mutation::{Rule, is_broken};
use mooncake_types::{
    NodeDrop, RangeDrop, RemainingRange, Remains, Reply, Request, SegmentAddress, Tick, limits,
};

use crate::op::{CallError, MoveError, Step};
use crate::retry::RetryPolicy;

/// From this many drops on, the client reports them to the master itself. The nodes would take long to do so, and the
/// master keeps a record of each drop until then.
const REPORT_DROPS_FROM: usize = 256;

/// Has nodes drop the entries of removed objects that the master said they may hold, and reports to the master.
///
/// An entry counts as dropped only once its node confirms it. Time proves nothing: a later leader could find the
/// entry. Only the master may say that an entry is gone, once it knows that the node returned empty. So the client
/// asks the master again until it names no entry, or until the deadline of the call.
#[derive(Debug, Default)]
pub(crate) struct Dropping {
    round: Option<Round>,
    /// Drops that nodes did not confirm in the last round.
    unconfirmed: Vec<NodeDrop>,
    /// Those of them that did not fit into the request to the master. They belong to the next round.
    unasked: Vec<NodeDrop>,
}

/// The drops that one reply named.
#[derive(Debug)]
struct Round {
    left: Vec<NodeDrop>,
    /// Confirmed drops that this client still has to report to the master.
    done: Vec<RangeDrop>,
    /// Whether this client reports the drops to the master. It does so if the ranges are reserved until a lease ends,
    /// or if there are very many. Otherwise the nodes' own reports come soon enough.
    reports_drops: bool,
    stage: RoundStage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RoundStage {
    Drop,
    Tell,
    /// Pauses before the next attempt; `None` until the end of the pause is set.
    Wait(Option<Tick>),
}

/// How a round ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dropped {
    /// Nodes confirmed all drops: no reader finds the entries.
    All,
    /// Some drops are unconfirmed: the master must be asked again.
    Not,
}

/// The drops that a reply names, each with its node. Leaves out ranges of unknown segments.
pub(crate) fn discards(remains: &Remains) -> Vec<NodeDrop> {
    remains.ranges.iter().filter_map(|range| discard(range, &remains.segments)).collect()
}

/// The drop of one range, with its node; `None` if the range is in no known segment.
pub(crate) fn discard(range: &RemainingRange, segments: &[SegmentAddress]) -> Option<NodeDrop> {
    let segment = segments.get(range.segment as usize)?;
    let RemainingRange { offset, version, grant, seal, .. } = *range;
    let range = RangeDrop { segment: segment.id, offset, version, grant };
    Some(NodeDrop { endpoint: Arc::clone(&segment.endpoint), range, seal })
}

impl Dropping {
    /// Begins a round with the drops that a reply names and those not asked about yet. Gives up on an error.
    pub(crate) fn on_reply(&mut self, reply: &Result<Reply, CallError>) {
        match reply {
            Ok(Reply::Remaining { remains, .. }) => self.begin(remains),
            Ok(_) if self.unasked.is_empty() => {}
            Ok(_) => self.begin(&Remains::default()),
            Err(_) => self.give_up(),
        }
    }

    /// Begins a round with the drops that `remains` names.
    pub(crate) fn begin(&mut self, remains: &Remains) {
        let mut left = std::mem::take(&mut self.unasked);
        left.extend(discards(remains));
        if is_broken(Rule::RemainsAreDropped) {
            left.clear();
        }
        let reports_drops = remains.lease_ms > 0 || left.len() >= REPORT_DROPS_FROM;
        self.round = Some(Round { left, done: Vec::new(), reports_drops, stage: RoundStage::Drop });
    }

    /// Asks the master which unconfirmed entries may still exist. `keys` are those of their objects.
    pub(crate) fn ask_again<'a>(&mut self, keys: Vec<&'a str>) -> Request<'a> {
        let mut asked = std::mem::take(&mut self.unconfirmed);
        self.unasked = asked.split_off(asked.len().min(limits::MAX_FETCHED_DROPS as usize));
        let ranges = asked.into_iter().map(|discard| discard.range).collect();
        Request::Retract { keys, ranges }
    }

    /// Forgets all drops.
    pub(crate) fn give_up(&mut self) {
        *self = Self::default();
    }

    /// Whether a round is under way.
    pub(crate) fn is_under_way(&self) -> bool {
        self.round.is_some()
    }

    /// The next step of the round; `None` once it is over, see [`Dropping::end`].
    pub(crate) fn next<'a>(&mut self, now: Tick) -> Option<Step<'a>> {
        let round = self.round.as_mut()?;
        loop {
            match round.stage {
                RoundStage::Drop if !round.left.is_empty() => {
                    round.stage = RoundStage::Tell;
                    return Some(Step::Drop(round.left.clone()));
                }
                RoundStage::Drop => round.stage = RoundStage::Tell,
                RoundStage::Tell => match round.tell() {
                    Some(step) => return Some(step),
                    None => round.stage = RoundStage::Wait(None),
                },
                RoundStage::Wait(_) if round.left.is_empty() => return None,
                RoundStage::Wait(None) => {
                    round.stage = RoundStage::Wait(Some(RetryPolicy::DROP.pause_after(0, now)));
                }
                RoundStage::Wait(Some(until)) if now < until => return Some(Step::Wait(until)),
                RoundStage::Wait(Some(_)) => return None,
            }
        }
    }

    /// The outcome of [`Step::Drop`].
    pub(crate) fn on_dropped(&mut self, results: &[Result<(), MoveError>]) {
        let round = self.round.as_mut().expect("what is dropped is of a round");
        assert_eq!(results.len(), round.left.len(), "one result per range");
        let tried = std::mem::take(&mut round.left);
        for (discard, result) in tried.into_iter().zip(results) {
            match result {
                Ok(()) if round.reports_drops => round.done.push(discard.range),
                Ok(()) => {}
                Err(_) if is_broken(Rule::DropsAreConfirmed) => {}
                Err(_) => round.left.push(discard),
            }
        }
    }

    /// The outcome of a report to the master. If it failed, the nodes' own reports have to do.
    pub(crate) fn on_told(&mut self, is_answered: bool) {
        if let (false, Some(round)) = (is_answered, &mut self.round) {
            round.done.clear();
        }
    }

    /// Ends the round, and tells whether nodes confirmed all drops.
    pub(crate) fn end(&mut self) -> Dropped {
        let left = self.round.take().map_or(Vec::new(), |round| round.left);
        if left.is_empty() {
            self.give_up();
            return Dropped::All;
        }
        self.unconfirmed = left;
        Dropped::Not
    }
}

impl Round {
    fn tell<'a>(&mut self) -> Option<Step<'a>> {
        let rest = self.done.len().saturating_sub(limits::MAX_FETCHED_DROPS as usize);
        let dropped = self.done.split_off(rest);
        (!dropped.is_empty()).then_some(Step::Call(Request::Dropped { dropped }))
    }
}
