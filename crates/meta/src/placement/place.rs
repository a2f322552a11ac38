//! Placement: which ranges of which segments a new object gets.
//!
//! An [index](crate::segments::free_room) names the segments that have room, so a put costs the same however many there are. Where none
//! has, what to evict is [planned](crate::eviction::window) first. For each replica that costs objects of at most four times its
//! length, or the one object (with its group) that goes next. What a put evicts makes room for it: a put that is refused
//! evicts nothing. Slabs are the exception: what comes free there shows only then.
//!
//! Where [objects sink to disks](crate::tiers) first, a put is told to wait instead.
//!
//! A put is refused although something could be evicted where
//! - [`CANDIDATES`] segments were looked at, or as many ranges as one request [may](crate::eviction::Effort);
//! - no 64 ranges between what must stay are long enough together, at that price;
//! - the slabs that came free are of other lengths;
//! - a segment had nothing to evict a moment before, and the millisecond is not over.

use std::hint::black_box;

use mooncake_alloc::{Allocator, class_of};
use mooncake_types::{PutItem, limits};
use smallvec::{SmallVec, smallvec};

use super::route::{Route, Wish};
use crate::Meta;
use crate::eviction::CHOICES;
use crate::objects::Range;
use crate::segments::{Cursor, Room};
use crate::segments::{Piece, Pieces};
use crate::tasks::Origin;

