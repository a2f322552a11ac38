//! The membership record, as far as the state machine knows it: the segments that may come back with their objects.
//!
//! The shell writes the durable record, which takes time. The state machine hands out the changes as [`Effect`]s.
//! Each takes effect when the shell says that it is recorded.

use std::collections::{BTreeMap, BTreeSet};

use mooncake_types::{Medium, SegmentId};

/// A change of the membership record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// The segment becomes a member. The shell records this by itself, before a mount: see
    /// [`Meta::effects_before`](crate::Meta::effects_before).
    Join(SegmentId),
    /// As `Join`, for a segment that outlives its process. It may be a member already, in a record of an earlier
    /// version.
    JoinDisk(SegmentId),
    /// The segment is a member no longer: its bytes count as lost, and it comes back empty if at all.
    Strike(SegmentId),
    /// The segment holds entries that must not be read: under the next leader it starts empty.
    MarkBehind(SegmentId),
    /// The segment holds no such entries any more.
    CaughtUp(SegmentId),
}

impl Effect {
    /// The change by which a segment of this medium joins.
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
    /// Whether it is marked behind.
    pub behind: bool,
    /// Whether it outlives its process: a disk, files in a shared directory, or a prefix of an object store.
    pub is_disk: bool,
}

/// The membership record as a new leader finds it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedMembers {
    /// Whether the record knows of no earlier leader. It then says nothing about the segments that exist.
    pub fresh: bool,
    /// Its members, in any order.
    pub members: Vec<Member>,
}

/// The members, and the changes that are not recorded yet.
#[derive(Debug, Default)]
pub(crate) struct Members {
    /// Whether a shell writes the record. If not, every change takes effect at once.
    pub(super) is_recorded: bool,
    pub(super) known: BTreeMap<SegmentId, Member>,
    /// Changes that are not recorded yet.
    pub(super) pending: BTreeSet<Effect>,
    /// Those of them that the shell has not taken yet.
    pub(super) effects: Vec<Effect>,
}

impl Members {
    pub(crate) fn recorded(record: &RecordedMembers) -> Self {
        let known = record.members.iter().map(|member| (member.segment, *member));
        Self { is_recorded: true, known: known.collect(), ..Self::default() }
    }

    /// Whether a member is marked behind; none if the segment is no member.
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
