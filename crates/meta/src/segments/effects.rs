//! Changes of the membership record: how the state machine requests them, and what each does once it is durable.

use mooncake_types::{Medium, SegmentId, Tick};

use super::closed::Closed;
use super::members::Effect;
use crate::Meta;

impl Meta {
    /// Whether changes wait to be written to the membership record: see [`Meta::take_effects`].
    #[must_use]
    pub fn has_effects(&self) -> bool {
        !self.members.effects.is_empty()
    }

    /// Takes the changes to write to the membership record, in this order. Each takes effect with
    /// [`Meta::handle_recorded`].
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.members.effects)
    }

    /// Applies a change of the membership record, which is durable now.
    pub fn handle_recorded(&mut self, now: Tick, effect: Effect) {
        self.advance(now);
        self.take_hold(effect);
    }

    /// Requests a change of the membership record, unless it is pending already.
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

    /// Whether a segment is a member and may be mounted. Without a record this makes it a member. With one, the shell
    /// must have recorded the member before.
    pub(super) fn is_joined(&mut self, id: SegmentId, medium: Medium) -> bool {
        if !self.members.is_recorded {
            self.emit(Effect::join(id, medium));
        }
        self.members.known.contains_key(&id)
    }

    /// Strikes a mounted segment: no reader is sent there from now on. Its bytes count as lost once the record says
    /// so.
    pub(crate) fn strike(&mut self, slot: u32) {
        self.segments.set(slot, Closed::Struck, true);
        self.emit(Effect::Strike(self.segments[slot].id));
    }

    /// Has a segment marked behind whose node cannot be asked, so that no acknowledgement need wait for that node.
    pub(crate) fn mark_behind(&mut self, slot: u32) {
        let id = self.segments[slot].id;
        if !self.is_forgiven(slot) && !self.segments[slot].is(Closed::Struck) {
            self.emit(Effect::MarkBehind(id));
        }
    }

    /// Whether a later leader would have the segment start empty, so that no acknowledgement need wait for its
    /// tombstones.
    pub(crate) fn is_forgiven(&self, slot: u32) -> bool {
        let segment = &self.segments[slot];
        segment.is(Closed::Behind) && !self.members.is_pending(Effect::CaughtUp(segment.id))
    }

    /// Ends the mark of a segment that is marked behind, once its node has reported all entries and has confirmed all
    /// tombstones.
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
