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
            Effect::MarkBehind(id) => {
                self.set_behind(id, true);
                self.note_marked(id);
            }
            Effect::CaughtUp(id) => self.set_behind(id, false),
        }
        self.advance_recovery();
    }

    fn set_behind(&mut self, id: SegmentId, behind: bool) {
        let Some(known) = self.members.known.get_mut(&id) else { return };
        known.behind = behind;
        let Some(slot) = self.segments.find(id) else { return };
        self.segments.set(slot, Closed::Behind, behind);
        self.tombstones.stop_catching_up(slot);
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
        let segment = &self.segments[slot];
        let id = segment.id;
        if segment.is(Closed::Struck) {
            return;
        }
        if segment.is(Closed::Behind) && !self.members.is_pending(Effect::CaughtUp(id)) {
            // The record has the mark still. The segment must catch up with new tombstones, too.
            return self.tombstones.stop_catching_up(slot);
        }
        self.emit(Effect::MarkBehind(id));
    }

    /// Whether a later leader would have the segment start empty, so that no acknowledgement need wait for its
    /// tombstones.
    pub(crate) fn is_forgiven(&self, slot: u32) -> bool {
        self.segments[slot].is(Closed::Behind) && !self.tombstones.is_catching_up(slot)
    }

    /// Has a segment that is marked behind catch up, if its node has reported all entries and is in sight. From then
    /// on acknowledgements wait for its new tombstones. The mark ends once the node has confirmed the older ones.
    pub(crate) fn catch_up(&mut self, slot: u32) {
        let segment = &self.segments[slot];
        if !segment.is(Closed::Behind) || segment.recovering.is_some() || !segment.serves() {
            return;
        }
        if !self.tombstones.is_catching_up(slot) {
            // Tombstones that are left from now on have a newer grant.
            let newest = self.term.newest_grant();
            self.term.next_version();
            self.tombstones.begin_catching_up(slot, newest);
        }
        if self.tombstones.has_caught_up(slot) {
            self.emit(Effect::CaughtUp(self.segments[slot].id));
        }
    }
}
