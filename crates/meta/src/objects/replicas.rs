//! How many replicas an object has: fewer than were asked for, or some that nobody asked for.
//!
//! Objects that lost replicas with their segments are counted, and repaired in the background. An object that is read often has
//! extra replicas ([`replication`](crate::replication) makes both). They are evicted first, unless replicas that were asked for
//! have gone meanwhile: then extra ones take their place.

use mooncake_types::Medium;

use super::{ObjectState, QueueKind};
use crate::Meta;

impl Meta {
    /// The numbers of an object's replicas, as bits.
    pub(crate) fn replica_set(&self, object: u32) -> u32 {
        self.replicas_where(object, |_| true)
    }

    /// The numbers of those that lie in memory, which are the ones that puts ask for, as bits.
    pub(crate) fn memory_replicas(&self, object: u32) -> u32 {
        self.replicas_in(object, Medium::Memory)
    }

    /// The numbers of those that lie in a medium, as bits.
    pub(crate) fn replicas_in(&self, object: u32, medium: Medium) -> u32 {
        self.replicas_where(object, |range| self.segments[range.segment].medium == medium)
    }

    /// Those that nobody asked for.
    pub(crate) fn extra_replicas(&self, object: u32) -> u32 {
        match self.objects[object].asked.has_extras() {
            true => self.extras.0.get(&object).copied().unwrap_or_default(),
            false => 0,
        }
    }

    /// An object has other replicas than before, or others were asked for: whether it lacks some, and which of them
    /// nobody asked for.
    pub(crate) fn note_replicas(&mut self, object: u32) {
        self.note_key_change(object);
        let record = &self.objects[object];
        if record.asked.is_plain() || record.state != ObjectState::Complete {
            return;
        }
        let (set, asked) = (self.memory_replicas(object), record.asked);
        // What lies on a disk alone was evicted from memory on purpose.
        let is_short = set.count_ones().max(1) < asked.replicas();
        if is_short != asked.is_short() {
            self.objects.at_mut(object).asked = asked.with_short(is_short);
            self.repair.count(is_short);
        }
        let extras = self.extra_replicas(object);
        if extras != 0 {
            self.keep_extras(object, extras, set);
        }
    }

    /// Keeps the extra replicas that still exist and are not needed in place of lost ones.
    fn keep_extras(&mut self, object: u32, extras: u32, set: u32) {
        let mut kept = extras & set;
        let wanted = self.objects[object].asked.replicas().min(set.count_ones());
        while (set & !kept).count_ones() < wanted {
            kept &= kept - 1;
        }
        self.set_extras(object, kept);
        let promoted = extras & set & !kept;
        if promoted == 0 {
            return;
        }
        let kind = self.queue_after(object, self.is_leased(object));
        for id in self.range_ids(object, promoted) {
            self.enqueue(id, kind);
        }
    }

    pub(crate) fn set_extras(&mut self, object: u32, set: u32) {
        let record = self.objects.at_mut(object);
        record.asked = record.asked.with_extras(set != 0);
        match set {
            0 => self.extras.0.remove(&object),
            set => self.extras.0.insert(object, set),
        };
    }

    /// The queue for a range of a replica, where the others of its object go to one of this kind.
    pub(super) fn queue_for(&self, id: u32, extras: u32, kind: QueueKind) -> QueueKind {
        match kind {
            QueueKind::Out | QueueKind::Processing | QueueKind::Tombstone | QueueKind::Extra => {
                kind
            }
            // A use does not take it out of the queue: `settle_sunk` looks at the lease once the copy has ended.
            _ if self.ranges[id].queue == QueueKind::Sinking => QueueKind::Sinking,
            _ if extras & 1 << self.ranges[id].replica == 0 => kind,
            _ => QueueKind::Extra,
        }
    }

    /// No more replicas are asked for than there are: the others were given up on purpose.
    pub(crate) fn ask_for_no_more(&mut self, object: u32) {
        let asked = self.objects[object].asked;
        if asked.replicas() > 1 {
            let there = self.memory_replicas(object) & !self.extra_replicas(object);
            let replicas = asked.replicas().min(there.count_ones());
            self.objects.at_mut(object).asked = asked.with_replicas(replicas);
            // It may have been short until now, which a plain one never is.
            self.note_short(object);
        }
    }

    fn note_short(&mut self, object: u32) {
        let asked = self.objects[object].asked;
        if asked.is_short() {
            self.objects.at_mut(object).asked = asked.with_short(false);
            self.repair.count(false);
        }
    }

    /// An object that was finished is on its way out.
    pub(super) fn forget_replicas(&mut self, object: u32) {
        self.note_key_change(object);
        if self.objects[object].asked.is_plain() {
            return;
        }
        self.note_short(object);
        if self.objects[object].asked.has_extras() {
            self.set_extras(object, 0);
        }
    }
}
