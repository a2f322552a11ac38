//! Replicas that a drain job lets go of without a move, since there is no room for them and another of their object stays.
//!
//! A reader with a route to the replica could read a version there that is replaced meanwhile. So look-ups leave the replica
//! out while the object is leased. The replica is dropped once the leases that were granted before are over, even if the
//! object is still read.

use mooncake_types::{ErrorCode, SegmentState};

use crate::Meta;

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

    /// Has look-ups leave a replica out. Whether they have done so for as long as a lease lasts.
    fn is_withheld(&mut self, job: u32, object: u32, replica: u8) -> bool {
        let until = self.now.after_ms(self.config.lease_ttl_ms);
        self.drains.withheld.insert((object, replica), job, until) <= self.now
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
        if self.drains.withheld.is_empty() {
            return;
        }
        let named = !self.unnamed_replicas(object);
        self.drains.withheld.forget(object, named);
    }
}
