//! Recovery: what nodes report to a new leader, what the leader believes of it, and which requests it serves meanwhile.
//!
//! The record names the members: the segments that may hold what earlier leaders granted. Each member reports all that it
//! holds. The leader serves look-ups from the first report on. Requests that change objects wait until every member has
//! reported. If some do not report, these requests wait until
//!
//! 1. all routes that readers got from earlier leaders have ended
//!    ([`Config::routes_last_ms`](crate::Config::routes_last_ms)), and
//! 2. the record marks the missing members as behind.
//!
//! - [`phase`] says how far the leader is: one enum, with the data of each phase.
//! - [`admission`] says which requests and mounts the leader admits.
//! - [`belief`] says which reported entries the leader believes.
//! - [`describe`] says what nodes keep of an object for a later leader.
//! - [`inventory`] takes the entries that nodes report, [`found`] makes objects of them, [`stripes`] joins pieces of replicas.
//! - [`shadow`] is what a standby knows of a segment; [`replay`] uses it once the standby leads.
//! - [`review`] compares the report of a restarted node with what the leader knows.
//! - [`outrank`] takes a higher epoch when a node has obeyed a later leader.
//!
//! Invariants: a leader that serves changes has the report of every member, or has it marked behind. It grants nothing on a
//! segment before the last page of its report. Once no segment may report any more, nothing is kept that reports alone need.

mod admission;
mod attributes;
mod belief;
mod check;
mod describe;
mod entry;
mod found;
mod inventory;
mod outrank;
mod phase;
mod recover;
mod replay;
mod review;
mod reviews;
mod shadow;
mod shadows;
mod stripes;
mod term;
mod waiting_stripes;

use std::collections::{BTreeMap, BTreeSet};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use mooncake_types::{SegmentId, Version};

pub use self::entry::Senseless;
use self::phase::Phase;
pub(crate) use self::reviews::Reviews;
pub use self::shadow::Shadow;
use self::shadows::Shadows;
pub(crate) use self::term::Term;
use self::waiting_stripes::WaitingStripes;
use crate::segments::RecordedMembers;

/// The recovery of one leader.
#[derive(Debug)]
pub(crate) struct Recovery {
    phase: Phase,
    /// Hashes of the keys that were put, removed, cleared or lost while segments could report. Of each, the version below
    /// which no report is believed.
    overruled: HashMap<u64, Version, FixedState>,
    /// Objects that were reported and may have replaced older versions: see [`belief`].
    replacing: BTreeSet<u32>,
    /// Stripes that have not found all their neighbours, by the version of their object.
    waiting: BTreeMap<Version, WaitingStripes>,
    shadows: Shadows,
    /// The time in which members may report has passed. From then on the leader waits for disks alone.
    is_window_over: bool,
}

impl Recovery {
    fn new(record: &RecordedMembers) -> Self {
        Self {
            phase: Phase::first(record),
            overruled: HashMap::default(),
            replacing: BTreeSet::new(),
            waiting: BTreeMap::new(),
            shadows: Shadows::default(),
            is_window_over: false,
        }
    }

    /// Whether objects that were lost can be reported by disks at most.
    pub(crate) fn is_over(&self) -> bool {
        self.phase.serves() && (self.is_window_over || !self.phase.may_report())
    }

    /// Whether there is something to do at once.
    pub(crate) fn has_work(&self) -> bool {
        self.shadows.has_work()
    }

    /// Members that have not reported.
    pub(crate) fn missing(&self) -> impl ExactSizeIterator<Item = SegmentId> {
        static NONE: BTreeSet<SegmentId> = BTreeSet::new();
        self.phase.missing().unwrap_or(&NONE).iter().copied()
    }

    /// Drops what the standby learned of a segment.
    pub(crate) fn forget_shadow(&mut self, id: SegmentId) {
        self.shadows.forget(id);
    }
}
