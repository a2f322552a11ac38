//! The durable membership record, as far as the state machine knows it: which segments may come back with what they
//! hold.
//!
//! Writing the record takes time and is the shell's business. What the state machine wants written it gives out as
//! [`Effect`]s; each takes hold when the shell says that it is recorded.

use std::collections::{BTreeMap, BTreeSet};

use mooncake_types::{Medium, SegmentId};

/// A change of the membership record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// The segment is a member from now on. The shell does this by itself, before a mount: see
    /// [`Meta::effects_before`](crate::Meta::effects_before).
    Join(SegmentId),
    /// The same of a segment that outlives its process. It may be a member already, by the record of an earlier version.
    JoinDisk(SegmentId),
    /// It is one no longer: what it holds counts as lost, and it comes back empty if at all.
    Strike(SegmentId),
    /// It holds entries that must not be read any more: under the next leader it starts empty.
    MarkBehind(SegmentId),
    /// It holds them no longer.
    CaughtUp(SegmentId),
}

impl Effect {
    /// A segment of this medium joins.
    pub(crate) const fn join(id: SegmentId, medium: Medium) -> Effect {
        match medium {
            Medium::Memory => Self::Join(id),
            Medium::Disk | Medium::SharedDisk | Medium::ObjectStore => Self::JoinDisk(id),
        }
    }
}

/// A segment in the membership record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Member {
    /// The segment.
    pub segment: SegmentId,
    /// Whether it was marked behind.
    pub behind: bool,
    /// Whether it outlives its process: a disk, files in a shared directory, or a prefix of an object store.
    pub is_disk: bool,
}

/// The membership record as a new leader finds it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedMembers {
    /// Nobody has ever led before, as far as the record knows: it says nothing of the segments that there are.
    pub fresh: bool,
    /// Its members, in any order.
    pub members: Vec<Member>,
}

/// The members, and what is on its way to the record.
#[derive(Debug, Default)]
pub(crate) struct Members {
    /// Whether somebody writes the record. If nobody does, every effect takes hold at once.
    pub(super) is_recorded: bool,
    pub(super) known: BTreeMap<SegmentId, Member>,
    /// What is not recorded yet.
    pub(super) pending: BTreeSet<Effect>,
    /// What of that the shell was not given yet.
    pub(super) effects: Vec<Effect>,
}

impl Members {
    pub(crate) fn recorded(record: &RecordedMembers) -> Self {
        let known = record.members.iter().map(|member| (member.segment, *member));
        Self { is_recorded: true, known: known.collect(), ..Self::default() }
    }

    /// Whether a member is marked behind; none if it is no member.
    pub(crate) fn is_behind(&self, id: SegmentId) -> Option<bool> {
        self.known.get(&id).map(|member| member.behind)
    }

    /// Whether the record says that a member outlives its process.
    pub(crate) fn is_disk(&self, id: SegmentId) -> bool {
        self.known.get(&id).is_some_and(|member| member.is_disk)
    }

    pub(super) fn join(&mut self, segment: SegmentId) -> &mut Member {
        let member = Member { segment, behind: false, is_disk: false };
        self.known.entry(segment).or_insert(member)
    }

    pub(crate) fn is_pending(&self, effect: Effect) -> bool {
        self.pending.contains(&effect)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Member> {
        self.known.values().copied()
    }
}
