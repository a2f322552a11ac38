//! Withheld replicas: look-ups leave them out, because a drain job wants to drop them.

use std::collections::BTreeMap;

use mooncake_types::Tick;

/// Most replicas that are withheld. Others wait until some of these are dropped.
const MOST: usize = 1 << 16;

/// The withheld replicas, by object and replica number.
#[derive(Debug, Default)]
pub(crate) struct Withheld(BTreeMap<(u32, u8), Withholding>);

#[derive(Clone, Copy, Debug)]
struct Withholding {
    /// The job that wants to drop the replica.
    job: u32,
    /// From this moment no reader has a route to the replica.
    until: Tick,
}

impl Withheld {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The withheld replicas of an object, as bits.
    pub(super) fn of_object(&self, object: u32) -> u32 {
        let of_object = self.0.range((object, 0)..=(object, u8::MAX));
        of_object.fold(0, |set, (&(_, replica), _)| set | 1 << replica)
    }

    /// Forgets these replicas of an object: look-ups name them again, or they are gone.
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

    /// Withholds a replica for a job. Returns the moment from which no reader has a route to it: `until`, unless it
    /// was withheld before. None if too many are withheld.
    pub(super) fn insert(&mut self, replica: (u32, u8), job: u32, until: Tick) -> Option<Tick> {
        if self.0.len() >= MOST {
            return self.0.get(&replica).map(|it| it.until);
        }
        Some(self.0.entry(replica).or_insert(Withholding { job, until }).until)
    }

    /// Forgets the replicas of a job that has ended.
    pub(super) fn forget_job(&mut self, number: u32) {
        self.0.retain(|_, withholding| withholding.job != number);
    }

    /// Each replica with the number of its job.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, u8, u32)> {
        self.0.iter().map(|(&(object, replica), withholding)| (object, replica, withholding.job))
    }
}
