//! How operators are told of the master's own work.

use std::sync::Arc;

use mooncake_types::ClientId;

use crate::Meta;
use crate::notice::Notice;
use crate::segments::Closed;

/// Notices that wait to be taken; further ones are lost.
const MOST_NOTICES: usize = 256;

impl Meta {
    /// What has happened since this was last asked, in order. At most 256 are kept.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    pub(crate) fn notify_joined(&mut self, slot: u32) {
        let segment = &self.segments[slot];
        let (name, endpoint) = (Arc::clone(&segment.name), Arc::clone(&segment.endpoint));
        let len = segment.allocator.capacity();
        self.notify(Notice::SegmentJoins { name, endpoint, len });
    }

    /// To be called while what lies in the segment is known.
    pub(crate) fn notify_gone(&mut self, slot: u32) {
        let segment = &self.segments[slot];
        let name = Arc::clone(&segment.name);
        let is_lost = segment.is(Closed::Struck) && !segment.is(Closed::GracePeriod);
        let (replicas, bytes) = (self.segments[slot].finished_ranges(), segment.allocator.used());
        self.notify(Notice::SegmentGoes { name, replicas, bytes, is_lost });
    }

    /// Whether a client is in sight has changed. One that lends nothing is no news.
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
