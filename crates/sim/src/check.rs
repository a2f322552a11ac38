//! Checks of invariants that run after each event.

use mooncake_meta::Meta;
use mooncake_types::Placement;

use crate::key::KEYS;
use crate::master::{Granted, version_of};
use crate::world::{EntryPlace, World};

impl World {
    /// Blames each invariant that does not hold after this event.
    pub(crate) fn check(&mut self) {
        let master = &mut self.masters[self.leader];
        let granted = master.take_granted();
        if !master.is_alive || !master.leads {
            return;
        }
        let is_changed = master.meta.take_is_changed();
        if is_changed && let Err(violation) = master.meta.check() {
            self.run_state.blame("the master's invariants hold", format!("{violation:?}"));
        }
        self.check_writes();
        self.check_grants(&granted);
        self.check_quotas(&granted);
        if is_changed {
            let (run_state, meta) = (&mut self.run_state, &self.masters[self.leader].meta);
            let missing = run_state.survivors.len();
            run_state
                .survivors
                .retain(|&key, known| version_of(meta, key) < Some(known.located.version));
            run_state.tally.survived += (missing - run_state.survivors.len()) as u64;
        }
        if self.run_state.judges_misses {
            self.note_absence(is_changed);
        }
    }

    /// No byte may change in a range that the leader gives to readers.
    fn check_writes(&mut self) {
        let Self { run_state, masters, hosts, .. } = self;
        let master = &masters[self.leader];
        for node in hosts.iter_mut().flat_map(|host| &mut host.nodes) {
            for (version, range) in node.take_changes() {
                let owner = master.owner_of(node.segment(), range, run_state.keys);
                if let Some((key, owner)) = owner.filter(|(_, owner)| *owner != version) {
                    let text = format!(
                        "{version} is written to {range:?} of {}, where {owner} of key {key} lies",
                        node.name
                    );
                    run_state.blame("no write lands in a range of another object", text);
                }
            }
        }
    }

    /// L5: the leader grants no range in which a writer of an older leader may still be at work.
    fn check_grants(&mut self, granted: &[Granted]) {
        let Self { run_state, hosts, net, scenario, .. } = self;
        let held_ms = scenario.put_release_ms - scenario.put_discard_ms;
        let is_held = |granted: &&Granted| {
            // The master's clock may run faster than virtual time, so a hold may be up to 1 % shorter.
            let until_us = granted.reported_us.map(|at| at + 990 * held_ms);
            until_us.is_some_and(|until_us| net.now_us < until_us)
        };
        for granted in granted.iter().filter(is_held) {
            let mut nodes = hosts.iter().flat_map(|host| &host.nodes);
            let node = nodes.find(|node| node.segment() == granted.segment);
            let older = node.and_then(|it| it.older_writer(granted.range, granted.version.epoch));
            if let Some(older) = older {
                run_state.blame("L5", format!("{granted:?} although {older:?} may be at work"));
            }
        }
    }

    /// Notes which keys have no readable object, or had it moved, so that a miss now is no mistake.
    fn note_absence(&mut self, is_changed: bool) {
        let Self { run_state, masters, hosts, places, .. } = self;
        let meta = &masters[self.leader].meta;
        // Objects in a segment that is being taken back cannot be read, although the master may not know it yet.
        let mut nodes = hosts.iter().flat_map(|host| &host.nodes);
        let is_one_away = nodes.any(|node| !node.is_lent);
        let knows_places = std::mem::replace(&mut self.knows_places, true);
        for (key, there) in places.iter_mut().enumerate().take(run_state.keys) {
            let mut has_moved = false;
            if is_changed || !knows_places {
                let known = std::mem::replace(there, places_of(meta, key));
                // A reader that lost a moved replica looks up once more. The object may move again before it reads.
                has_moved = !known.iter().all(|place| there.contains(place))
                    && known.first().map(|place| place.0) == there.first().map(|place| place.0);
            }
            if there.is_empty() || has_moved || is_one_away {
                run_state.history.absent(key, run_state.event);
            }
        }
    }
}

fn places_of(meta: &Meta, key: usize) -> Vec<EntryPlace> {
    let Some(report) = meta.peek(KEYS[key]).filter(|report| report.complete) else {
        return Vec::new();
    };
    let version = report.located.version;
    let place =
        |range: &Placement| (version, report.segments[range.segment as usize].id, range.offset);
    report.located.placements.iter().map(place).collect()
}
