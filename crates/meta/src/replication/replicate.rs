//! Replication: an object whose reads pass a threshold gets one more replica, so that its readers spread over more
//! nodes.
//!
//! The leader counts a read when it answers the look-up. Readers that use cached routes report their reads when they
//! renew their leases. A copy takes only room that is free, and leaves some. Eviction takes these extra replicas
//! first. After that the key gets no new one for a while.

use mooncake_types::Tick;

use crate::Meta;
use crate::notice::Notice;
use crate::objects::{EXTRA_PLACE, Range};
use crate::tasks::Origin;
use crate::tenants::NO_LANE;

/// A copy goes only to a segment of which no more than this share is in use then.
const MOST_USED: f64 = 0.85;
/// Most replication copies under way at a time.
const MOST_UNDER_WAY: usize = 64;
/// How long a key is skipped after a copy of it began, or would have begun in a mode that only notifies.
const ACTION_REST_MS: u64 = 30_000;
/// How long a key is skipped after its extra replica was evicted.
const EVICTED_REST_MS: u64 = 60_000;
/// How long a key is skipped after there was no room, or too many copies were under way.
const REFUSED_REST_MS: u64 = 1_000;
/// Least time between two notices of hot objects: there may be many.
const NOTICE_REST_MS: u64 = 100;
/// Number of extra replicas among which eviction looks for an unread one. Their queue is in the order of their last
/// reads.
const MOST_EXTRAS_LOOKED_AT: usize = 8;

impl Meta {
    /// Counts reads of an object, and begins a copy if the object is hot.
    pub(crate) fn note_reads(&mut self, object: u32, reads: u32) {
        let Some(heat) = self.replicator.heat.as_mut() else { return };
        let least = self.config.replication.least_reads();
        let hash = self.index.hash(&self.objects[object].key);
        let spot = heat.note(hash, reads, self.now);
        if spot.reads < least || self.now < spot.quiet_until {
            return;
        }
        let replicas = self.memory_replicas(object).count_ones();
        if replicas < self.config.replication.max_replicas {
            let rest_ms = self.answer_heat(object, replicas);
            self.keep_quiet(hash, self.now.after_ms(rest_ms));
        }
    }

    /// Begins a copy of a hot object, or only notifies, as configured. Returns how long its key is skipped then.
    fn answer_heat(&mut self, object: u32, replicas: u32) -> u64 {
        let key = self.objects[object].key.clone();
        if !self.config.replication.mode.makes_copies() {
            self.note_hot(Notice::Hot { key, replicas, target: None });
            return ACTION_REST_MS;
        }
        let has_room =
            self.tasks.under_way(Origin::Replication) < MOST_UNDER_WAY && self.extras.has_room();
        if !has_room || self.has_task(object) {
            return REFUSED_REST_MS;
        }
        let most_used = MOST_USED.min(self.config.eviction_high_watermark_ratio);
        let Some(target) = self.copy_to_roomy_segment(object, most_used, Origin::Replication)
        else {
            return REFUSED_REST_MS;
        };
        self.note_hot(Notice::Hot { key, replicas, target: Some(target) });
        ACTION_REST_MS
    }

    fn note_hot(&mut self, notice: Notice) {
        self.counters.hot_objects += 1;
        if self.replicator.silent_until <= self.now {
            self.replicator.silent_until = self.now.after_ms(NOTICE_REST_MS);
            self.notify(notice);
        }
    }

    /// A range of an extra replica that may be evicted, if there is one.
    pub(crate) fn spare_extra(&self, slot: u32) -> Option<u32> {
        let queue = self.segments[slot].queue(NO_LANE, EXTRA_PLACE);
        let mut extras = queue.iter(&self.ranges).take(MOST_EXTRAS_LOOKED_AT);
        extras.find(|&id| self.is_spare(id))
    }

    /// Whether an extra replica may be evicted: no reader has leased it, and it is not the last one. It may stand in
    /// for replicas on unmounted segments whose records still exist.
    pub(crate) fn is_spare(&self, id: u32) -> bool {
        let Range { object, replica, .. } = self.ranges[id];
        self.objects[object].leased_until() <= self.now
            && self.has_replica_but(object, self.dead_replicas(object) | 1 << replica)
    }

    /// Evicts the extra replica to which this range belongs.
    pub(crate) fn drop_extra(&mut self, id: u32) {
        let (object, replica) = (self.ranges[id].object, self.ranges[id].replica);
        let hash = self.index.hash(&self.objects[object].key);
        self.counters.evicted_bytes += self.free_replicas(object, 1 << replica);
        self.counters.extra_replicas_evicted += 1;
        self.keep_quiet(hash, self.now.after_ms(EVICTED_REST_MS));
    }

    fn keep_quiet(&mut self, hash: u64, until: Tick) {
        if let Some(heat) = &mut self.replicator.heat {
            heat.keep_quiet(hash, until);
        }
    }
}
