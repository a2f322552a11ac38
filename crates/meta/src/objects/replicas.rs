//! How many replicas an object has: fewer than its put asked for, or extra ones.
//!
//! Objects that lost replicas with their segments are counted, and repaired in the background. Objects that are read
//! often get extra replicas. The module [`replication`](crate::replication) makes both. Eviction takes extra replicas
//! first. But once the object has lost a replica that its put asked for, an extra one takes its place.

use mooncake_types::Medium;

use super::{ObjectState, QueueKind};
use crate::Meta;

impl Meta {
    /// The numbers of an object's replicas, as bits.
    pub(crate) fn replica_set(&self, object: u32) -> u32 {
        self.replicas_where(object, |_| true)
    }

    /// The numbers of its replicas in memory, as bits. Puts ask for these.
    pub(crate) fn memory_replicas(&self, object: u32) -> u32 {
        self.replicas_in(object, Medium::Memory)
    }

    /// The numbers of its replicas in a medium, as bits.
    pub(crate) fn replicas_in(&self, object: u32, medium: Medium) -> u32 {
        self.replicas_where(object, |range| self.segments[range.segment].medium == medium)
    }

    /// The numbers of its extra replicas, as bits.
    pub(crate) fn extra_replicas(&self, object: u32) -> u32 {
        match self.objects[object].asked.has_extras() {
            true => self.extras.0.get(&object).copied().unwrap_or_default(),
            false => 0,
        }
    }

    /// Must be called when an object's replicas change, or the number that is asked for. Notes whether the object
    /// lacks replicas, and which replicas are extra.
    pub(crate) fn note_replicas(&mut self, object: u32) {
        self.note_key_change(object);
        let record = &self.objects[object];
        if record.asked.is_plain() || record.state != ObjectState::Complete {
            return;
        }
        let (set, asked) = (self.memory_replicas(object), record.asked);
        // An object that lies on disks only counts as one that has a replica: eviction freed its memory on purpose.
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

    /// Lets extra replicas take the place of lost ones. The others stay extra.
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

    /// The queue for a range of a replica, if other ranges of its object join a queue of this kind.
    pub(super) fn queue_for(&self, id: u32, extras: u32, kind: QueueKind) -> QueueKind {
        match kind {
            QueueKind::Out | QueueKind::Processing | QueueKind::Tombstone | QueueKind::Extra => {
                kind
            }
            // A use does not move such a range: `settle_sunk` looks at the lease once the copy has ended.
            _ if self.ranges[id].queue == QueueKind::Sinking => QueueKind::Sinking,
            _ if extras & 1 << self.ranges[id].replica == 0 => kind,
            _ => QueueKind::Extra,
        }
    }

    /// Asks for no more replicas than exist, because the others were given up on purpose.
    pub(crate) fn ask_for_no_more(&mut self, object: u32) {
        let asked = self.objects[object].asked;
        if asked.replicas() > 1 {
            let there = self.memory_replicas(object) & !self.extra_replicas(object);
            let replicas = asked.replicas().min(there.count_ones());
            self.objects.at_mut(object).asked = asked.with_replicas(replicas);
            // The object may be counted as short. An object for which one replica was asked never is.
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

    /// Forgets an object's counts of replicas, because the object loses its key or its record.
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
