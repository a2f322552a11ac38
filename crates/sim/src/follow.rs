//! A master that stands by and follows what the nodes hold. It asks over no network: it may be behind by any time anyhow.

use std::collections::BTreeMap;

use mooncake_meta::Shadow;
use mooncake_types::{Chance, SegmentId};

use crate::desk::Desk;
use crate::host::Host;

/// Entries in one page of what a node tells.
const PAGE_ENTRIES: usize = 3;

/// Most entries that a leader takes up at once.
const MOST_AT_ONCE: u64 = 4;

/// One of so many events has it ask somebody.
const ASKS_IN: u64 = 3;

/// What it knows.
pub(crate) struct Follower {
    chance: Chance,
    shadows: BTreeMap<SegmentId, Shadow>,
}

impl Follower {
    pub(crate) fn new(seed: u64) -> Self {
        Self { chance: Chance::new(seed), shadows: BTreeMap::new() }
    }

    /// Asks one of the nodes, or none.
    pub(crate) fn ask(&mut self, hosts: &[Host], desk: &mut Desk) {
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
            Ok(told) => desk.blame("what nodes tell makes sense", format!("{told:?}")),
            Err(_) => {
                desk.fault("a standby began anew");
                *shadow = new();
            }
        }
    }

    /// What it knows when it leads; as often as not somebody else does, who knows nothing.
    pub(crate) fn lead(&mut self) -> BTreeMap<SegmentId, Shadow> {
        let shadows = std::mem::take(&mut self.shadows);
        if self.chance.below(3) > 0 { shadows } else { BTreeMap::new() }
    }
}
