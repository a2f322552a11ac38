//! How an object gets its ranges.

use super::class::Class;
use super::record::{Object, QueueKind, Range};
use crate::Meta;
use crate::segments::Piece;
use crate::slab::NONE;

impl Meta {
    /// Inserts a record without ranges, and makes a range of each piece of its replicas; each replica comes with its
    /// number. The object does not hold its key yet, and its ranges are in no queue.
    pub(crate) fn insert_object<'a>(
        &mut self,
        record: Object,
        class: Class,
        replicas: impl DoubleEndedIterator<Item = (usize, &'a [Piece])>,
    ) -> u32 {
        let object = self.objects.insert(record);
        let mut sibling = NONE;
        for (replica, pieces) in replicas.rev() {
            for piece in pieces.iter().rev() {
                sibling = self.insert_range(object, (replica, piece), class, sibling);
            }
        }
        self.objects.at_mut(object).first_range = sibling;
        self.count_in_memory(object, false);
        object
    }

    fn insert_range(
        &mut self,
        object: u32,
        (replica, piece): (usize, &Piece),
        class: Class,
        sibling: u32,
    ) -> u32 {
        let &Piece { segment, handle, len } = piece;
        let id = self.ranges.insert(Range {
            len,
            object,
            segment,
            handle,
            sibling,
            prev: NONE,
            next: NONE,
            replica: replica as u8,
            queue: QueueKind::Out,
            class,
            stamp: self.usage.stamp(),
        });
        self.segments.own(segment, handle, id);
        self.charge_range(object, segment, len);
        id
    }

    /// Makes ranges of the pieces of one more replica, after the ranges that the object has. They are in no queue.
    pub(crate) fn append_replica(
        &mut self,
        object: u32,
        replica: usize,
        pieces: &[Piece],
    ) -> Vec<u32> {
        let (class, counted) = (self.class_of(object), self.counts_in_memory(object));
        let mut last = self.ranges_of(object).last().expect("an object has a range").0;
        let mut added = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let id = self.insert_range(object, (replica, piece), class, NONE);
            self.ranges.at_mut(last).sibling = id;
            self.count_bytes_in_group(object, piece.len as i64);
            last = id;
            added.push(id);
        }
        self.count_in_memory(object, counted);
        added
    }

    /// Moves the ranges of a copy to its object, after the ranges that the object has. Drops the copy.
    pub(crate) fn adopt(&mut self, object: u32, copy: u32) {
        let (adopted, counted) = (self.range_ids(copy, u32::MAX), self.counts_in_memory(object));
        let last = self.ranges_of(object).last().expect("an object has a range").0;
        let class = self.class_of(object);
        self.ranges.at_mut(last).sibling = adopted[0];
        self.objects.at_mut(copy).first_range = NONE;
        self.drop_object(copy);
        for &id in &adopted {
            let range = self.ranges.at_mut(id);
            (range.object, range.class) = (object, class);
            let len = range.len as i64;
            self.count_bytes_in_group(object, len);
        }
        self.count_newly_pinned(object, &adopted);
        self.count_in_memory(object, counted);
        // A copy is no read: the object's lease does not change.
        let kind = self.queue_after(object, self.is_leased(object));
        let extras = self.extra_replicas(object);
        for id in adopted {
            self.enqueue(id, self.queue_for(id, extras, kind));
        }
        self.note_replicas(object);
    }

    /// Removes a record that has no range left and does not hold its key.
    pub(crate) fn forget_empty(&mut self, object: u32) {
        self.forget_session(object);
        let record = self.objects.remove(object);
        assert_eq!(record.first_range, NONE, "an object keeps its ranges until its end");
    }
}
