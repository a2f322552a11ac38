use std::fmt;

use crate::limits;

/// The id of a client, drawn at random when a process opens its store. A later process that takes over the memory or
/// the disk folder of an earlier one keeps the id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u128);

impl ClientId {
    /// The client of requests of operators, which come through the admin HTTP server. No client has this id, so the
    /// master never counts it as alive or dead.
    pub const OPERATOR: ClientId = ClientId(0);

    /// Digits of an id that others are told, of 32. They tell clients apart, and leave too many to guess.
    pub const TOLD_DIGITS: usize = 8;

    /// The id as others are told it: its first digits, followed by zeros. Whoever knows all digits may speak for the
    /// client.
    #[must_use]
    pub const fn told(self) -> ClientId {
        let hidden_bits = u128::BITS - 4 * Self::TOLD_DIGITS as u32;
        ClientId(self.0 >> hidden_bits << hidden_bits)
    }
}

/// The id of one incarnation of a segment, drawn at random when its memory is first mapped. Memory that was lost and
/// mapped again has a new id, so it never answers for the lost memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId(pub u128);

/// The number of a leadership, for fencing. A node obeys only the highest epoch that its own master has named to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

impl Epoch {
    /// Whether a leader can have this epoch if `known` is the highest known one. An epoch far above is an error: a
    /// cluster that accepted it could never again use lower epochs.
    #[must_use]
    pub fn is_credible(self, known: Epoch) -> bool {
        self <= limits::HIGHEST_EPOCH && self.0.saturating_sub(known.0) <= limits::MAX_EPOCH_JUMP
    }

    /// The epoch of the leader after this one, if the wall clock shows `now`. If the clock is far ahead, this is the
    /// highest [credible](Self::is_credible) epoch, unless there was no leader before.
    #[must_use]
    pub fn next(self, now: Epoch) -> Epoch {
        let furthest = match self {
            Epoch(0) => u64::MAX,
            Epoch(known) => known.saturating_add(limits::MAX_EPOCH_JUMP),
        };
        Epoch((self.0 + 1).max(now.0.min(furthest)))
    }
}

/// The version of one put. Versions grow over the whole pool: first by leader, then by put.
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
