use std::fmt;

use crate::limits;

/// A client process for as long as it lives: drawn at random when the process sets its store up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u128);

impl ClientId {
    /// Stands for the client in requests of operators, which come through the admin HTTP server. No client has this id, so
    /// it is never counted as alive or dead.
    pub const OPERATOR: ClientId = ClientId(0);
}

/// One incarnation of a segment: drawn at random when the memory is mapped, so that memory that was lost and
/// mapped again never answers for its predecessor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId(pub u128);

/// The fencing number of a leader. A node obeys only the highest that it has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

impl Epoch {
    /// Whether a leader may have this epoch where `known` is the highest that is known. One far above is from nowhere: a
    /// cluster that followed it would have to count on from there for good.
    #[must_use]
    pub fn is_credible(self, known: Epoch) -> bool {
        self <= limits::HIGHEST_EPOCH && self.0.saturating_sub(known.0) <= limits::MAX_EPOCH_JUMP
    }

    /// The epoch of the leader that follows this one, by a wall clock that shows `now`. If the clock is far ahead, the epoch
    /// is the highest [credible](Self::is_credible) one, unless there was no leader before.
    #[must_use]
    pub fn next(self, now: Epoch) -> Epoch {
        let furthest = match self {
            Epoch(0) => u64::MAX,
            Epoch(known) => known.saturating_add(limits::MAX_EPOCH_JUMP),
        };
        Epoch((self.0 + 1).max(now.0.min(furthest)))
    }
}

/// The version of one put. It grows over the whole cluster: first by leader, then by put.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// The leader that granted the put.
    pub epoch: Epoch,
    /// The number of the grant under that leader, from 1.
    pub counter: u64,
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Display for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch, self.counter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: u64 = 1_800_000_000_000;

    #[test]
    fn an_epoch_is_believed_up_to_a_jump_above_what_is_known() {
        let jump = limits::MAX_EPOCH_JUMP;
        let highest = limits::HIGHEST_EPOCH.0;
        for (epoch, known, is_credible) in [
            (0, KNOWN, true),
            (KNOWN - 1, KNOWN, true),
            (KNOWN + jump, KNOWN, true),
            (KNOWN + jump + 1, KNOWN, false),
            ((1 << 61) - 1, KNOWN, false),
            (u64::MAX, KNOWN, false),
            (highest, highest, true),
            (highest + 1, highest, false),
        ] {
            assert_eq!(Epoch(epoch).is_credible(Epoch(known)), is_credible, "{epoch} {known}");
        }
    }

    #[test]
    fn the_next_epoch_is_higher_and_follows_the_clock_as_far_as_it_is_believed() {
        let jump = limits::MAX_EPOCH_JUMP;
        for (known, now, next) in [
            (0, KNOWN, KNOWN),
            (0, 0, 1),
            (KNOWN, KNOWN + 5, KNOWN + 5),
            (KNOWN, 0, KNOWN + 1),
            (KNOWN, KNOWN, KNOWN + 1),
            (KNOWN, u64::MAX, KNOWN + jump),
        ] {
            assert_eq!(Epoch(known).next(Epoch(now)), Epoch(next), "{known} {now}");
            assert!(known == 0 || Epoch(next).is_credible(Epoch(known)));
        }
    }
}
