//! Replicas that a drain job lets go of without a move, since there is no room for them and another of their object stays.
//!
//! Who has a route to such a replica would find there what is replaced meanwhile. So while the object is leased, look-ups leave
//! the replica out, and once every lease of before is over it is let go, however often the object is read.

use std::collections::BTreeMap;

use mooncake_types::{ErrorCode, SegmentState, Tick};

use crate::Meta;

/// The replicas that look-ups leave out, by object and number.
#[derive(Debug, Default)]
pub(crate) struct Withheld(BTreeMap<(u32, u8), Withholding>);

#[derive(Clone, Copy, Debug)]
struct Withholding {
    /// Of the job that wants to let go of it.
    job: u32,
    /// From then on nobody has a route to it.
    until: Tick,
}

impl Withheld {
    /// The numbers of an object's, as bits.
    fn of_object(&self, object: u32) -> u32 {
        let of_object = self.0.range((object, 0)..=(object, u8::MAX));
        of_object.fold(0, |set, (&(_, replica), _)| set | 1 << replica)
    }

    /// These replicas of an object are named again, or are no more.
    pub(crate) fn forget(&mut self, object: u32, set: u32) {
        let mut forgotten = self.of_object(object) & set;
        while forgotten != 0 {
            self.0.remove(&(object, forgotten.trailing_zeros() as u8));
            forgotten &= forgotten - 1;
        }
    }

    /// A job is over.
    pub(crate) fn forget_job(&mut self, number: u32) {
        self.0.retain(|_, withholding| withholding.job != number);
    }

    /// Each with the number of its job.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, u8, u32)> {
        self.0.iter().map(|(&(object, replica), withholding)| (object, replica, withholding.job))
    }
}

impl Meta {
    /// Drops a replica that cannot be moved, if another can be read that stays.
    ///
    /// # Errors
    /// [`ErrorCode::NoAvailableHandle`] if none can; [`ErrorCode::ObjectHasLease`] while readers may have routes to it. From
    /// then on no others get one.
    pub(crate) fn release_drained(
        &mut self,
        number: u32,
        object: u32,
        replica: u8,
    ) -> Result<(), ErrorCode> {
        let stays = |slot: u32| {
            let segment = &self.segments[slot];
            segment.serves()
                && matches!(segment.state(), SegmentState::Ok | SegmentState::Recovering)
        };
        let going = self
            .ranges_of(object)
            .filter(|(_, range)| !stays(range.segment))
            .fold(1u32 << replica, |set, (_, range)| set | 1 << range.replica);
        if self.ranges_of(object).all(|(_, range)| going & 1 << range.replica != 0) {
            return Err(ErrorCode::NoAvailableHandle);
        }
        if self.is_leased(object) && !self.is_withheld(number, object, replica) {
            return Err(ErrorCode::ObjectHasLease);
        }
        self.free_replicas(object, 1 << replica);
        self.count_released(number);
        Ok(())
    }

    /// Has look-ups leave a replica out. Whether they have done so for as long as a lease lasts.
    fn is_withheld(&mut self, job: u32, object: u32, replica: u8) -> bool {
        let until = self.now.after_ms(self.config.lease_ttl_ms);
        let withheld = &mut self.drains.withheld.0;
        let withholding = withheld.entry((object, replica)).or_insert(Withholding { job, until });
        withholding.until <= self.now
    }

    /// The replicas of an object that look-ups leave out, as bits: those that cannot be read, and those that are to be let go
    /// as long as another can.
    pub(crate) fn unnamed_replicas(&self, object: u32) -> u32 {
        let unreadable = self.unreadable_replicas(object);
        let unnamed = unreadable | self.drains.withheld.of_object(object);
        if self.has_replica_but(object, unnamed) { unnamed } else { unreadable }
    }

    /// A look-up has named replicas of an object. Those that were left out until now and are no longer may be read again.
    pub(crate) fn note_named(&mut self, object: u32) {
        if self.drains.withheld.0.is_empty() {
            return;
        }
        let named = !self.unnamed_replicas(object);
        self.drains.withheld.forget(object, named);
    }
}
