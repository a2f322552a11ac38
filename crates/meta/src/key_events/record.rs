use mooncake_types::Medium;

use super::event::{KeyEvent, KeyEvents, KeyLabels, Tiers};
use crate::Meta;
use crate::objects::ObjectState;

impl Meta {
    /// Records events from now on. The first ones tell the keys that exist already.
    pub fn record_key_events(&mut self) {
        let keys = self.objects.iter().map(|(_, object)| object.key.clone());
        let changed = keys.collect();
        self.key_events = Some(Box::new(KeyEvents { changed, ..KeyEvents::default() }));
    }

    /// Takes the changes since the last call, one event for each key.
    pub fn take_key_events(&mut self) -> Vec<KeyEvent> {
        let Some(mut events) = self.key_events.take() else { return Vec::new() };
        let changed = std::mem::take(&mut events.changed);
        let mut taken = Vec::new();
        for key in changed {
            let hash = self.index.hash(&key);
            let found = self.find(&key);
            let now = found.map_or(Tiers::NONE, |object| self.tiers_of(object));
            let before = match now {
                Tiers::NONE => events.told.remove(&hash),
                _ => events.told.insert(hash, now),
            };
            let before = before.unwrap_or_default();
            if before != now {
                let labels = found.map(|object| self.labels_of(object, &events));
                taken.push(KeyEvent { key, before, now, labels: labels.unwrap_or_default() });
            }
        }
        self.key_events = Some(events);
        taken
    }

    /// A page of all keys, as events that tell them for the first time, and the start of the next page. Later events tell
    /// what changes between two pages. Empty unless events are recorded.
    #[must_use]
    pub fn key_page(&self, from: u32, limit: u32) -> (Vec<KeyEvent>, Option<u32>) {
        let Some(events) = &self.key_events else { return (Vec::new(), None) };
        let end = from.saturating_add(limit.max(1)).min(self.objects.end());
        let there = (from..end).filter(|&object| self.objects.get(object).is_some());
        let kept = there.map(|object| (object, self.tiers_of(object)));
        let kept = kept.filter(|&(_, tiers)| tiers != Tiers::NONE);
        let told = |(object, now)| KeyEvent {
            key: self.objects[object].key.clone(),
            before: Tiers::NONE,
            now,
            labels: self.labels_of(object, events),
        };
        let page = kept.map(told).collect();
        (page, (end < self.objects.end()).then_some(end))
    }

    /// Notes the session that a put named for its object.
    pub(crate) fn note_session(&mut self, object: u32, session: &str) {
        if let Some(events) = self.key_events.as_mut().filter(|_| !session.is_empty()) {
            events.sessions.insert(object, session.into());
        }
    }

    /// Forgets the session of an object that goes.
    pub(crate) fn forget_session(&mut self, object: u32) {
        if let Some(events) = &mut self.key_events {
            events.sessions.remove(&object);
        }
    }

    fn labels_of(&self, object: u32, events: &KeyEvents) -> KeyLabels {
        KeyLabels {
            group: self.group_name(object).unwrap_or_default().into(),
            session: events.sessions.get(&object).cloned().unwrap_or_default(),
        }
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
