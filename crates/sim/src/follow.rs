//! A standby that follows the ledgers of nodes. It reads them directly: its knowledge may be old, as over a network.

use std::collections::BTreeMap;

use mooncake_meta::Shadow;
use mooncake_types::{Chance, SegmentId};

use crate::host::Host;
use crate::run_state::RunState;

/// Most entries that a node puts into one page.
const PAGE_ENTRIES: usize = 3;

/// Most entries that a leader takes from a shadow at once.
const MOST_AT_ONCE: u64 = 4;

/// The standby asks a node at one event in this many.
const ASKS_IN: u64 = 3;

/// The standby, with a shadow of each ledger that it has read.
pub(crate) struct Follower {
    chance: Chance,
    shadows: BTreeMap<SegmentId, Shadow>,
}

impl Follower {
    pub(crate) fn new(seed: u64) -> Self {
        Self { chance: Chance::new(seed), shadows: BTreeMap::new() }
    }

    /// Asks one node for its changes, or none.
    pub(crate) fn ask(&mut self, hosts: &[Host], run_state: &mut RunState) {
        if self.chance.below(ASKS_IN) > 0 {
            return;
        }
        let host = &hosts[self.chance.below(hosts.len() as u64) as usize];
        let node = match host.nodes.len() as u64 {
            0 | 1 => host.nodes.first(),
            count => host.nodes.get(self.chance.below(count) as usize),
        };
        let Some(node) = node.filter(|_| host.is_alive) else { return };
        let entries = 1 + self.chance.below(MOST_AT_ONCE) as usize;
        let new = || Shadow::new(node.len()).with_pages_of(entries);
        let shadow = self.shadows.entry(node.segment()).or_insert_with(new);
        match node.ledger().follow(&shadow.ask(node.segment()), PAGE_ENTRIES) {
            Ok(told) if shadow.take(&told.page()).is_ok() => {}
            Ok(told) => run_state.blame("what nodes tell makes sense", format!("{told:?}")),
            Err(_) => {
                run_state.fault("a standby began anew");
                *shadow = new();
            }
        }
    }

    /// The shadows that a new leader begins with. In one case of three it is a master that followed nothing.
    pub(crate) fn lead(&mut self) -> BTreeMap<SegmentId, Shadow> {
        let shadows = std::mem::take(&mut self.shadows);
        if self.chance.below(3) > 0 { shadows } else { BTreeMap::new() }
    }
}
