use crate::Meta;
use crate::check::{Check, ensure};

impl Meta {
    pub(crate) fn every_replica_that_is_left_out_is_drained(&self) -> Check {
        for (object, replica, job) in self.drains.withheld.iter() {
            let is_there = self
                .objects
                .get(object)
                .is_some_and(|_| self.ranges_of(object).any(|(_, range)| range.replica == replica));
            let is_running = self.drains.get(job).is_some_and(|job| !job.status.has_ended());
            ensure("what look-ups leave out is drained", is_there && is_running, || {
                format!("replica {replica} of object {object}, for job {job}")
            })?;
        }
        Ok(())
    }
}
