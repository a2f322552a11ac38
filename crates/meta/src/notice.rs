//! What operators are to be told of the master's own work.

use std::sync::Arc;

use mooncake_types::ClientId;

use crate::Meta;
use crate::segments::Closed;

/// Notices that wait to be taken; further ones are lost.
const MOST_NOTICES: usize = 256;

/// Something that is worth a line in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Objects that lack replicas are repaired from now on.
    RepairBegins {
        /// How many lack some.
        objects: usize,
    },
    /// Nothing more can be repaired now.
    RepairEnds {
        /// Replicas that were made.
        replicas: u64,
        /// Their bytes.
        bytes: u64,
        /// Copies that failed.
        failures: u64,
        /// Objects that still lack replicas: there is no room for them, or their sources cannot be read.
        left: usize,
        /// How long it took, in milliseconds.
        took_ms: u64,
    },
    /// A segment is lent from now on.
    SegmentJoins {
        /// Its name.
        name: Arc<str>,
        /// Where its node serves it.
        endpoint: Arc<str>,
        /// Its length in bytes.
        len: u64,
    },
    /// A segment is lent no longer, and what lay there is gone.
    SegmentGoes {
        /// Its name.
        name: Arc<str>,
        /// Replicas of objects that lay there. Objects that have no other are lost.
        replicas: u64,
        /// Bytes that were reserved there.
        bytes: u64,
        /// Its node did not take it back, but was not heard of for too long, or another process took its place.
        is_lost: bool,
    },
    /// A client that lends segments is out of sight: nothing that lies there can be read.
    SightLost {
        /// The name of one of its segments.
        name: Arc<str>,
        /// How many it lends.
        segments: usize,
    },
    /// It is back, with all that it held.
    SightRegained {
        /// The name of one of its segments.
        name: Arc<str>,
        /// How many it lends.
        segments: usize,
    },
    /// Eviction chose objects that go to disks first, in a second or so.
    Sinking {
        /// How many do.
        deferred: u64,
        /// How many others were evicted without a copy, because as many are on their way as may be.
        forced: u64,
        /// How many, of these and earlier ones, were evicted because their copies failed.
        failed: u64,
    },
    /// An object is read so often that it is worth another replica. Of many there is one notice in a tenth of a second.
    Hot {
        /// Its key.
        key: Box<str>,
        /// Replicas that it has.
        replicas: u32,
        /// The segment that gets a further one; absent if it is only observed.
        target: Option<Arc<str>>,
    },
}

impl Meta {
    /// Whether [`Meta::take_notices`] has any.
    #[must_use]
    pub fn has_notices(&self) -> bool {
        !self.notices.is_empty()
    }

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
