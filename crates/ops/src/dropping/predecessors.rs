use std::collections::BTreeSet;

use mooncake_types::mutation::{Rule, is_broken};
use mooncake_types::{Discard, RangeDrop, RemainingRange, SegmentAddress, Tick};

use super::discard;
use crate::op::{MoveError, Step};
use crate::retry::RetryPolicy;

/// Older versions of what was looked up, which nodes may still hold. They are dropped before anything newer is read: a later
/// leader that found them would name them after that. The client that put the newer version does the same, but it may have
/// died.
#[derive(Debug, Default)]
pub(crate) struct Predecessors {
    /// Each with the position of its item.
    left: Vec<(usize, Discard)>,
    is_under_way: bool,
    /// What was dropped. The master is not told, so it names it again if it is asked again.
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
    /// Takes up what a reply named, of the items at these positions.
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

    /// Has them dropped, if there are any, and waits as long as it has to.
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

    /// Whether the outcome of a transfer is that of [`Predecessors::next`].
    pub(crate) fn is_under_way(&self) -> bool {
        self.is_under_way
    }

    /// The positions of items that may not be read yet: not all that is older was dropped.
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

    /// Some items are to be looked up again, in a while.
    pub(crate) fn pause(&mut self) {
        self.pause = LookupPause::Wanted;
    }
}
