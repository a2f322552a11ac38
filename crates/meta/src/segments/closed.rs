//! Why a segment takes no puts.

use mooncake_types::SegmentState;

/// A reason why a segment takes no puts. What lies there stays as it is, but for what is said here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// Its node has not told all that lies there.
    Recovering,
    /// Its node was restarted, or begins its inventory again: some of what it was known to hold may be gone.
    Reviewed,
    /// A drain job moves what lies there.
    Draining,
    /// A drain job has moved all of it.
    Drained,
    /// Its client has taken it back: the grace period is not over, or routes from within it are not.
    GracePeriod,
    /// It is unmounted: its bytes are lost, and its records go as they are met.
    Unmounted,
    /// Its bytes count as lost once the record says so, or its node serves them no longer after a grace period. Look-ups do not
    /// name them.
    Struck,
    /// The membership record says that it is behind: under another leader it would start empty.
    Behind,
    /// Its node has so much to drop that it has to drop most of it first.
    Choked,
    /// Its client is out of sight: its bytes are neither readable nor lost.
    OutOfSight,
    /// Its node cannot be connected to where it says that it serves.
    Unreached,
    /// It lies on a disk or in a shared directory: objects are offloaded to it, none are put there.
    Disk,
}

/// All reasons why a segment takes no puts. It takes them if there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reasons(u16);

impl Reasons {
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn has(self, reason: Closed) -> bool {
        self.0 & 1 << reason as u16 != 0
    }

    /// The same, with or without a reason.
    #[must_use]
    pub(crate) fn with(self, reason: Closed, holds: bool) -> Self {
        let bit = 1 << reason as u16;
        Self(if holds { self.0 | bit } else { self.0 & !bit })
    }

    /// What operators are told.
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
