//! The durable membership record, as far as the state machine knows it: which segments may come back with what they
//! hold.
//!
//! Writing the record takes time and is the shell's business. What the state machine wants written it gives out as
//! [`Effect`]s; each takes hold when the shell says that it is recorded.

use std::collections::{BTreeMap, BTreeSet};

use mooncake_types::{Medium, SegmentId, Tick};

use super::closed::Closed;
use crate::Meta;

/// A change of the membership record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// The segment is a member from now on. The shell does this by itself, before a mount: see
    /// [`Meta::effects_before`].
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
pub struct Record {
    /// Nobody has ever led before, as far as the record knows: it says nothing of the segments that there are.
    pub fresh: bool,
    /// Its members, in any order.
    pub members: Vec<Member>,
}

/// The members, and what is on its way to the record.
#[derive(Debug, Default)]
pub(crate) struct Members {
    /// Whether somebody writes the record. If nobody does, every effect takes hold at once.
    is_recorded: bool,
    known: BTreeMap<SegmentId, Member>,
    /// What is not recorded yet.
    pending: BTreeSet<Effect>,
    /// What of that the shell was not given yet.
    effects: Vec<Effect>,
}

impl Members {
    pub(crate) fn recorded(record: &Record) -> Self {
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

    fn join(&mut self, segment: SegmentId) -> &mut Member {
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

impl Meta {
    /// Whether something is to be written to the membership record: see [`Meta::take_effects`].
    #[must_use]
    pub fn has_effects(&self) -> bool {
        !self.members.effects.is_empty()
    }

    /// What is to be written to the membership record, in this order. Each takes hold with [`Meta::handle_recorded`].
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.members.effects)
    }

    /// A change of the membership record is durable.
    pub fn handle_recorded(&mut self, now: Tick, effect: Effect) {
        self.advance(now);
        self.take_hold(effect);
    }

    /// Has a change recorded, unless it is on its way.
    pub(crate) fn emit(&mut self, effect: Effect) {
        if !self.members.pending.insert(effect) {
            return;
        }
        match self.members.is_recorded {
            true => self.members.effects.push(effect),
            false => self.take_hold(effect),
        }
    }

    fn take_hold(&mut self, effect: Effect) {
        self.members.pending.remove(&effect);
        match effect {
            Effect::Join(id) => _ = self.members.join(id),
            Effect::JoinDisk(id) => self.members.join(id).is_disk = true,
            Effect::Strike(id) => {
                self.members.known.remove(&id);
                self.lose_struck(id);
                self.on_reported(id);
            }
            Effect::MarkBehind(id) => self.set_behind(id, true),
            Effect::CaughtUp(id) => self.set_behind(id, false),
        }
        self.advance_recovery();
    }

    fn set_behind(&mut self, id: SegmentId, behind: bool) {
        let Some(known) = self.members.known.get_mut(&id) else { return };
        known.behind = behind;
        let Some(slot) = self.segments.find(id) else { return };
        self.segments.set(slot, Closed::Behind, behind);
        self.catch_up(slot);
    }

    /// A segment may be mounted. Whoever keeps no record has it joined by that; otherwise it must have been.
    pub(super) fn is_joined(&mut self, id: SegmentId, medium: Medium) -> bool {
        if !self.members.is_recorded {
            self.emit(Effect::join(id, medium));
        }
        self.members.known.contains_key(&id)
    }

    /// The content of a mounted segment is to count as lost: from now on nobody reads there, and once that is recorded it
    /// is.
    pub(crate) fn strike(&mut self, slot: u32) {
        self.segments.set(slot, Closed::Struck, true);
        self.emit(Effect::Strike(self.segments[slot].id));
    }

    /// Has a segment marked behind, of which an acknowledgement must not wait: its node cannot be asked.
    pub(crate) fn leave_behind(&mut self, slot: u32) {
        let id = self.segments[slot].id;
        if !self.is_forgiven(slot) && !self.segments[slot].is(Closed::Struck) {
            self.emit(Effect::MarkBehind(id));
        }
    }

    /// Whether the entries that have tombstones on a segment harm nobody under any later leader, since it would start empty.
    pub(crate) fn is_forgiven(&self, slot: u32) -> bool {
        let segment = &self.segments[slot];
        segment.is(Closed::Behind) && !self.members.is_pending(Effect::CaughtUp(segment.id))
    }

    /// A segment that was marked behind may have dropped all that it should, and said so.
    pub(crate) fn catch_up(&mut self, slot: u32) {
        let segment = &self.segments[slot];
        let is_done = segment.is(Closed::Behind)
            && segment.recovering.is_none()
            && segment.serves()
            && self.tombstones.count(slot) == 0;
        if is_done {
            self.emit(Effect::CaughtUp(segment.id));
        }
    }
}
