//! Placement: which ranges of which segments a new object gets.

use mooncake_alloc::Handle;
use mooncake_types::{ReplicateConfig, limits};
use smallvec::{SmallVec, smallvec};

use crate::Meta;
use crate::config::Strategy;

/// Segments that are tried before a list of all candidates is made.
const QUICK_PROBES: usize = 100;
/// Most ranges that an object is cut into only to spare others from eviction.
const EASY_PIECES: u64 = 4;
/// A segment that gave this many times the bytes wanted, and still has no room, is left alone while another may do.
const PATIENCE: u64 = 4;
/// Preferred or excluded segments that one put can name; further ones count for nothing.
const MAX_NAMED: usize = 64;
/// Segments among which `free_ratio_first` takes the emptiest.
const SAMPLE: usize = 6;

/// A range that was reserved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) segment: u32,
    pub(crate) handle: Handle,
    pub(crate) len: u64,
}

/// The ranges of one replica, in the order of the bytes: nearly always one, which needs no memory of its own.
pub(crate) type Pieces = SmallVec<[Piece; 1]>;

/// What a put asks of placement.
pub(crate) struct Wish {
    pub(crate) replicas: usize,
    /// Slots to try first, in order.
    preferred: Vec<u32>,
    /// Slots that must not be used: those that failed the writer, then those of the replicas placed already.
    avoided: Vec<u32>,
}

impl Meta {
    pub(crate) fn wish(&self, config: &ReplicateConfig<'_>) -> Wish {
        let preferred = config.preferred_segments.iter().take(MAX_NAMED);
        let preferred = preferred.flat_map(|name| self.segments.named(name)).copied();
        let avoided = config.excluded_segments.iter().take(MAX_NAMED);
        let avoided = avoided.filter_map(|&id| self.segments.find(id));
        Wish {
            replicas: config.replica_num as usize,
            preferred: distinct(preferred),
            avoided: distinct(avoided),
        }
    }

    /// Reserves ranges for as many of the wished replicas as there is room for, evicting where need be. No two
    /// replicas share a segment.
    pub(crate) fn place(&mut self, len: u64, wish: &Wish) -> SmallVec<[Pieces; 1]> {
        let mut avoided = wish.avoided.clone();
        let mut replicas: SmallVec<[Pieces; 1]> = SmallVec::new();
        while replicas.len() < wish.replicas.min(self.segments.grantable().len()) {
            let placed = self.place_replica(len, &wish.preferred, &avoided, replicas.is_empty());
            let Some(pieces) = placed else { break };
            if replicas.len() + 1 < wish.replicas {
                avoided.extend(pieces.iter().map(|piece| piece.segment));
            }
            replicas.push(pieces);
        }
        for piece in replicas.iter().flatten() {
            self.note_use(piece.segment);
        }
        replicas
    }

    /// Reserves one range on one of the segments, in their order, evicting where need be.
    pub(crate) fn place_on(&mut self, len: u64, order: &[u32]) -> Option<Piece> {
        let free = order.iter().find_map(|&segment| self.reserve(segment, len));
        let piece = free.or_else(|| self.evict_for(len, order))?;
        self.note_use(piece.segment);
        Some(piece)
    }

    /// Reserves ranges for one replica where there is room anyway, in this order: nothing is evicted, and no segment comes
    /// to hold more than its high watermark, above which it would evict. One range if a segment has it.
    pub(crate) fn place_whole(&mut self, len: u64, order: &[u32]) -> Option<Pieces> {
        for &slot in order {
            let Some(piece) = self.reserve(slot, len) else { continue };
            if !self.is_above_watermark(slot) {
                return Some(smallvec![piece]);
            }
            self.unreserve(&[piece]);
        }
        let pieces = self.scatter(len, order, limits::MAX_STRIPES as u64, false)?;
        if pieces.iter().any(|piece| self.is_above_watermark(piece.segment)) {
            self.unreserve(&pieces);
            return None;
        }
        Some(pieces)
    }

    /// Reserves one range on the first of the segments that has a free one and stays below the high watermark with it.
    pub(crate) fn place_without_eviction(&mut self, len: u64, order: &[u32]) -> Option<Piece> {
        let most_used = self.config.eviction_high_watermark_ratio;
        let roomy = |slot: &&u32| self.has_free_room(**slot, len, most_used);
        let roomy: Vec<u32> = order.iter().filter(roomy).copied().collect();
        roomy.into_iter().find_map(|segment| self.reserve(segment, len))
    }

    fn place_replica(
        &mut self,
        len: u64,
        preferred: &[u32],
        avoided: &[u32],
        first: bool,
    ) -> Option<Pieces> {
        let start = self.rng.below(self.segments.grantable().len());
        let threshold = self.config.stripe_threshold_bytes;
        let striped = threshold > 0 && len > threshold;
        if !striped && preferred.is_empty() && self.config.strategy == Strategy::Random {
            // The common case, without a list of candidates.
            if let Some(piece) = self.first_fit(len, start, avoided) {
                return Some(smallvec![piece]);
            }
        }
        let mut order = self.probe_order(preferred, avoided, start);
        if striped && order.len() > 1 {
            let width = order.len().min(limits::MAX_STRIPES).min(len.div_ceil(threshold) as usize);
            if let Some(pieces) = self.stripe_evenly(len, &order[..width]) {
                return Some(pieces);
            }
        }
        if let Some(piece) = order.iter().find_map(|&segment| self.reserve(segment, len)) {
            return Some(smallvec![piece]);
        }
        if let Some(pieces) = self.scatter(len, &order, EASY_PIECES, false) {
            return Some(pieces);
        }
        if preferred.is_empty() {
            self.put_least_first(&mut order);
        }
        if let Some(piece) = self.evict_for(len, &order) {
            return Some(smallvec![piece]);
        }
        // Only for its first replica is an object worth clearing whole segments.
        let capacity = |slot: &u32| self.segments[*slot].allocator.capacity();
        let fits = order.iter().map(capacity).sum::<u64>() >= len;
        if first && fits {
            self.scatter(len, &order, limits::MAX_STRIPES as u64, true)
        } else {
            None
        }
    }

