use crate::Meta;
use crate::check::{Check, ensure};
use crate::objects::QueueKind;
use crate::tasks::Origin;

impl Meta {
    pub(crate) fn every_object_that_sinks_is_counted(&self) -> Check {
        for (id, range) in self.ranges.iter() {
            let sinks = self.task_origin(range.object) == Some(Origin::Sink);
            let is_marked = range.queue == QueueKind::Sinking;
            ensure("what sinks has a task for it", !is_marked || sinks, || {
                format!("range {id}: {range:?}")
            })?;
        }
        for (slot, segment) in self.segments.iter() {
            let ranges = self.ranges.iter().map(|(_, range)| range);
            let mine = ranges.filter(|it| it.segment == slot && it.queue == QueueKind::Sinking);
            let bytes: u64 = mine.map(|it| segment.allocator.range(it.handle).len).sum();
            ensure("the bytes that sink are counted", bytes == segment.sinking, || {
                format!("slot {slot}: {bytes}, counted {}", segment.sinking)
            })?;
        }
        let (sinking, most) = (self.tasks.under_way(Origin::Sink), self.config.most_sinking());
        ensure("no more sinks than may", sinking <= most, || format!("{sinking} of {most}"))?;
        let (all, limit) = (self.tasks.to_disks(), self.config.offloading_queue_limit);
        ensure("no more goes to disks than may", all <= limit, || format!("{all} of {limit}"))?;
        ensure("what has sunk is settled", self.offloads.is_settled(), || {
            format!("{:?}", self.offloads)
        })
    }
}
