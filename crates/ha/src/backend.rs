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
    /// The candidate's wall clock: see [`Epoch::next`].
    pub(crate) now: Epoch,
}

impl Claim {
    pub(crate) fn holder(&self, epoch: Epoch) -> Holder {
        Holder { address: self.address.clone(), epoch: epoch.0, token: self.token.clone() }
    }
}

/// The outcome of an attempt.
#[derive(Debug)]
pub(crate) enum Claimed {
    Won(Won),
    /// Another master leads, or was quicker.
    Held(Option<LeaderView>),
}

/// A leadership that was won.
#[derive(Debug)]
pub(crate) struct Won {
    pub(crate) term: Box<dyn Term>,
    /// The record as it is stored now, under the new epoch.
    pub(crate) record: Record,
    /// The start of the lease: a moment before it was asked for.
    pub(crate) asked_at: Instant,
}

/// The place where masters agree on their leader.
///
/// All calls are bounded in time. Any number of threads may call at once.
pub(crate) trait Backend: fmt::Debug + Send + Sync {
    /// Tries once to lead. Reads the record after it takes the place, or together with that. When this returns `Won`,
    /// the record durably has the epoch of the new leader.
    fn claim(&self, claim: &Claim) -> Result<Claimed, CoordinatorError>;

    /// The current leader. Writes nothing.
    fn leader(&self) -> Result<Option<LeaderView>, CoordinatorError>;

    /// Whether no master leads before the lease of a dead leader ends. Backends that notice the death need not wait.
    fn waits_for_leases(&self) -> bool {
        true
    }

    /// A good pause between two questions.
    fn poll_every(&self) -> Duration;

    /// Waits until it is worth asking again, for at most `most`. `seen` is the leader of a moment ago.
    fn rest(&self, _seen: Option<&LeaderView>, most: Duration) {
        thread::sleep(most.min(self.poll_every()));
    }
}

/// One leader's hold on the place. Dropping it has the effect of a crash, not of [`Term::resign`].
pub(crate) trait Term: fmt::Debug + Send + Sync {
    /// Restarts the lease from now.
    fn renew(&self) -> Result<(), CoordinatorError>;

    /// Restarts a lease that is over, if no other master has led since. Every leader writes the record with a higher
    /// epoch, so it must still have the epoch that was acknowledged last. `Deposed`: another master has led, or that
    /// cannot be excluded.
    ///
    /// If the sign of a held place outlives the lease, and only the next leader changes it, a renewal is enough.
    fn resume(&self, _acknowledged: Epoch) -> Result<(), CoordinatorError> {
        self.renew()
    }

    /// Replaces the record, durably, if this term still lasts and nothing else was written in between. Calls never
    /// overlap.
    fn write(&self, record: &Record) -> Result<(), CoordinatorError>;

    /// Longest text of a record that the place takes, in bytes.
    fn limit_bytes(&self) -> usize {
        usize::MAX
    }

    /// Gives the place back.
    fn resign(&self) -> Result<(), CoordinatorError>;
}
