use std::collections::BTreeSet;

use mooncake_types::mutation::{Rule, is_broken};
use mooncake_types::{NodeDrop, RangeDrop, RemainingRange, SegmentAddress, Tick};

use super::discard;
use crate::op::{MoveError, Step};
use crate::retry::RetryPolicy;

/// Older versions of looked-up objects that nodes may still hold. The client has nodes drop them before it reads
/// anything newer: otherwise a later leader could find them and name them after that. The client that put the newer
/// version does the same, but it may have died.
#[derive(Debug, Default)]
pub(crate) struct Predecessors {
    /// Each with the position of its item.
    left: Vec<(usize, NodeDrop)>,
    is_under_way: bool,
    /// Confirmed drops. This client does not report them, so the master may name them again.
    dropped: BTreeSet<RangeDrop>,
    pause: LookupPause,
}

/// The pause before some items are looked up again.
#[derive(Clone, Copy, Debug, Default)]
enum LookupPause {
    #[default]
    None,
    Wanted,
    Until(Tick),
}

impl Predecessors {
    /// Takes the older versions that a reply names. `positions` are those of the items that it answers.
    pub(crate) fn on_named(
        &mut self,
        ranges: &[(u32, RemainingRange)],
        segments: &[SegmentAddress],
        positions: &[usize],
    ) {
        if is_broken(Rule::RemainsAreDropped) || is_broken(Rule::PredecessorsAreDropped) {
            return;
        }
        for (key, range) in ranges {
            let Some(&position) = positions.get(*key as usize) else { continue };
            let left = discard(range, segments).filter(|it| !self.dropped.contains(&it.range));
            self.left.extend(left.map(|discard| (position, discard)));
        }
    }

    /// The drops to make, or else the pause before a new lookup; `None` if neither is due.
    pub(crate) fn next<'a>(&mut self, now: Tick) -> Option<Step<'a>> {
        if !self.left.is_empty() {
            self.is_under_way = true;
            let left = self.left.iter().map(|(_, discard)| discard.clone());
            return Some(Step::Drop(left.collect()));
        }
        if let LookupPause::Wanted = self.pause {
            self.pause = LookupPause::Until(RetryPolicy::OLDER_VERSION.pause_after(0, now));
        }
        match self.pause {
            LookupPause::Until(until) if now < until => Some(Step::Wait(until)),
            _ => None,
        }
    }

    /// Whether the transfer under way is a drop that [`Predecessors::next`] asked for.
    pub(crate) fn is_under_way(&self) -> bool {
        self.is_under_way
    }

    /// Takes the outcome of the drops. Returns the positions of items that may not be read yet, since a node did not
    /// drop an older version.
    pub(crate) fn on_dropped(&mut self, results: &[Result<(), MoveError>]) -> Vec<usize> {
        let tried = std::mem::take(&mut self.left);
        self.is_under_way = false;
        assert_eq!(results.len(), tried.len(), "one result per range");
        let mut failed = Vec::new();
        for ((position, discard), result) in tried.into_iter().zip(results) {
            match result {
                Err(_) if !is_broken(Rule::DropsAreConfirmed) => failed.push(position),
                _ => {
                    self.dropped.insert(discard.range);
                }
            }
        }
        failed
    }

    /// Asks for a pause before items are looked up again.
    pub(crate) fn pause(&mut self) {
        self.pause = LookupPause::Wanted;
    }
}
