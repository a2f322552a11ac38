//! Key events: which keys moved to other tiers or went, and pages of all keys.

use hashbrown::HashMap;
use mooncake_types::Medium;

use crate::Meta;
use crate::key_events::{KeyEvent, KeyEvents, Tiers};
use crate::objects::ObjectState;

impl Meta {
    /// Has events kept from now on, of which the first ones tell of what is there already.
    pub fn follow_keys(&mut self) {
        let keys = self.objects.iter().map(|(_, object)| object.key.clone());
        let (told, touched) = (HashMap::default(), keys.collect());
        self.key_events = Some(Box::new(KeyEvents { told, touched }));
    }

    /// What has changed since this was last asked, of each key once.
    pub fn take_key_events(&mut self) -> Vec<KeyEvent> {
        let Some(mut events) = self.key_events.take() else { return Vec::new() };
        let touched = std::mem::take(&mut events.touched);
        let mut taken = Vec::new();
        for key in touched {
            let hash = self.index.hash(&key);
            let now = self.find(&key).map_or(Tiers::NONE, |object| self.tiers_of(object));
            let before = match now {
                Tiers::NONE => events.told.remove(&hash),
                _ => events.told.insert(hash, now),
            };
            let before = before.unwrap_or_default();
            if before != now {
                taken.push(KeyEvent { key, before, now });
            }
        }
        self.key_events = Some(events);
        taken
    }

    /// A page of all keys and where they are kept, and where the next page begins. Of what changes between two pages,
    /// events tell.
    #[must_use]
    pub fn key_page(&self, from: u32, limit: u32) -> (Vec<(Box<str>, Tiers)>, Option<u32>) {
        let end = from.saturating_add(limit.max(1)).min(self.objects.end());
        let there = (from..end).filter(|&object| self.objects.get(object).is_some());
        let kept = there.map(|object| (object, self.tiers_of(object)));
        let kept = kept.filter(|&(_, tiers)| tiers != Tiers::NONE);
        let page = kept.map(|(object, tiers)| (self.objects[object].key.clone(), tiers)).collect();
        (page, (end < self.objects.end()).then_some(end))
    }

    /// The replicas of an object are not what they were, or its key is another's.
    pub(crate) fn touch_key(&mut self, object: u32) {
        if self.key_events.is_some() {
            self.note_touched(object);
        }
    }

    // Few pools tell events, and the others are not to pay for them at each put.
    #[cold]
    fn note_touched(&mut self, object: u32) {
        if let Some(events) = &mut self.key_events {
            events.touched.push(self.objects[object].key.clone());
        }
    }

    fn tiers_of(&self, object: u32) -> Tiers {
        if self.objects[object].state != ObjectState::Complete {
            return Tiers::NONE;
        }
        let mut tiers = Tiers::NONE;
        for (_, range) in self.ranges_of(object) {
            let is_memory = self.segments[range.segment].medium == Medium::Memory;
            (tiers.memory, tiers.disk) = (tiers.memory | is_memory, tiers.disk | !is_memory);
        }
        tiers
    }
}
