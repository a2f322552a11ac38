//! Ranges that somebody at their node does not let go of: a reader who looks at what was there, and stands still.
//!
//! Whoever was granted such a range could not write there, and the next one could not either. So it is kept from others for
//! a while, as if a put that was given up might still be at work in it.

use mooncake_types::{PutMode, Tick, Version};

use crate::Meta;
use crate::class::Class;
use crate::config::Config;
use crate::place::Piece;
use crate::record::{Asked, Object, ObjectState, Pin, QueueKind};
use crate::slab::NONE;

/// For how long at least, unless puts that are given up free their ranges sooner.
const HELD_MS: u64 = 60_000;

impl Meta {
    /// Keeps the ranges of these replicas (bits) of a put from others, and takes them from it. The put must have left its
    /// queue.
    pub(crate) fn hold_ranges(&mut self, object: u32, replicas: u32) {
        let held: Vec<u32> = self
            .ranges_of(object)
            .filter(|(_, range)| replicas & 1 << range.replica != 0)
            .filter(|(_, range)| self.segments[range.segment].is_mounted())
            .map(|(id, _)| id)
            .collect();
        if held.is_empty() {
            return;
        }
        // What is to be released is kept in the order of its starts.
        self.discard_and_release();
        let (key, version) = (self.objects[object].key.clone(), self.objects[object].version);
        for id in held {
            let piece = self.take_range(object, id);
            self.hold_range((&key, version), piece, self.start_of_held());
        }
    }

    /// Keeps a range from others, as one of a put of this version that `started` then and was given up. What is written there
    /// is not to be found by a later leader.
    pub(crate) fn hold_range(
        &mut self,
        (key, version): (&str, Version),
        piece: Piece,
        started: Tick,
    ) {
        let object = self.objects.insert(Object {
            key: key.into(),
            version,
            len: piece.len,
            touched: started,
            first_range: NONE,
            writer: 0,
            group: NONE,
            state: ObjectState::Discarded,
            pin: Pin::None,
            data_type: 0,
            asked: Asked::new(PutMode::Insert, 1),
        });
        let class = Class::new(self.index.hash(key), 0, false);
        self.attach(object, class, std::iter::once((0, &[piece][..])));
        self.requeue_put(object, QueueKind::Releasing);
        self.releasing_bytes += piece.len;
        self.leave_object_undropped(object);
    }

    /// When a put would have begun whose ranges are released when those are that are held from now on.
    fn start_of_held(&self) -> Tick {
        let Config { put_discard_ms, put_release_ms, .. } = self.config;
        let before = |ms: u64| Tick(self.now.0.saturating_sub(ms));
        let wanted = before(put_release_ms.saturating_sub(HELD_MS)).min(before(put_discard_ms));
        match self.releasing.tail {
            NONE => wanted,
            last => wanted.max(self.objects[self.ranges[last].object].touched),
        }
    }
}
