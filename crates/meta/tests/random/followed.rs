//! A subscriber that follows key events.

use std::collections::BTreeMap;

use mooncake_meta::Tiers;

use crate::model::Run;

impl Run {
    /// The view of the events must equal a walk over all keys.
    pub(crate) fn follow(&mut self) {
        for event in self.world.meta.take_key_events() {
            let known = match event.now {
                Tiers::NONE => self.followed.remove(&event.key),
                now => self.followed.insert(event.key.clone(), now),
            };
            assert_eq!(known.unwrap_or_default(), event.before, "{}", event.key);
        }
        let (mut there, mut from) = (BTreeMap::new(), Some(0));
        while let Some(at) = from {
            let (page, next) = self.world.meta.key_page(at, 7);
            there.extend(page.into_iter().map(|event| (event.key, event.now)));
            from = next;
        }
        assert_eq!(there, self.followed);
    }
}
