//! Somebody outside who follows which keys are where.

use std::collections::BTreeMap;

use mooncake_meta::Tiers;

use crate::model::Run;

impl Run {
    /// What the events say is what a walk over all keys finds.
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
            there.extend(page);
            from = next;
        }
        assert_eq!(there, self.followed);
    }
}
