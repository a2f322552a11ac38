use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

use mooncake_types::Epoch;

use crate::{CoordinatorError, LeaderView, Record, holder::Holder};

/// One attempt to lead.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) address: String,
    pub(crate) token: String,
    /// What the candidate's wall clock shows: see [`Epoch::next`].
    pub(crate) now: Epoch,
}

impl Claim {
    pub(crate) fn holder(&self, epoch: Epoch) -> Holder {
        Holder { address: self.address.clone(), epoch: epoch.0, token: self.token.clone() }
    }
}

/// What came of an attempt.
#[derive(Debug)]
pub(crate) enum Claimed {
    Won(Won),
    /// Somebody else leads, or was quicker.
    Held(Option<LeaderView>),
}

/// A place that was taken.
#[derive(Debug)]
pub(crate) struct Won {
    pub(crate) term: Box<dyn Term>,
    /// As it is written now, under the new epoch.
    pub(crate) record: Record,
    /// From when on the lease counts: a moment before it was asked for.
    pub(crate) asked_at: Instant,
}

/// Where masters find out which of them leads.
///
/// All calls are bounded in time. Any number of threads may call at once.
pub(crate) trait Backend: fmt::Debug + Send + Sync {
    /// Tries once to lead. The record is read after the place is taken or together with it, and the epoch of
    /// the new leader is in the record, durably, when this returns `Won`.
    fn claim(&self, claim: &Claim) -> Result<Claimed, CoordinatorError>;

    /// Who leads. Writes nothing.
    fn leader(&self) -> Result<Option<LeaderView>, CoordinatorError>;

    /// Whether nobody leads before the lease of a leader that died is over. Where its death shows, others need not wait.
    fn waits_for_leases(&self) -> bool {
        true
    }

    /// How often it is good to ask.
    fn poll_every(&self) -> Duration;

    /// Waits until it is good to ask again, no longer than `most`, given who led a moment before.
    fn rest(&self, _seen: Option<&LeaderView>, most: Duration) {
        thread::sleep(most.min(self.poll_every()));
    }
}

/// The place of one leader. Dropping it is like dying, and not like [`Term::resign`].
pub(crate) trait Term: fmt::Debug + Send + Sync {
    /// Makes the lease last from now.
    fn renew(&self) -> Result<(), CoordinatorError>;

    /// Makes the lease last from now although it is over, if nobody took the place since. That shows by the record,
    /// which whoever takes the place writes with a higher epoch: it still has the one of the last that was acknowledged.
    /// `Deposed`: somebody took the place, or that cannot be told.
    ///
    /// Where what shows that a place is held stays when the lease is over, and is changed by whoever takes the place
    /// only, a renewal does.
    fn resume(&self, _acknowledged: Epoch) -> Result<(), CoordinatorError> {
        self.renew()
    }

    /// Replaces the record, durably, if this term still lasts and nothing else was written in between. The
    /// calls come one after the other.
    fn write(&self, record: &Record) -> Result<(), CoordinatorError>;

    /// Longest text of a record that the place takes, in bytes.
    fn limit_bytes(&self) -> usize {
        usize::MAX
    }

    /// Gives the place back.
    fn resign(&self) -> Result<(), CoordinatorError>;
}
