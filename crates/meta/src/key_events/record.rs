use hashbrown::HashMap;
use mooncake_types::Medium;

use super::event::{KeyEvent, KeyEvents, Tiers};
use crate::Meta;
use crate::objects::ObjectState;

impl Meta {
    /// Records events from now on. The first ones tell the keys that exist already.
    pub fn record_key_events(&mut self) {
        let keys = self.objects.iter().map(|(_, object)| object.key.clone());
        let (told, changed) = (HashMap::default(), keys.collect());
        self.key_events = Some(Box::new(KeyEvents { told, changed }));
    }

    /// Takes the changes since the last call, one event for each key.
    pub fn take_key_events(&mut self) -> Vec<KeyEvent> {
        let Some(mut events) = self.key_events.take() else { return Vec::new() };
        let changed = std::mem::take(&mut events.changed);
        let mut taken = Vec::new();
        for key in changed {
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

    /// A page of all keys with their tiers, and the start of the next page. Events tell what changes between two
    /// pages.
    #[must_use]
    pub fn key_page(&self, from: u32, limit: u32) -> (Vec<(Box<str>, Tiers)>, Option<u32>) {
        let end = from.saturating_add(limit.max(1)).min(self.objects.end());
        let there = (from..end).filter(|&object| self.objects.get(object).is_some());
        let kept = there.map(|object| (object, self.tiers_of(object)));
        let kept = kept.filter(|&(_, tiers)| tiers != Tiers::NONE);
        let page = kept.map(|(object, tiers)| (self.objects[object].key.clone(), tiers)).collect();
        (page, (end < self.objects.end()).then_some(end))
    }

    /// Notes that the replicas of an object have changed, or that its key has another object.
    pub(crate) fn note_key_change(&mut self, object: u32) {
        if self.key_events.is_some() {
            self.push_changed_key(object);
        }
    }

    // Few pools publish events. The others must not pay for them at each put.
    #[cold]
    fn push_changed_key(&mut self, object: u32) {
        if let Some(events) = &mut self.key_events {
            events.changed.push(self.objects[object].key.clone());
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
