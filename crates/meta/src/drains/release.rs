//! Release: a drain job drops a replica instead of moving it. It does so if no segment has room and another replica
//! stays, or if it drains a disk and the object is also in memory.
//!
//! A reader with a route to a dropped replica could read a version there that is replaced meanwhile. So look-ups first
//! leave the replica out while the object is leased. The job drops it once the earlier leases are over, even if the
//! object is still read.

use mooncake_types::{ErrorCode, SegmentState};

use crate::Meta;

impl Meta {
    /// Drops a replica instead of moving it, if another readable replica stays.
    ///
    /// # Errors
    /// [`ErrorCode::NoAvailableHandle`] if no other replica stays. [`ErrorCode::ObjectHasLease`] while readers may
    /// have routes to it; look-ups leave it out from then on.
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
        let going = 1 << replica | self.replicas_where(object, |range| !stays(range.segment));
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

    /// Has look-ups leave a replica out. Returns whether they have done so for the length of a lease.
    fn is_withheld(&mut self, job: u32, object: u32, replica: u8) -> bool {
        let until = self.now.after_ms(self.config.lease_ttl_ms);
        let until = self.drains.withheld.insert((object, replica), job, until);
        until.is_some_and(|until| until <= self.now)
    }

    /// The replicas of an object that look-ups leave out, as bits. These are the unreadable ones, and those that a
    /// drain wants to drop as long as another replica can be read.
    pub(crate) fn unnamed_replicas(&self, object: u32) -> u32 {
        let unreadable = self.unreadable_replicas(object);
        let unnamed = unreadable | self.drains.withheld.of_object(object);
        if self.has_replica_but(object, unnamed) { unnamed } else { unreadable }
    }

    /// A look-up has named replicas of an object. Replicas among them that were withheld count as readable again,
    /// since readers may have routes to them.
    pub(crate) fn note_named(&mut self, object: u32) {
        if self.drains.withheld.is_empty() {
            return;
        }
        let named = !self.unnamed_replicas(object);
        self.drains.withheld.forget(object, named);
    }
}
