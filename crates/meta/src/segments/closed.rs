//! Why a segment takes no puts.

use mooncake_types::SegmentState;

/// A reason why a segment takes no puts. The objects on the segment stay as they are, unless the reason says
/// otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// Its node has not reported all its entries.
    Recovering,
    /// Its node was restarted, or begins its inventory anew: some entries that the master knows may be gone.
    Reviewed,
    /// A drain job is moving its objects away.
    Draining,
    /// A drain job has moved all its objects away.
    Drained,
    /// Its client unmounts it: the grace period is not over, or routes that readers got within it are not.
    GracePeriod,
    /// It is unmounted: its bytes are lost, and its records are removed step by step.
    Unmounted,
    /// It is leaving: the record is about to strike it, or its grace period is over. Look-ups do not name its ranges.
    Struck,
    /// The membership record marks it behind: under another leader it would start empty.
    Behind,
    /// It has so many tombstones that its node must drop half of them first.
    Choked,
    /// Its client is out of sight: its bytes are neither readable nor lost.
    OutOfSight,
    /// The master cannot connect to its node at its endpoint.
    Unreached,
    /// It lies below memory: objects are offloaded to it, none are put there.
    Disk,
}

/// All reasons why a segment takes no puts. Without any, it takes puts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reasons(u16);

impl Reasons {
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn has(self, reason: Closed) -> bool {
        self.0 & 1 << reason as u16 != 0
    }

    /// The same reasons, with or without this one.
    #[must_use]
    pub(crate) fn with(self, reason: Closed, holds: bool) -> Self {
        let bit = 1 << reason as u16;
        Self(if holds { self.0 | bit } else { self.0 & !bit })
    }

    /// The state that operators see.
    pub(crate) fn state(self) -> SegmentState {
        let states = [
            (Closed::Unmounted, SegmentState::Unmounting),
            (Closed::GracePeriod, SegmentState::GracefullyUnmounting),
            (Closed::Recovering, SegmentState::Recovering),
            (Closed::Drained, SegmentState::Drained),
            (Closed::Draining, SegmentState::Draining),
        ];
        let first = states.into_iter().find(|&(reason, _)| self.has(reason));
        first.map_or(SegmentState::Ok, |(_, state)| state)
    }
}
