//! What happens to the records of an object: queues, replicas, and the end.

use mooncake_types::{Located, Placement, Seal, Tick, Version};
use smallvec::SmallVec;

use super::class::Class;
use super::record::{ObjectState, Pin, QueueKind, Range};
use crate::Meta;
use crate::segments::{AddressTable, Piece};
use crate::slab::NONE;

impl Meta {
    pub(crate) fn find(&self, key: &str) -> Option<u32> {
        self.index.get(&self.objects, self.index.hashed(key))
    }

    /// The ranges of an object, replica by replica, in the order of the bytes.
    pub(crate) fn ranges_of(&self, object: u32) -> impl Iterator<Item = (u32, &Range)> {
        let mut at = self.objects[object].first_range;
        std::iter::from_fn(move || {
            let id = (at != NONE).then_some(at)?;
            let range = &self.ranges[id];
            at = range.sibling;
            Some((id, range))
        })
    }

    /// The replicas of an object, as bits, that have a range for which `is_so` holds.
    pub(crate) fn replicas_where(&self, object: u32, is_so: impl Fn(&Range) -> bool) -> u32 {
        self.ranges_of(object)
            .filter(|(_, range)| is_so(range))
            .fold(0, |set, (_, range)| set | 1 << range.replica)
    }

    /// The ranges of these replicas (bits) of an object.
    pub(crate) fn range_ids(&self, object: u32, set: u32) -> SmallVec<[u32; 1]> {
        let of_set = self.ranges_of(object).filter(|(_, range)| set & 1 << range.replica != 0);
        of_set.map(|(id, _)| id).collect()
    }

    /// Where a range begins on its segment.
    pub(crate) fn offset_of(&self, range: &Range) -> u64 {
        self.segments[range.segment].allocator.range(range.handle).offset
    }

    /// The replicas of an object, as bits, that have a range on an unmounted segment.
    pub(crate) fn dead_replicas(&self, object: u32) -> u32 {
        self.replicas_where(object, |range| !self.segments[range.segment].is_mounted())
    }

    /// The replicas of an object, as bits, that have a range on a segment that is unmounted, struck or out of sight.
    pub(crate) fn unreadable_replicas(&self, object: u32) -> u32 {
        self.replicas_where(object, |range| !self.segments[range.segment].serves())
    }

    /// Whether the object is finished and readers may get a replica now. They may not while it is
    /// [hidden](Self::is_hidden).
    pub(crate) fn is_readable(&self, object: u32) -> bool {
        self.objects[object].state == ObjectState::Complete
            && self.has_replica_but(object, self.unreadable_replicas(object))
            && !self.is_hidden(object)
    }

    /// Whether the object is finished and a replica exists, in sight or not.
    pub(crate) fn lives(&self, object: u32) -> bool {
        self.objects[object].state == ObjectState::Complete
            && self.has_replica_but(object, self.dead_replicas(object))
    }

    pub(crate) fn has_replica_but(&self, object: u32, set: u32) -> bool {
        set == 0 || self.ranges_of(object).any(|(_, range)| set & 1 << range.replica == 0)
    }

    /// Where the replicas of an object lie that the master names to readers.
    pub(super) fn locate(&self, object: u32, table: &mut AddressTable) -> Located {
        self.locate_but(object, self.unnamed_replicas(object), table)
    }

    /// Where the replicas of an object lie, except those in `unnamed` (bits).
    pub(crate) fn locate_but(
        &self,
        object: u32,
        unnamed: u32,
        table: &mut AddressTable,
    ) -> Located {
        let record = &self.objects[object];
        let mut placements: Vec<Placement> = self
            .ranges_of(object)
            .filter(|(_, range)| unnamed & 1 << range.replica == 0)
            .map(|(_, range)| self.placement(range, table))
            .collect();
        // Memory first, then disks, then media that hosts share.
        if placements.len() > 1 {
            placements.sort_by_key(|it| table.medium(it.segment));
        }
        Located { version: record.version, len: record.len, placements }
    }

    pub(crate) fn placement(&self, range: &Range, table: &mut AddressTable) -> Placement {
        Placement {
            replica: u32::from(range.replica),
            segment: table.position(&self.segments, range.segment),
            offset: self.offset_of(range),
            len: range.len,
            seal: Seal::NONE,
        }
    }

    fn leave_queue(&mut self, id: u32) {
        let Range { object, queue, segment, class, len, .. } = self.ranges[id];
        match queue {
            QueueKind::Out => return,
            QueueKind::Processing => self.running.remove(&mut self.ranges, id),
            on_segment => {
                let at = (self.lane_on(object, segment), place_of(on_segment, class));
                self.segments.leave_queue(segment, at, (&mut self.ranges, id));
                if on_segment == QueueKind::Sinking {
                    self.count_sinking(object, -(len as i64));
                }
            }
        }
        self.ranges.at_mut(id).queue = QueueKind::Out;
    }

