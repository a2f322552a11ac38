//! Changes of the membership record: how the state machine requests them, and what each does once it is durable.

use mooncake_types::{Medium, SegmentId, Tick, Version};

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
        if let Effect::MarkBehind(id, since) = effect {
            self.members.newest_mark = since.max(self.members.newest_mark);
            // What is put on it from now on, later leaders would hear of too late.
            let slot = self.segments.find(id);
            slot.into_iter().for_each(|slot| self.segments.set(slot, Closed::Behind, true));
        }
        self.members.overruling += usize::from(matches!(effect, Effect::Overrule(..)));
        match self.members.is_recorded {
            true => self.members.effects.push(effect),
            false => self.take_hold(effect),
        }
    }

    fn take_hold(&mut self, effect: Effect) {
        let was_pending = self.members.pending.remove(&effect);
        let is_overruled = was_pending && matches!(effect, Effect::Overrule(..));
        self.members.overruling -= usize::from(is_overruled);
        match effect {
            Effect::Join(id) => _ = self.members.join(id),
            Effect::JoinDisk(id) => {
                self.members.join(id).is_disk = true;
                self.recovery.forget_teller(id);
            }
            Effect::Strike(id) => {
                self.members.strike(id);
                self.lose_struck(id);
                self.on_reported(id);
            }
            Effect::MarkBehind(id, since) => {
                self.set_behind(id, Some(since));
                self.note_marked(id);
            }
            Effect::CaughtUp(id) => self.set_behind(id, None),
            Effect::Overrule(hash, key) => self.members.overrule(hash, key),
        }
        self.advance_recovery();
    }

    fn set_behind(&mut self, id: SegmentId, since: Option<Version>) {
        if !self.members.set_behind(id, since) {
            return;
        }
        let Some(slot) = self.segments.find(id) else { return };
        let is_behind = since.is_some() || self.members.is_marking(id);
        self.segments.set(slot, Closed::Behind, is_behind);
        self.members.set_catching_up(id, false);
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
        self.strike_member(self.segments[slot].id);
    }

    /// Has a segment marked behind whose node cannot be asked, so that no acknowledgement need wait for that node.
    pub(crate) fn mark_behind(&mut self, slot: u32) {
        let segment = &self.segments[slot];
        let id = segment.id;
        if segment.is(Closed::Struck) {
            return;
        }
        if self.members.is_marking(id) {
            return;
        }
        if segment.is(Closed::Behind) && !self.members.is_pending(Effect::CaughtUp(id)) {
            // The record has the mark still. The segment must catch up with new tombstones, too.
            self.members.set_catching_up(id, false);
            return self.tombstones.stop_catching_up(slot);
        }
        if self.term.newest_grant() <= self.members.newest_mark {
            // A segment that was in step for longer can tell what others lack.
            self.term.next_version();
        }
        self.emit(Effect::MarkBehind(id, self.term.newest_grant()));
    }

    /// Whether the record says that a segment lacks changes, so that acknowledgements need not wait for its tombstones
    /// if a later leader can tell them from what other segments hold, or from the record.
    pub(crate) fn is_forgiven(&self, slot: u32) -> bool {
        self.members.is_behind(self.segments[slot].id) == Some(true)
            && !self.tombstones.is_catching_up(slot)
    }

    /// Has a segment that is marked behind catch up, if its node has reported all entries and is in sight. From then
    /// on acknowledgements wait for its new tombstones. The mark ends once the node has confirmed the older ones.
    pub(crate) fn catch_up(&mut self, slot: u32) {
        let segment = &self.segments[slot];
        let is_behind = self.members.is_behind(segment.id) == Some(true);
        if !is_behind || segment.recovering.is_some() || !segment.serves() {
            return;
        }
        if !self.tombstones.is_catching_up(slot) {
            // Tombstones that are left from now on have a newer grant.
            let newest = self.term.newest_grant();
            self.term.next_version();
            self.members.set_catching_up(self.segments[slot].id, true);
            self.tombstones.begin_catching_up(slot, newest);
        }
        if self.tombstones.has_caught_up(slot) {
            self.emit(Effect::CaughtUp(self.segments[slot].id));
        }
    }
}
