//! Objects that must survive the death of a master.

use mooncake_meta::KeyReport;
use mooncake_node::EntryState;

use crate::key::KEYS;
use crate::master::Master;
use crate::world::World;

impl World {
    /// The master that leads, or led last.
    pub(crate) fn leader(&self) -> &Master {
        &self.masters[self.leader]
    }

    /// Remembers each object that the last leader could read. The next leader must find them.
    pub(crate) fn remember_survivors(&mut self) {
        for (key, name) in KEYS.iter().enumerate().take(self.run_state.keys) {
            let report = self.leader().meta.peek(name).filter(|report| report.complete);
            if let Some(report) = report {
                self.run_state.survivors.insert(key, report);
            }
        }
    }

    /// Whether nodes still hold a whole replica of an object that a master knew.
    fn is_held(&self, known: &KeyReport) -> bool {
        let is_there = |replica: u32| {
            let mut ranges = known.located.placements.iter().filter(|it| it.replica == replica);
            ranges.all(|range| {
                let segment = known.segments[range.segment as usize].id;
                let mut nodes = self.hosts.iter().flat_map(|host| &host.nodes);
                let node = nodes.find(|node| node.segment() == segment);
                let entry = node.and_then(|node| node.ledger().complete_at(range.offset));
                entry.is_some_and(|entry| entry.version == known.located.version)
            })
        };
        known.located.placements.iter().any(|range| is_there(range.replica))
    }

    /// Whether the leader has an object of which no node holds a whole replica.
    pub(crate) fn is_ghost(&self, key: usize) -> bool {
        self.leader().meta.peek(KEYS[key]).is_some_and(|known| !self.is_held(&known))
    }

    /// At the end, no survivor may be missing that nodes still hold (I1). Nodes may hold no entry that the leader does
    /// not know (I2).
    pub(crate) fn check_survival(&mut self) {
        let survivors: Vec<KeyReport> = self.run_state.survivors.values().cloned().collect();
        for known in survivors {
            if self.is_held(&known) {
                self.run_state.blame("I1", format!("{known:?} was lost with a master"));
            }
        }
        for node in self.hosts.iter().flat_map(|host| &host.nodes) {
            for (offset, entry) in node.ledger().entries() {
                if entry.state != EntryState::Complete {
                    continue;
                }
                let report = self.leader().meta.peek(&entry.key).filter(|report| report.complete);
                let is_known = report.is_some_and(|report| {
                    report.located.version == entry.version
                        && report.located.placements.iter().any(|range| {
                            let segment = report.segments[range.segment as usize].id;
                            (segment, range.offset) == (node.segment(), offset)
                        })
                });
                if !is_known {
                    let text = format!("{entry:?} at {offset} of {}", node.name);
                    self.run_state.blame("nodes hold nothing that the master forgot", text);
                }
            }
        }
    }
}