    /// From when on eviction may take a range of an object that joins a queue of this kind.
    fn evictable_from(&self, object: u32, kind: QueueKind) -> Tick {
        match kind {
            QueueKind::Fresh | QueueKind::PinnedFresh | QueueKind::Extra => self.now,
            QueueKind::Leased | QueueKind::PinnedLeased => self.objects[object].leased_until(),
            QueueKind::Out
            | QueueKind::Processing
            | QueueKind::Hard
            | QueueKind::Tombstone
            | QueueKind::Sinking => Tick(u64::MAX),
        }
    }

    /// Moves a range to the end of a queue.
    pub(crate) fn enqueue(&mut self, id: u32, kind: QueueKind) {
        self.enqueue_as(id, kind, self.ranges[id].class);
    }

    /// As [`Meta::enqueue`], and gives the range another class.
    fn enqueue_as(&mut self, id: u32, kind: QueueKind, class: Class) {
        self.leave_queue(id);
        let Range { segment, object, len, .. } = self.ranges[id];
        let lane = self.lane_on(object, segment);
        match kind {
            QueueKind::Out => return,
            QueueKind::Processing => self.running.push_back(&mut self.ranges, id),
            on_segment => {
                let join = (lane, place_of(on_segment, class), self.evictable_from(object, kind));
                self.segments.join_queue(segment, join, (&mut self.ranges, id));
                if on_segment == QueueKind::Sinking {
                    self.count_sinking(object, len as i64);
                }
            }
        }
        let stamp = self.usage_of(lane).stamp();
        let range = self.ranges.at_mut(id);
        (range.queue, range.class, range.stamp) = (kind, class, stamp);
    }

    /// Moves every range of an object to the end of a queue of its segment.
    pub(super) fn requeue(&mut self, object: u32, kind: QueueKind) {
        let extras = self.extra_replicas(object);
        let mut at = self.objects[object].first_range;
        while at != NONE {
            self.enqueue(at, self.queue_for(at, extras, kind));
            at = self.ranges[at].sibling;
        }
    }

    /// The class of an object, which must have a range.
    pub(crate) fn class_of(&self, object: u32) -> Class {
        self.ranges[self.objects[object].first_range].class
    }

    /// Whether an object was used since its put, or before it was evicted and put again.
    pub(crate) fn was_used_again(&self, object: u32) -> bool {
        let class = self.class_of(object);
        match self.usage.keeps_places() {
            true => class.visits() > 0,
            false => class.uses() > 0,
        }
    }

    /// As [`Meta::requeue`], for an object that was used once more.
    pub(super) fn requeue_used(&mut self, object: u32, kind: QueueKind) {
        let class = self.class_of(object).used();
        self.learn_use(object, class);
        self.requeue_as(object, class, kind);
    }

    /// As [`Meta::requeue`], and gives the object another class.
    pub(crate) fn requeue_as(&mut self, object: u32, class: Class, kind: QueueKind) {
        let extras = self.extra_replicas(object);
        let mut at = self.objects[object].first_range;
        while at != NONE {
            self.enqueue_as(at, self.queue_for(at, extras, kind), class);
            at = self.ranges[at].sibling;
        }
    }

    /// Counts a use of an object that keeps its place in its queue.
    pub(super) fn note_visit(&mut self, object: u32) {
        let class = self.class_of(object).visited();
        let mut at = self.objects[object].first_range;
        while at != NONE {
            let range = self.ranges.at_mut(at);
            range.class = class;
            at = range.sibling;
        }
    }

    /// Moves a range that eviction passed over to the end of a queue of ranges without a lease.
    pub(crate) fn pass_over(&mut self, id: u32) {
        let kind = match self.ranges[id].queue {
            QueueKind::PinnedFresh | QueueKind::PinnedLeased => QueueKind::PinnedFresh,
            _ => QueueKind::Fresh,
        };
        self.enqueue(id, kind);
    }

    /// Moves an unfinished put to the end of the queue of running puts, or out of it.
    pub(super) fn requeue_put(&mut self, object: u32, kind: QueueKind) {
        let first = self.objects[object].first_range;
        self.enqueue(first, kind);
    }

    /// The queue in which a finished object belongs, right after an access if `accessed`, else without a lease.
    pub(crate) fn queue_after(&self, object: u32, accessed: bool) -> QueueKind {
        let hard = self.objects[object].pin == Pin::Hard;
        match (hard, self.soft_pin_in_force(object), accessed) {
            (true, ..) => QueueKind::Hard,
            (_, false, true) if !self.usage.keeps_places() => QueueKind::Leased,
            (_, false, _) => QueueKind::Fresh,
            (_, true, false) => QueueKind::PinnedFresh,
            (_, true, true) => QueueKind::PinnedLeased,
        }
    }

