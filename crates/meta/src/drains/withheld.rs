//! Replicas that look-ups leave out, because a drain job is to let go of them.

use std::collections::BTreeMap;

use mooncake_types::Tick;

/// The replicas that look-ups leave out, by object and number.
#[derive(Debug, Default)]
pub(crate) struct Withheld(BTreeMap<(u32, u8), Withholding>);

#[derive(Clone, Copy, Debug)]
struct Withholding {
    /// Of the job that wants to let go of it.
    job: u32,
    /// From then on no reader has a route to it.
    until: Tick,
}

impl Withheld {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The numbers of an object's, as bits.
    pub(super) fn of_object(&self, object: u32) -> u32 {
        let of_object = self.0.range((object, 0)..=(object, u8::MAX));
        of_object.fold(0, |set, (&(_, replica), _)| set | 1 << replica)
    }

    /// These replicas of an object are named again, or are no more.
    pub(crate) fn forget(&mut self, object: u32, set: u32) {
        if self.0.is_empty() {
            return;
        }
        let mut forgotten = self.of_object(object) & set;
        while forgotten != 0 {
            self.0.remove(&(object, forgotten.trailing_zeros() as u8));
            forgotten &= forgotten - 1;
        }
    }

    /// A replica is left out for a job. Gives the moment from which on nobody has a route to it: `until` if it is a new one.
    pub(super) fn insert(&mut self, (object, replica): (u32, u8), job: u32, until: Tick) -> Tick {
        self.0.entry((object, replica)).or_insert(Withholding { job, until }).until
    }

    /// A job is over.
    pub(super) fn forget_job(&mut self, number: u32) {
        self.0.retain(|_, withholding| withholding.job != number);
    }

    /// Each with the number of its job.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, u8, u32)> {
        self.0.iter().map(|(&(object, replica), withholding)| (object, replica, withholding.job))
    }
}