    fn first_fit(&mut self, len: u64, start: usize, avoided: &[u32]) -> Option<Piece> {
        let count = self.segments.grantable().len();
        for place in start..start + count.min(QUICK_PROBES) {
            let slot = self.segments.grantable()[place % count];
            if !avoided.contains(&slot)
                && let Some(piece) = self.reserve(slot, len)
            {
                return Some(piece);
            }
        }
        None
    }

    /// The slots to try, best first; those that are not preferred from the place `start` of the list on.
    fn probe_order(&mut self, preferred: &[u32], avoided: &[u32], start: usize) -> Vec<u32> {
        let usable = |slot: &u32| !avoided.contains(slot) && self.segments[*slot].takes_puts();
        let mut order: Vec<u32> = preferred.iter().copied().filter(usable).collect();
        let grantable = self.segments.grantable();
        let first = order.len();
        let turned = grantable[start..].iter().chain(&grantable[..start]).copied();
        order.extend(turned.filter(usable).filter(|slot| !preferred.contains(slot)));
        if self.config.strategy == Strategy::FreeRatioFirst {
            let sample = first..order.len().min(first + SAMPLE);
            order[sample].sort_by_key(|&slot| self.used_permille(slot));
        }
        order
    }

    pub(crate) fn used_permille(&self, slot: u32) -> u64 {
        let allocator = &self.segments[slot].allocator;
        (u128::from(allocator.used()) * 1000 / u128::from(allocator.capacity().max(1))) as u64
    }

    fn reserve(&mut self, segment: u32, len: u64) -> Option<Piece> {
        let allocation = self.segments[segment].allocator.alloc(len)?;
        Some(Piece { segment, handle: allocation.handle, len })
    }

    pub(crate) fn unreserve(&mut self, pieces: &[Piece]) {
        for piece in pieces {
            self.segments[piece.segment].allocator.free(piece.handle);
        }
    }

    /// Evicts until one segment has a range of `len` bytes.
    fn evict_for(&mut self, len: u64, order: &[u32]) -> Option<Piece> {
        for bound in [len.saturating_mul(PATIENCE), u64::MAX] {
            for &slot in order {
                if self.segments[slot].allocator.capacity() < len {
                    continue;
                }
                let mut freed = 0;
                while freed < bound {
                    let Some(bytes) = self.evict_one(slot, true) else { break };
                    freed += bytes;
                    if let Some(piece) = self.reserve(slot, len) {
                        return Some(piece);
                    }
                }
            }
        }
        None
    }

    /// Equal stripes, one on each of the segments.
    fn stripe_evenly(&mut self, len: u64, order: &[u32]) -> Option<Pieces> {
        let stripe = len.div_ceil(order.len() as u64).max(limits::MIN_STRIPE_BYTES);
        let mut pieces = Pieces::with_capacity(order.len());
        let mut left = len;
        for &slot in order {
            let take = stripe.min(left);
            if take == 0 {
                break;
            }
            let piece = self.reserve(slot, take).or_else(|| self.evict_for(take, &[slot]));
            let Some(piece) = piece else {
                self.unreserve(&pieces);
                return None;
            };
            pieces.push(piece);
            left -= take;
        }
        Some(pieces)
    }

    /// Ranges wherever there are some, at most about `most` of them: for an object for which no segment has a range that
    /// large. With `evict`, others make room.
    fn scatter(&mut self, len: u64, order: &[u32], most: u64, evict: bool) -> Option<Pieces> {
        if len < 2 * limits::MIN_STRIPE_BYTES {
            return None;
        }
        let least = limits::MIN_STRIPE_BYTES.max(len / most);
        let mut pieces = Pieces::new();
        let mut left = len;
        for &slot in order {
            while left > 0 && pieces.len() < limits::MAX_STRIPES {
                if evict {
                    self.evict_until(slot, left);
                }
                let take = left.min(self.segments[slot].allocator.largest_free());
                if take < least.min(left) {
                    break;
                }
                let Some(piece) = self.reserve(slot, take) else { break };
                pieces.push(piece);
                left -= take;
            }
        }
        if left > 0 {
            self.unreserve(&pieces);
            return None;
        }
        Some(pieces)
    }

    /// Evicts from one segment until it has a free range of `len` bytes, or of its whole self, or nothing more is
    /// likely to come of it.
    fn evict_until(&mut self, slot: u32, len: u64) {
        let goal = len.min(self.segments[slot].allocator.capacity());
        let mut freed = 0;
        while self.segments[slot].allocator.largest_free() < goal
            && freed < goal.saturating_mul(PATIENCE)
        {
            match self.evict_one(slot, true) {
                Some(bytes) => freed += bytes,
                None => return,
            }
        }
    }
}

/// The first [`MAX_NAMED`] different slots, in order.
fn distinct(slots: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut seen = Vec::new();
    for slot in slots {
        if seen.len() < MAX_NAMED && !seen.contains(&slot) {
            seen.push(slot);
        }
    }
    seen
}