    /// Frees the replicas in `set` (bits); their entries get tombstones. Returns how many bytes of the object they
    /// held. The object stays even if it has no replica left. Its put must not be running, or must have left its
    /// queue.
    pub(crate) fn free_replicas(&mut self, object: u32, set: u32) -> u64 {
        let counted = self.counts_in_memory(object);
        let (mut at, mut kept, mut freed_bytes) = (self.objects[object].first_range, NONE, 0);
        while at != NONE {
            let range = self.ranges[at];
            if set & 1 << range.replica == 0 {
                kept = at;
            } else {
                match kept {
                    NONE => self.objects.at_mut(object).first_range = range.sibling,
                    before => self.ranges.at_mut(before).sibling = range.sibling,
                }
                self.free_range(at);
                freed_bytes += range.len;
            }
            at = range.sibling;
        }
        self.count_in_memory(object, counted);
        self.drains.forget_withheld(object, set);
        self.note_replicas(object);
        freed_bytes
    }

    /// Takes a range, which is in no queue, from its object. The bytes stay reserved.
    pub(crate) fn take_range(&mut self, object: u32, id: u32) -> Piece {
        let counted = self.counts_in_memory(object);
        let sibling = self.ranges[id].sibling;
        if self.objects[object].first_range == id {
            self.objects.at_mut(object).first_range = sibling;
        } else {
            let before = self.ranges_of(object).find(|(_, range)| range.sibling == id);
            let (before, _) = before.expect("the range is one of the object's");
            self.ranges.at_mut(before).sibling = sibling;
        }
        self.reviews.forget_range(id);
        let Range { segment, handle, len, .. } = self.ranges.remove(id);
        self.count_bytes_in_group(object, -(len as i64));
        self.refund_range(object, segment, len);
        self.count_in_memory(object, counted);
        Piece { segment, handle, len }
    }

    fn free_range(&mut self, id: u32) {
        self.leave_queue(id);
        let range = self.ranges.remove(id);
        self.reviews.forget_range(id);
        let Range { segment, handle, len, .. } = range;
        let record = &self.objects[range.object];
        let (of, group) = ((self.index.hash(&record.key), record.version), record.group);
        if group != NONE {
            self.count_bytes_in_group(range.object, -(len as i64));
        }
        self.refund_range(range.object, segment, len);
        self.free_piece(&Piece { segment, handle, len }, of);
    }

    /// Frees a piece that belongs to no object. The entry of version `of` that may lie there gets a tombstone.
    pub(crate) fn free_piece(&mut self, piece: &Piece, of: (u64, Version)) {
        self.leave_tombstone_in(piece, of);
        self.segments.free(piece.segment, piece.handle);
    }

    /// Makes a tombstone of a finished object that has just lost its key. Readers may have routes to it.
    pub(crate) fn set_tombstone(&mut self, object: u32) {
        self.forget_soft_pin(object);
        self.leave_group(object);
        self.forget_replacing(object);
        self.forget_replicas(object);
        self.objects.at_mut(object).state = ObjectState::Tombstone;
        self.requeue(object, QueueKind::Tombstone);
    }

    /// Drops an object: frees its ranges, and its key if it holds it.
    pub(crate) fn drop_object(&mut self, object: u32) {
        self.leave_key(object);
        if self.objects[object].state == ObjectState::Tombstone {
            self.forget_leased(object);
        }
        self.free_replicas(object, u32::MAX);
        self.forget_replicas(object);
        self.forget_soft_pin(object);
        self.leave_group(object);
        self.forget_replacing(object);
        self.forget_session(object);
        self.objects.remove(object);
    }

    /// Frees a replica of a finished object whose bytes are lost, at least in part. Drops an object that has no other
    /// replica.
    pub(crate) fn lose_replica(&mut self, object: u32, replica: u8) {
        self.free_replicas(object, 1 << replica);
        self.repair.wake();
        if self.objects[object].first_range == NONE {
            match self.objects[object].state {
                ObjectState::Tombstone => self.drop_object(object),
                _ => self.drop_lost(object),
            }
        }
    }

    /// Drops an object that has lost its last replica.
    pub(crate) fn drop_lost(&mut self, object: u32) {
        self.counters.lost_keys += 1;
        self.drop_object(object);
    }
}

fn place_of(kind: QueueKind, class: Class) -> usize {
    kind.on_segment(class).expect("the kind is one of a segment's queues")
}
