//! Placement: which ranges of which segments a new object gets.
//!
//! An [index](crate::segments::free_room) names the segments that have room, so a put costs the same however many
//! segments there are. If none has room, evictions are [planned](crate::eviction::window) first. A replica may cost
//! objects of at most four times its length, or the one object (with its group) that is evicted next. Whatever a put
//! evicts makes room for that put: a put that is refused evicts nothing. Slabs are the exception, because an eviction
//! there shows only afterwards which room it made.
//!
//! If [objects sink to disks](crate::tiers) first, a put is told to wait instead.
//!
//! A put may be refused although something could be evicted:
//! - It has looked at [`CANDIDATES`] segments, or at as many ranges as one request [may](crate::effort::Effort).
//! - No neighbouring ranges around the next victims are long enough together at that price.
//! - The slabs that came free have slots of other lengths.
//! - A segment had nothing to evict when it was looked at last, and is passed over for a while.

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

/// Most ranges into which an object is cut only to spare others from eviction.
const EASY_PIECES: u64 = 4;
/// If an object is cut only to spare others, at most this many tenths of its segments are used.
const MOST_USED_TENTHS: u64 = 9;
/// The objects that are evicted for one replica have at most this many times its length together.
pub(crate) const MOST_EVICTED: u64 = 4;
/// Most segments that are tried without success because they may have room. After that only segments are tried that
/// surely have it.
const MISSES: usize = 16;
/// Most segments with evictable ranges on which a put looks for room.
const CANDIDATES: usize = 64;
impl Meta {
    /// Has the processor load the records of the objects that these puts will evict first, if no segment has room.
    pub(crate) fn fetch_victims_ahead(&mut self, puts: &[PutItem<'_>]) {
        let class = puts.iter().map(|put| class_of(put.len)).min().unwrap_or(0);
        let has_room = |room: &Room| room.class > class;
        if self.segments.next_with_room(&mut Cursor::new(0), has_room).is_some() {
            return;
        }
        let slots = self.segments.grantable();
        let next = slots.iter().cycle().skip(self.effort.start()).take(puts.len().min(slots.len()));
        // Takes each step for all victims before the next step, so that the processor waits for many loads at once.
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

    /// Reserves ranges for as many of the wished replicas as there is room for, and evicts if need be. No two
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
            self.segments.note_reserved(piece.segment);
        }
        replicas
    }

    /// Reserves ranges for one more replica of an object, and evicts if need be. Tries these segments first, then all
    /// others. Uses no segment that has a range of the object, whether or not that range can be read.
    pub(crate) fn place_near(&mut self, object: u32, slots: Vec<u32>) -> Option<Pieces> {
        let mut avoided: Vec<u32> = self.ranges_of(object).map(|(_, it)| it.segment).collect();
        avoided.sort_unstable();
        self.place(self.objects[object].len, &Wish::one(slots, avoided)).pop()
    }

    /// Reserves one range on the first of these segments that has one free. If none has, evicts on the first where
    /// that makes room.
    pub(crate) fn place_on(&mut self, len: u64, order: &[u32]) -> Option<Piece> {
        let order = &order[..order.len().min(CANDIDATES)];
        self.effort.begin_replica();
        let free = order.iter().find_map(|&segment| self.reserve(segment, len));
        let clear = |meta: &mut Self| order.iter().find_map(|&slot| meta.evict_on(slot, len));
        let piece = free.or_else(|| clear(self))?;
        self.segments.note_reserved(piece.segment);
        Some(piece)
    }

    /// Reserves one free range on the first segment that stays below the high watermark with it. Evicts nothing.
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
            // Evictions from slabs that made no room have used up the price.
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
        // Whole segments are cleared only for the first replica of an object. While objects sink, the put waits for
        // them.
        match first
            && len >= 2 * limits::MIN_STRIPE_BYTES
            && self.tasks.under_way(Origin::Sink) == 0
        {
            true => self.clear_for(len, route),
            false => None,
        }
    }

    /// The pieces, if their segments have room left beside them; otherwise frees them again. In a full pool an object
    /// in pieces leaves holes on several segments, each too short for the next object. Soon all objects would be in
    /// pieces, so the caller evicts one object instead.
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

    /// Reserves a range on a segment of a route that has one free.
    fn reserve_along(&mut self, len: u64, route: &Route) -> Option<Piece> {
        for &slot in &route.preferred {
            if let Some(piece) = self.reserve(slot, len) {
                return Some(piece);
            }
        }
        if let Some(piece) = self.reserve_emptier(len, route) {
            return Some(piece);
        }
        // A free range of the class of the length itself may be a little too short.
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

    /// Makes room for a range by evictions on one of the segments of a route, and reserves it.
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
        while looked_at < CANDIDATES && self.effort.is_left_for_replica() {
            let next = pair.next();
            let slot = match next {
                Some(slot) => slot,
                None => self.next_of(route, &mut cursor, can_evict)?,
            };
            if let Some(piece) = self.evict_on(slot, len) {
                return Some(piece);
            }
            // The walk does not meet a segment without victims again before it may have some.
            looked_at += usize::from(self.segments[slot].evictable_from <= now);
        }
        None
    }

    /// Makes room for a range by evictions on a segment, and reserves it.
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
            // If the victims sink, the victims after them are chosen ahead.
            let has_more = self.segments[slot].sinking > 0 && self.segments[slot].kept() < kept;
            if piece.is_some() || !has_more {
                return piece;
            }
        }
    }

    /// Evicts from a segment of slabs until a slab has a slot for this length, within the price.
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

    /// Bytes evicted so far, and bytes on a segment that will be.
    fn gone_or_sinking(&self, slot: u32) -> u64 {
        self.counters.evicted_bytes + self.segments[slot].sinking
    }
}
