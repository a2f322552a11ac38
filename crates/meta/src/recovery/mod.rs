//! Recovery: what nodes report to a new leader, what the leader believes of it, and which requests it serves
//! meanwhile.
//!
//! The record names the members: the segments that may hold what earlier leaders granted. Each member reports its
//! whole ledger. The leader serves look-ups from the first report on. Requests that change objects wait until every
//! member has reported. If some do not report, these requests wait until
//!
//! 1. all routes that readers got from earlier leaders have ended
//!    ([`Config::routes_last_ms`](crate::Config::routes_last_ms)),
//! 2. no missing member is reporting, and
//! 3. the record marks the missing members as behind.
//!
//! - [`phase`] says how far the leader is: one enum, with the data of each phase.
//! - [`admission`] says which requests and mounts the leader admits.
//! - [`belief`] says which reported entries the leader believes.
//! - [`describe`] encodes the attributes of an object that nodes keep for a later leader.
//! - [`inventory`] takes the entries that nodes report, [`found`] makes objects of them, [`stripes`] joins pieces of
//!   replicas.
//! - [`shadow`] is the copy of a ledger that a standby keeps; [`replay`] takes it up once the standby leads.
//! - [`review`] compares the inventory of a restarted node with the entries that the leader knows.
//! - [`silence`] says which members are reporting, [`overruled`] which keys changed meanwhile.
//! - [`written_ahead`] has the record name what segments lack that are behind, also before versions go that [hide older
//!   ones](hidden_versions); [`tellers`] knows which others can tell.
//! - [`outrank`] takes a higher epoch when a node has obeyed a later leader.
//!
//! Invariants: a leader that serves changes has the report of every member, or has it marked behind. It grants nothing
//! on a segment before the last page of its report. Once no segment may report, the leader drops all data that only
//! reports need.

mod admission;
mod attributes;
mod belief;
mod check;
mod describe;
mod entry;
mod found;
mod hidden_versions;
mod inventory;
mod outrank;
mod overruled;
mod phase;
mod recover;
mod replay;
mod review;
mod reviews;
mod shadow;
mod shadows;
mod silence;
mod stripes;
mod tellers;
mod term;
mod waiting_stripes;
mod written_ahead;

use std::collections::{BTreeMap, BTreeSet};

use mooncake_types::{Epoch, SegmentId, Tick, Version};

pub use self::entry::ImplausibleReport;
use self::overruled::Overruled;
use self::phase::Phase;
pub(crate) use self::reviews::Reviews;
pub use self::shadow::Shadow;
use self::shadows::Shadows;
pub(crate) use self::term::Term;
use self::waiting_stripes::WaitingStripes;
pub(crate) use self::written_ahead::takes_all;
use crate::segments::{Member, RecordedMembers};
use crate::touched::touch;

/// Newer than every version.
const NEWER_THAN_ALL: Version = Version { epoch: Epoch(u64::MAX), counter: u64::MAX };

/// The recovery of one leader.
#[derive(Debug)]
pub(crate) struct Recovery {
    phase: Phase,
    /// Each key that was put, removed, cleared or lost while segments could report.
    overruled: Overruled,
    /// Reported objects that may have replaced older versions: see [`belief`].
    replacing: BTreeSet<u32>,
    /// Reported stripes that do not make up a replica yet, by the version of their object.
    waiting: BTreeMap<Version, WaitingStripes>,
    shadows: Shadows,
    /// The window in which members may begin to report is over. From then on the leader waits only for disks, and for
    /// members that are reporting.
    is_window_over: bool,
    /// The window was prolonged because no client was heard of.
    is_window_prolonged: bool,
    /// When a segment last began its report, or the leader last took a page of one.
    progressed_at: Tick,
    /// A timer of silence is set.
    awaits_silence: bool,
    /// Since when each member was behind when this leader began, of those that catch up with it.
    were_behind: BTreeMap<SegmentId, Version>,
    /// The missing members in memory. Each can tell what those lack that are behind since before this version.
    tellers: BTreeSet<(Version, SegmentId)>,
    /// When the leader last heard of each missing member: its node pinged, or was told that it is to report after others.
    heard: BTreeMap<SegmentId, Tick>,
}

impl Recovery {
    fn new(record: &RecordedMembers, now: Tick) -> Self {
        let since = |member: &Member| member.behind.filter(|&since| since != Version::default());
        let members = record.members.iter();
        let were_behind = members.filter_map(|member| Some((member.segment, since(member)?)));
        let mut recovery = Self {
            phase: Phase::first(record),
            overruled: Overruled::default(),
            replacing: BTreeSet::new(),
            waiting: BTreeMap::new(),
            shadows: Shadows::default(),
            is_window_over: false,
            is_window_prolonged: false,
            progressed_at: now,
            awaits_silence: false,
            were_behind: were_behind.collect(),
            tellers: BTreeSet::new(),
            heard: BTreeMap::new(),
        };
        let in_memory = record.members.iter().filter(|member| !member.is_disk);
        let missing = in_memory.map(|it| it.segment).filter(|&id| recovery.is_missing(id));
        recovery.tellers = missing.map(|id| (recovery.would_tell_before(id), id)).collect();
        recovery
    }

    /// What a member that has not reported could tell others, if it is in memory: what those lack that are behind since
    /// before this version.
    fn would_tell_before(&self, id: SegmentId) -> Version {
        self.were_behind.get(&id).copied().unwrap_or(NEWER_THAN_ALL)
    }

    /// A member tells nothing any more that a later leader does not know: it has reported, has left, or is a disk.
    pub(crate) fn forget_teller(&mut self, id: SegmentId) {
        self.tellers.remove(&(self.would_tell_before(id), id));
    }

    /// Whether only disks may still report objects that the leader does not know.
    pub(crate) fn is_over(&self) -> bool {
        self.phase.serves() && (self.is_window_over || !self.phase.may_report())
    }

    /// Whether shadows wait to be taken up.
    pub(crate) fn has_work(&self) -> bool {
        self.shadows.has_work()
    }

    /// Members that have not reported.
    pub(crate) fn missing(&self) -> impl ExactSizeIterator<Item = SegmentId> {
        static NONE: BTreeSet<SegmentId> = BTreeSet::new();
        self.phase.missing().unwrap_or(&NONE).iter().inspect(|_| touch()).copied()
    }

    /// Whether a member has not reported.
    pub(crate) fn is_missing(&self, id: SegmentId) -> bool {
        self.phase.missing().is_some_and(|missing| missing.contains(&id))
    }

    /// The node of a segment was heard of.
    pub(crate) fn note_heard(&mut self, id: SegmentId, now: Tick) {
        if self.is_missing(id) {
            self.heard.insert(id, now);
        }
    }

    /// Drops the shadow of a segment.
    pub(crate) fn forget_shadow(&mut self, id: SegmentId) {
        self.shadows.forget(id);
    }
}
