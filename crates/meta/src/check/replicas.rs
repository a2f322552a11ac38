use super::{Check, ensure};
use crate::Meta;
use crate::objects::{ObjectState, QueueKind};
use crate::tasks::Origin;

impl Meta {
    pub(super) fn every_object_that_lacks_replicas_is_counted(&self) -> Check {
        let mut counted = 0;
        for (id, object) in self.objects.iter() {
            let replicas = self.replica_set(id).count_ones();
            let lacks_some =
                object.state == ObjectState::Complete && replicas < object.asked.replicas();
            counted += usize::from(lacks_some);
            ensure(
                "an object knows that it lacks replicas",
                lacks_some == object.asked.is_short(),
                || format!("object {id}: {object:?} has {replicas}"),
            )?;
        }
        let short = self.repair.short();
        ensure("the objects that lack replicas are counted", counted == short, || {
            format!("{counted} objects, {short} counted")
        })?;
        let own = |origin: Origin| {
            let under_way = self.tasks.pending.iter().chain(&self.tasks.processing);
            under_way.filter(|(_, number)| self.tasks.known[number].origin == origin).count()
        };
        let found = (own(Origin::Repair), own(Origin::Replication));
        let known = (self.repair.under_way(), self.replicator.under_way());
        ensure("the master's own copies are counted", found == known, || {
            format!("{found:?} under way, {known:?} counted")
        })
    }

    pub(super) fn every_replica_that_is_left_out_is_drained(&self) -> Check {
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

    pub(super) fn every_extra_replica_stands_in_for_none(&self) -> Check {
        let mut known = 0;
        for (id, object) in self.objects.iter() {
            let (set, extras) = (self.replica_set(id), self.extra_replicas(id));
            known += usize::from(object.asked.has_extras());
            let asked = (set & !extras).count_ones();
            ensure(
                "a replica is extra if there are others, as many as were asked for",
                extras & !set == 0
                    && object.asked.has_extras() == (extras != 0)
                    && (extras == 0 || asked >= object.asked.replicas()),
                || format!("object {id}: {object:?} has {set:b}, extra {extras:b}"),
            )?;
            for (range_id, range) in self.ranges_of(id) {
                let is_extra = extras & 1 << range.replica != 0;
                ensure(
                    "extra replicas stand apart from others",
                    (range.queue == QueueKind::Extra) == is_extra,
                    || format!("range {range_id}: {range:?} of {object:?}"),
                )?;
            }
        }
        ensure("every extra replica has its object", known == self.extras.len(), || {
            format!("{known} objects, {} kept", self.extras.len())
        })
    }
}
