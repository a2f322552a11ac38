//! The hand of a segment: the side on which eviction looks next, under a policy of second chances.

use super::Usage;
use crate::Meta;
use crate::objects::{Class, QueueKind, Side};
use crate::slab::NONE;

/// Most ranges that get another chance in one search for a victim. Uses give an object at most three chances, but a
/// leased object always gets another one.
const MOST_CHANCES: usize = 4_096;

impl Meta {
    /// The class of an object that is put on a segment, or reported there. `last` says whether it is the last object
    /// of its batch. `uses` is
    /// - zero for a new key;
    /// - one more than before for a key that was evicted recently;
    /// - as before for a key that is replaced.
    pub(crate) fn new_class(
        &self,
        (key, slot): (&str, u32),
        hash: u64,
        uses: u8,
        last: bool,
    ) -> Class {
        match self.usage.second_chance() {
            None => Class::new(hash, uses, last),
            Some(policy) => {
                let hand = self.segments[slot].hand(self.lane_of_key(key, slot));
                Class::on_side(policy.side_of_new(uses > 0, hand), 0)
            }
        }
    }

    /// Gives ranges of a lane further chances, until the oldest range on the hand's side has none left.
    pub(super) fn advance_hand(&mut self, slot: u32, lane: u32) {
        let Some(policy) = self.usage.second_chance() else { return };
        for _ in 0..MOST_CHANCES {
            let segment = &self.segments[slot];
            let [first, second] = [Side::First, Side::Second]
                .map(|side| segment.queue(lane, Usage::place_of_side(side)));
            let hand = policy.hand([first.len(), second.len()], segment.hand(lane));
            self.segments.set_hand(slot, lane, hand);
            let id = if hand == Side::First { first } else { second }.head();
            if id == NONE {
                return;
            }
            let range = &self.ranges[id];
            let (object, class) = (range.object, range.class);
            let is_leased = self.objects[object].leased_until() > self.now;
            match policy.chance(hand, class.visits(), is_leased) {
                None => return,
                Some((side, uses)) => {
                    self.requeue_as(object, Class::on_side(side, uses), QueueKind::Fresh);
                }
            }
        }
    }
}
