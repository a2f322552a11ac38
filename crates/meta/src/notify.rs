//! Gathers the notices that the shell logs.

use std::sync::Arc;

use mooncake_types::ClientId;

use crate::Meta;
use crate::notice::Notice;
use crate::segments::Closed;

/// Most notices that are kept until [`Meta::take_notices`]. Further ones are lost.
const MOST_NOTICES: usize = 256;

impl Meta {
    /// Takes the notices since the last call, in order. At most 256 are kept.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    pub(crate) fn notify_joined(&mut self, slot: u32) {
        let segment = &self.segments[slot];
        let (name, endpoint) = (Arc::clone(&segment.name), Arc::clone(&segment.endpoint));
        let len = segment.allocator.capacity();
        self.notify(Notice::SegmentJoins { name, endpoint, len });
    }

    /// Notes that a segment leaves the pool. Must be called while the table still has the segment's queues.
    pub(crate) fn notify_gone(&mut self, slot: u32) {
        let segment = &self.segments[slot];
        let name = Arc::clone(&segment.name);
        let is_lost = segment.is(Closed::Struck) && !segment.is(Closed::GracePeriod);
        let (replicas, bytes) = (self.segments[slot].finished_ranges(), segment.allocator.used());
        self.notify(Notice::SegmentGoes { name, replicas, bytes, is_lost });
    }

    /// Notes that a client came into sight or went out of it, unless the client lends no segment.
    pub(crate) fn notify_sight(&mut self, client: ClientId, in_sight: bool) {
        let slots = self.segments.of_client(client);
        let Some(&first) = slots.first() else { return };
        let (name, segments) = (Arc::clone(&self.segments[first].name), slots.len());
        self.notify(match in_sight {
            true => Notice::SightRegained { name, segments },
            false => Notice::SightLost { name, segments },
        });
    }

    pub(crate) fn notify(&mut self, notice: Notice) {
        if self.notices.len() < MOST_NOTICES {
            self.notices.push(notice);
        }
    }
}
