//! The table of segments that a reply's placements point into.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use mooncake_types::{Medium, SegmentAddress};

use super::table::Segments;

/// Gathers each segment of a reply once.
#[derive(Debug, Default)]
pub(crate) struct AddressTable {
    positions: HashMap<u32, u32, FixedState>,
    addresses: Vec<SegmentAddress>,
    slots: Vec<u32>,
}

impl AddressTable {
    /// The position of a segment in the table.
    pub(crate) fn position(&mut self, segments: &Segments, slot: u32) -> u32 {
        *self.positions.entry(slot).or_insert_with(|| {
            self.addresses.push(segments[slot].address());
            self.slots.push(slot);
            (self.addresses.len() - 1) as u32
        })
    }

    /// The slot of the segment at a position.
    pub(crate) fn slot(&self, position: u32) -> u32 {
        self.slots[position as usize]
    }

    /// What the segment at a position lies in.
    pub(crate) fn medium(&self, position: u32) -> Medium {
        self.addresses[position as usize].medium
    }

    pub(crate) fn into_addresses(self) -> Vec<SegmentAddress> {
        self.addresses
    }
}
