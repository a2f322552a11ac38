//! The table of segments that a reply's placements point into.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use mooncake_types::{Medium, SegmentAddress};
use smallvec::SmallVec;

use super::table::Segments;

/// Up to this many segments are searched one by one. Most replies name fewer segments, and need no hash map.
const FEW: usize = 8;

/// The segments of a reply, each once.
#[derive(Debug, Default)]
pub(crate) struct AddressTable {
    addresses: Vec<SegmentAddress>,
    slots: SmallVec<[u32; FEW]>,
    /// The position of each slot, once there are more than [`FEW`].
    positions: HashMap<u32, u32, FixedState>,
}

impl AddressTable {
    /// The position of a segment in the table.
    pub(crate) fn position(&mut self, segments: &Segments, slot: u32) -> u32 {
        let known = match self.slots.len() > FEW {
            true => self.positions.get(&slot).copied(),
            false => self.slots.iter().position(|&it| it == slot).map(|at| at as u32),
        };
        known.unwrap_or_else(|| self.push(segments, slot))
    }

    fn push(&mut self, segments: &Segments, slot: u32) -> u32 {
        let position = self.slots.len() as u32;
        self.addresses.push(segments[slot].address());
        self.slots.push(slot);
        match self.slots.len() {
            0..=FEW => {}
            len if len == FEW + 1 => self.positions = self.slots.iter().copied().zip(0..).collect(),
            _ => drop(self.positions.insert(slot, position)),
        }
        position
    }

    /// The slot of the segment at a position.
    pub(crate) fn slot(&self, position: u32) -> u32 {
        self.slots[position as usize]
    }

    /// The medium of the segment at a position.
    pub(crate) fn medium(&self, position: u32) -> Medium {
        self.addresses[position as usize].medium
    }

    pub(crate) fn into_addresses(self) -> Vec<SegmentAddress> {
        self.addresses
    }
}

#[cfg(test)]
mod tests {
    use mooncake_types::{
        ClientId, Epoch, MountOutcome, MountSegment, Reply, Request, SegmentId, Tick,
    };

    use super::*;
    use crate::{Config, Meta};

    #[test]
    fn each_segment_has_one_position_however_many_there_are() {
        let mut meta = Meta::new(Config::default(), Epoch(1));
        let slots = 3 * FEW as u32;
        for number in 0..slots {
            let name = format!("node-{number}:12345");
            let mount = MountSegment {
                id: SegmentId(u128::from(number)),
                name: &name,
                endpoint: &name,
                len: 1 << 20,
                seen_epoch: Epoch(0),
                is_empty: true,
                run: 1,
                medium: Medium::Memory,
                domains: &[],
                seal_key: None,
            };
            let reply = meta.handle(Tick(0), ClientId(1), &Request::MountSegment(mount));
            assert_eq!(reply, Reply::Mounted(MountOutcome::Ready));
        }
        let mut table = AddressTable::default();
        for _ in 0..2 {
            for slot in (0..slots).rev() {
                let position = table.position(&meta.segments, slot);
                assert_eq!((position, table.slot(position)), (slots - 1 - slot, slot));
            }
        }
        assert_eq!(table.into_addresses().len(), slots as usize);
    }
}
