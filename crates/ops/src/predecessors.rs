use std::collections::BTreeSet;

use mooncake_types::mutation::{Rule, is_broken};
use mooncake_types::{RangeDrop, RemainingRange, SegmentAddress, SegmentId, Tick, Version};

use super::{Discard, MoveError, RetryPolicy, Step};

/// Older versions of what was looked up, which nodes may still hold. They are dropped before anything newer is read: a later
/// leader that found them would name them after that. Who put the newer version does the same; but it may have died.
#[derive(Debug, Default)]
pub(super) struct Predecessors {
    /// Each with the position of its item.
    left: Vec<(usize, Discard)>,
    is_under_way: bool,
    /// What was dropped. The master is not told, so it names it again if it is asked again.
    dropped: BTreeSet<(SegmentId, u64, Version)>,
    /// A pause follows, which ends at that moment once it has begun.
    must_pause: bool,
    pause_ends: Option<Tick>,
}

impl Predecessors {
    /// Takes up what a reply named, of the items at these positions.
    pub(super) fn on_named(
        &mut self,
        ranges: &[(u32, RemainingRange)],
        segments: &[SegmentAddress],
        positions: &[usize],
    ) {
        if is_broken(Rule::RemainsAreDropped) || is_broken(Rule::PredecessorsAreDropped) {
            return;
        }
        for (key, range) in ranges {
            let position = positions.get(*key as usize);
            let segment = segments.get(range.segment as usize);
            let (Some(&position), Some(segment)) = (position, segment) else { continue };
            let &RemainingRange { offset, version, grant, .. } = range;
            let range = RangeDrop { segment: segment.id, offset, version, grant };
            if !self.dropped.contains(&(range.segment, offset, version)) {
                self.left.push((position, Discard { endpoint: segment.endpoint.clone(), range }));
            }
        }
    }

    /// Has them dropped, if there are any, and waits as long as it has to.
    pub(super) fn next<'a>(&mut self, now: Tick) -> Option<Step<'a>> {
        if !self.left.is_empty() {
            self.is_under_way = true;
            let left = self.left.iter().map(|(_, discard)| discard.clone());
            return Some(Step::Drop(left.collect()));
        }
        if std::mem::take(&mut self.must_pause) {
            self.pause_ends = Some(RetryPolicy::OLDER_VERSION.pause_after(0, now));
        }
        let until = self.pause_ends.filter(|&until| now < until)?;
        Some(Step::Wait(until))
    }

    /// Whether the outcome of a transfer is that of [`Predecessors::next`].
    pub(super) fn is_under_way(&self) -> bool {
        self.is_under_way
    }

    /// The positions of items that may not be read yet: not all that is older was dropped.
    pub(super) fn on_dropped(&mut self, results: &[Result<(), MoveError>]) -> Vec<usize> {
        let tried = std::mem::take(&mut self.left);
        self.is_under_way = false;
        assert_eq!(results.len(), tried.len(), "one result per range");
        let mut failed = Vec::new();
        for ((position, discard), result) in tried.into_iter().zip(results) {
            match result {
                Err(_) if !is_broken(Rule::DropsAreConfirmed) => failed.push(position),
                _ => {
                    let RangeDrop { segment, offset, version, .. } = discard.range;
                    self.dropped.insert((segment, offset, version));
                }
            }
        }
        failed
    }

    /// Some items are to be looked up again, in a while.
    pub(super) fn pause(&mut self) {
        self.must_pause = true;
    }
}