/// Most ranges that an object is cut into only to spare others from eviction.
const EASY_PIECES: u64 = 4;
/// Tenths of its segments that are used at most if an object is cut into ranges only to spare others.
const MOST_USED_TENTHS: u64 = 9;
/// Objects of at most this many times its length are evicted for one replica.
pub(crate) const MOST_EVICTED: u64 = 4;
/// Segments of which one may have room, and has none, before only those are asked that are sure to have it.
const MISSES: usize = 16;
/// Segments on which room is looked for among what can be evicted, where something can.
const CANDIDATES: usize = 64;
impl Meta {
    /// Has the processor fetch what these puts will evict first, where no segment has room for them.
    pub(crate) fn fetch_victims_ahead(&mut self, puts: &[PutItem<'_>]) {
        let class = puts.iter().map(|put| class_of(put.len)).min().unwrap_or(0);
        let has_room = |room: &Room| room.class > class;
        if self.segments.next_with_room(&mut Cursor::new(0), has_room).is_some() {
            return;
        }
        let slots = self.segments.grantable();
        let next = slots.iter().cycle().skip(self.effort.start()).take(puts.len().min(slots.len()));
        // One step for all of them after the other: so the processor waits for many at once.
        let mut victims: Vec<(u32, u32)> =
            next.filter_map(|&slot| Some((slot, self.segments[slot].oldest()?))).collect();
        for (slot, id) in &mut victims {
            let Range { object, handle, .. } = self.ranges[*id];
            black_box(self.segments[*slot].fetch_ahead(handle));
            *id = object;
        }
        let keys = victims.iter().map(|&(_, object)| &*self.objects[object].key);
        self.index.fetch_ahead(&self.objects, &self.ranges, keys);
    }

    /// Reserves ranges for as many of the wished replicas as there is room for, evicting where need be. No two
    /// replicas share a segment.
    pub(crate) fn place(&mut self, len: u64, wish: &Wish) -> SmallVec<[Pieces; 1]> {
        let mut avoided = wish.avoided.clone();
        let mut replicas: SmallVec<[Pieces; 1]> = SmallVec::new();
        while replicas.len() < wish.replicas.min(self.segments.grantable().len()) {
            let Some(pieces) = self.place_replica(len, wish, &avoided, &replicas) else {
                break;
            };
            if replicas.len() + 1 < wish.replicas {
                avoided.extend(pieces.iter().map(|piece| piece.segment));
                avoided.sort_unstable();
            }
            replicas.push(pieces);
        }
        for piece in replicas.iter().flatten() {
            self.segments.note_use(piece.segment);
        }
        replicas
    }

    /// Reserves ranges for one more replica of an object, evicting where need be: on one of these segments if they have room, else
    /// anywhere. No segment that holds a part of another replica is used, whether or not that can be read.
    pub(crate) fn place_near(&mut self, object: u32, slots: Vec<u32>) -> Option<Pieces> {
        let mut avoided: Vec<u32> = self.ranges_of(object).map(|(_, it)| it.segment).collect();
        avoided.sort_unstable();
        self.place(self.objects[object].len, &Wish::one(slots, avoided)).pop()
    }

    /// Reserves one range on one of the segments, in their order, evicting where need be.
    pub(crate) fn place_on(&mut self, len: u64, order: &[u32]) -> Option<Piece> {
        let order = &order[..order.len().min(CANDIDATES)];
        self.effort.begin_replica();
        let free = order.iter().find_map(|&segment| self.reserve(segment, len));
        let clear = |meta: &mut Self| order.iter().find_map(|&slot| meta.evict_on(slot, len));
        let piece = free.or_else(|| clear(self))?;
        self.segments.note_use(piece.segment);
        Some(piece)
    }

    /// Reserves ranges for one replica where there is room anyway, in this order: nothing is evicted, and no segment comes
    /// to hold more than its high watermark, above which it would evict. One range if a segment has it.
    pub(crate) fn place_whole(&mut self, len: u64, order: &[u32]) -> Option<Pieces> {
        for &slot in order {
            let Some(piece) = self.reserve(slot, len) else { continue };
            if !self.segments.is_above_watermark(slot) {
                return Some(smallvec![piece]);
            }
            self.unreserve(&[piece]);
        }
        let pieces = self.scatter_over(len, order.iter().copied(), limits::MAX_STRIPES as u64)?;
        if pieces.iter().any(|piece| self.segments.is_above_watermark(piece.segment)) {
            self.unreserve(&pieces);
            return None;
        }
        Some(pieces)
    }

    /// Reserves one range on the first of the segments that has a free one and stays below the high watermark with it.
    pub(crate) fn place_without_eviction(&mut self, len: u64, order: &[u32]) -> Option<Piece> {
        let most_used = self.config.eviction_high_watermark_ratio;
        let roomy = |slot: &&u32| self.segments[**slot].has_free_room(len, most_used);
        let roomy: Vec<u32> = order.iter().filter(roomy).copied().collect();
        roomy.into_iter().find_map(|segment| self.reserve(segment, len))
    }

    fn place_replica(
        &mut self,
        len: u64,
        wish: &Wish,
        avoided: &[u32],
        placed: &[Pieces],
    ) -> Option<Pieces> {
        self.effort.begin_replica();
        let start = self.start_of_route();
        let (is_first, mut route) = (placed.is_empty(), self.route(wish, avoided, placed, start));
        let evicted = self.counters.evicted_bytes;
        loop {
            let pieces = self.place_along(len, &route, is_first);
            // Where slabs came free in vain, the price is paid.
            let is_over = pieces.is_some() || self.counters.evicted_bytes > evicted;
            if is_over || !route.widen() {
                return pieces;
            }
            self.effort.begin_replica();
        }
    }

    fn place_along(&mut self, len: u64, route: &Route, first: bool) -> Option<Pieces> {
        let threshold = self.config.stripe_threshold_bytes;
        if threshold > 0 && len > threshold {
            let width = limits::MAX_STRIPES.min(len.div_ceil(threshold) as usize);
            let order = self.first_of(route, width);
            if let Some(pieces) = self.stripe_evenly(len, &order) {
                return Some(pieces);
            }
        }
        if let Some(piece) = self.reserve_along(len, route) {
            return Some(smallvec![piece]);
        }
        let pieces = self.scatter(len, route, EASY_PIECES);
        if let Some(pieces) = pieces.and_then(|pieces| self.if_roomy(pieces)) {
            return Some(pieces);
        }
        if let Some(piece) = self.evict_along(len, route) {
            return Some(smallvec![piece]);
        }
        if let Some(pieces) = self.scatter(len, route, EASY_PIECES) {
            return Some(pieces);
        }
        // Only for its first replica is an object worth clearing whole segments.
        // Where objects sink it waits for them.
        match first
            && len >= 2 * limits::MIN_STRIPE_BYTES
            && self.tasks.under_way(Origin::Sink) == 0
        {
            true => self.clear_for(len, route),
            false => None,
        }
    }

    /// The pieces, if their segments have room left beside them; else they are free again. In a full pool an object in pieces leaves
    /// holes on several segments, each too short for the next, and soon all objects are in pieces: one is evicted instead.
    fn if_roomy(&mut self, pieces: Pieces) -> Option<Pieces> {
        let mut slots: SmallVec<[u32; EASY_PIECES as usize]> =
            pieces.iter().map(|piece| piece.segment).collect();
        slots.sort_unstable();
        slots.dedup();
        let sum = |of: fn(&Allocator) -> u64| -> u64 {
            slots.iter().map(|&slot| of(&self.segments[slot].allocator)).sum()
        };
        if sum(Allocator::used) <= sum(Allocator::capacity) / 10 * MOST_USED_TENTHS {
            return Some(pieces);
        }
        self.unreserve(&pieces);
        None
    }

    /// Reserves a range on the first segment of a route that has one free.
    fn reserve_along(&mut self, len: u64, route: &Route) -> Option<Piece> {
        for &slot in &route.preferred {
            if let Some(piece) = self.reserve(slot, len) {
                return Some(piece);
            }
        }
        if let Some(piece) = self.reserve_emptier(len, route) {
            return Some(piece);
        }
        // What is free in the class of the length itself may be a little too short.
        let class = class_of(len);
        for least in [class, class + 1] {
            let mut cursor = Cursor::new(route.start);
            for _ in 0..MISSES {
                let Some(slot) = self.next_of(route, &mut cursor, |room| room.class >= least)
                else {
                    break;
                };
                if let Some(piece) = self.reserve(slot, len) {
                    return Some(piece);
                }
            }
        }
        None
    }

    pub(crate) fn reserve(&mut self, segment: u32, len: u64) -> Option<Piece> {
        let handle = self.segments.alloc(segment, len)?;
        Some(Piece { segment, handle, len })
    }

    pub(crate) fn unreserve(&mut self, pieces: &[Piece]) {
        for piece in pieces {
            self.segments.free(piece.segment, piece.handle);
        }
    }

    /// Evicts what makes room for a range on one of the segments of a route, and reserves it.
    fn evict_along(&mut self, len: u64, route: &Route) -> Option<Piece> {
        for &slot in &route.preferred {
            if let Some(piece) = self.evict_on(slot, len) {
                return Some(piece);
            }
        }
        let now = self.now;
        let can_evict = |room: &Room| room.evictable_from <= now && room.capacity >= len;
        let mut cursor = Cursor::new(route.start);
        let mut pair: SmallVec<[u32; CHOICES]> = SmallVec::new();
        while pair.len() < CHOICES {
            let Some(slot) = self.next_of(route, &mut cursor, can_evict) else { break };
            pair.push(slot);
        }
        if route.preferred.is_empty() {
            self.put_least_first(&mut pair);
        }
        let (mut pair, mut looked_at) = (pair.into_iter(), 0);
        while looked_at < CANDIDATES && self.effort.is_left() {
            let next = pair.next();
            let slot = match next {
                Some(slot) => slot,
                None => self.next_of(route, &mut cursor, can_evict)?,
            };
            if let Some(piece) = self.evict_on(slot, len) {
                return Some(piece);
            }
            // One that has nothing to evict is not met again before it may have.
            looked_at += usize::from(self.segments[slot].evictable_from <= now);
        }
        None
    }

    /// Evicts what makes room for a range on a segment, and reserves it.
    fn evict_on(&mut self, slot: u32, len: u64) -> Option<Piece> {
        let most_bytes = len.saturating_mul(MOST_EVICTED);
        if !self.segments[slot].allocator.joins_neighbours() {
            return self.evict_slots(slot, len, most_bytes);
        }
        loop {
            if self.sinks_enough(slot, len) {
                return None;
            }
            let wanted = self.segments[slot].reserved_len(len);
            let window = self.plan_range(slot, wanted, most_bytes)?;
            let kept = self.segments[slot].kept();
            if !self.evict_windows(&[window]) {
                return None;
            }
            let piece = self.reserve(slot, len);
            // Where its victims sink, what follows them is chosen ahead.
            let has_more = self.segments[slot].sinking > 0 && self.segments[slot].kept() < kept;
            if piece.is_some() || !has_more {
                return piece;
            }
        }
    }

    /// Evicts from a segment of slabs until one has a slot for the length, within the price.
    fn evict_slots(&mut self, slot: u32, len: u64, most_bytes: u64) -> Option<Piece> {
        let mut bytes = 0;
        while bytes < most_bytes && !self.sinks_enough(slot, len) && self.effort.take(1) {
            let before = self.gone_or_sinking(slot);
            if self.evict_one(slot, true).is_none() {
                self.note_barren(slot);
                return None;
            }
            bytes += self.gone_or_sinking(slot) - before;
            if let Some(piece) = self.reserve(slot, len) {
                return Some(piece);
            }
        }
        None
    }

    /// Bytes evicted so far, with those of a segment that will be.
    fn gone_or_sinking(&self, slot: u32) -> u64 {
        self.counters.evicted_bytes + self.segments[slot].sinking
    }
}
