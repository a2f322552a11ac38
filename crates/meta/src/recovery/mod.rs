//! Recovery: what a new leader hears from the nodes, what it believes of that, and which requests it answers until then.
//!
//! The record names the members: the segments that may hold what earlier leaders granted. Each member is to report all that
//! it holds. Look-ups are answered from the first report on. What changes objects waits until every member has reported. If
//! some don't, it waits until nobody has a route from under an earlier leader any more (see
//! [`Config::routes_last_ms`](crate::Config::routes_last_ms)) and the missing are marked behind in the record.
//!
//! - [`phase`] says how far the leader is: one enum, with the data of each phase.
//! - [`admission`] says which request and which mount the leader admits.
//! - [`belief`] says which entry the leader believes.
//! - [`describe`] says what nodes keep of an object for a later leader.
//! - [`inventory`] takes the entries that nodes tell, [`found`] makes objects of them, [`stripes`] joins pieces of replicas.
//! - [`shadow`] is what a standby knows of a segment; [`replay`] takes that up once it leads.
//! - [`review`] compares what a node tells that was started again with what the leader knows.
//! - [`outrank`] takes a higher epoch when a node has obeyed a later leader.
//!
//! Invariants: who serves has heard of every member, or has it marked behind. Nothing is granted on a segment before its
//! last page. Once nobody may report any more, nothing is kept that was only kept for reports.

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
use crate::segments::Record;

/// The recovery of one leader.
#[derive(Debug)]
pub(crate) struct Recovery {
    phase: Phase,
    /// Hashes of the keys that were put, removed, cleared or lost while somebody could report, each with the version below
    /// which nothing is believed any more.
    touched: HashMap<u64, Version, FixedState>,
    /// Objects that were found and may have taken the place of others: see [`belief`].
    replacing: BTreeSet<u32>,
    /// Stripes that have not found all their neighbours, by the version of their object.
    waiting: BTreeMap<Version, WaitingStripes>,
    shadows: Shadows,
    /// Members have had their time to report. Only disks are waited for from then on.
    is_window_over: bool,
}

impl Recovery {
    fn new(record: &Record) -> Self {
        Self {
            phase: Phase::first(record),
            touched: HashMap::default(),
            replacing: BTreeSet::new(),
            waiting: BTreeMap::new(),
            shadows: Shadows::default(),
            is_window_over: false,
        }
    }

    /// Whether nothing that was lost with its segments can be reported any more, unless on disks.
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

    /// What an earlier process told of its segment is not to be taken up.
    pub(crate) fn forget_shadow(&mut self, id: SegmentId) {
        self.shadows.forget(id);
    }
}
