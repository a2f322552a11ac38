use crate::Meta;
use crate::check::{Check, ensure};
use crate::objects::{ObjectState, QueueKind};

impl Meta {
    pub(crate) fn every_object_that_lacks_replicas_is_counted(&self) -> Check {
        let mut counted = 0;
        for (id, object) in self.objects.iter() {
            let replicas = self.memory_replicas(id).count_ones().max(1);
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
        })
    }

    pub(crate) fn every_extra_replica_stands_in_for_none(&self) -> Check {
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
