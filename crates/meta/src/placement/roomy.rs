//! Which segments have free room for a replica below their high watermark, above which they would evict. Drains,
//! repair and replication place replicas there.
//!
//! An [index](crate::segments::free_room) names these segments, so the search costs the same however many segments
//! there are, and however many of them are full.

use mooncake_alloc::class_of;
use mooncake_types::limits;
use smallvec::{SmallVec, smallvec};

use super::route::Route;
use crate::Meta;
use crate::effort::CHANGE;
use crate::segments::{Cursor, Pieces, Segment};

/// Most segments that surely have the room, and most that may have it, that are compared for one replica.
pub(crate) const MOST_COMPARED: usize = 16;

/// Some segments, in an order.
pub(crate) type Slots = SmallVec<[u32; 2 * MOST_COMPARED]>;

impl Meta {
    /// Some segments from all over the pool that take puts and may have a free range of this length below their high
    /// watermark. None holds one of the replicas on the slots `held`, which are sorted. Segments outside of the
    /// failure domains of these replicas come first.
    pub(crate) fn roomy_segments(&mut self, len: u64, held: &[u32]) -> Slots {
        let class = class_of(len);
        let mut found = self.some_roomy(class + 1, MOST_COMPARED, held);
        if found.len() < MOST_COMPARED {
            // A free range of the class of the length itself may be a little too short.
            let further = self.some_roomy(class, 2 * MOST_COMPARED, held);
            found.extend(
                further.into_iter().filter(|slot| !found.contains(slot)).collect::<Slots>(),
            );
        }
        found
    }

    /// At most `most` segments with a free range of a size class below their high watermark.
    pub(crate) fn some_roomy(&mut self, class: u32, most: usize, held: &[u32]) -> Slots {
        let mut found = Slots::new();
        let Some(mut route) = self.route_beside(held) else { return found };
        loop {
            self.add_roomy(&route, (class, most), &mut found);
            if found.len() >= most || !route.widen() {
                return found;
            }
        }
    }

    fn add_roomy(&mut self, route: &Route, (class, most): (u32, usize), found: &mut Slots) {
        let mut cursor = Cursor::new(route.start);
        // A wider route meets the segments of the narrower ones again.
        for _ in 0..2 * most {
            if found.len() >= most {
                break;
            }
            let wanted = self.next_of(route, &mut cursor, |room| room.class_below_mark >= class);
            let Some(slot) = wanted else { break };
            self.effort.spend(1);
            if !found.contains(&slot) {
                found.push(slot);
            }
        }
        self.effort.spend(cursor.passed_over());
    }

    /// Reserves one range on the first of these segments that stays below its high watermark with it. Evicts nothing.
    pub(crate) fn place_below_mark(&mut self, len: u64, order: &[u32]) -> Option<Pieces> {
        for &slot in order {
            self.effort.spend(1);
            let Some(piece) = self.reserve(slot, len) else { continue };
            if !self.segments.is_above_watermark(slot) {
                return Some(smallvec![piece]);
            }
            self.unreserve(&[piece]);
        }
        None
    }

    /// As [`place_below_mark`](Self::place_below_mark), in several ranges.
    pub(crate) fn scatter_below_mark(&mut self, len: u64, order: &[u32]) -> Option<Pieces> {
        let most = limits::MAX_STRIPES as u64;
        let pieces =
            self.scatter_over(len, order.iter().copied(), most, Segment::range_below_mark)?;
        self.effort.spend(CHANGE.saturating_mul(pieces.len() as u32));
        if pieces.iter().any(|piece| self.segments.is_above_watermark(piece.segment)) {
            self.unreserve(&pieces);
            return None;
        }
        Some(pieces)
    }
}
