//! Objects in several ranges: stripes of equal length, and ranges wherever there is room.

use std::cmp::Reverse;

use mooncake_alloc::class_of;
use mooncake_types::limits;

use super::place::MOST_EVICTED;
use super::route::Route;
use crate::Meta;
use crate::eviction::{WantedWindow, Window};
use crate::segments::Pieces;
use crate::segments::{Cursor, Room, Segment};

/// Most segments on which ranges are evicted together for one object.
const MOST_CLEARED: usize = limits::MAX_STRIPES;

impl Meta {
    /// Reserves stripes of equal length, one on each of the segments.
    pub(super) fn stripe_evenly(&mut self, len: u64, order: &[u32]) -> Option<Pieces> {
        if order.len() < 2 {
            return None;
        }
        let stripe = len.div_ceil(order.len() as u64).max(limits::MIN_STRIPE_BYTES);
        let mut pieces = Pieces::with_capacity(order.len());
        let mut windows: Vec<(usize, Window)> = Vec::new();
        let mut left = len;
        for &slot in order.iter().take(len.div_ceil(stripe) as usize) {
            let take = stripe.min(left);
            left -= take;
            match self.reserve(slot, take) {
                Some(piece) => pieces.push(piece),
                None => match self.plan_stripe(slot, take) {
                    Some(window) => windows.push((pieces.len() + windows.len(), window)),
                    None => {
                        self.unreserve(&pieces);
                        return None;
                    }
                },
            }
        }
        let planned: Vec<Window> = windows.iter().map(|(_, window)| window.clone()).collect();
        if !self.evict_windows(&planned) {
            self.unreserve(&pieces);
            return None;
        }
        for (place, window) in windows {
            let take = stripe.min(len - stripe * place as u64);
            let Some(piece) = self.reserve(window.slot, take) else {
                self.unreserve(&pieces);
                return None;
            };
            pieces.insert(place, piece);
        }
        Some(pieces)
    }

    /// Plans what to evict for a stripe. There is no plan for slabs, where the room that an eviction makes is not
    /// known before.
    fn plan_stripe(&mut self, slot: u32, len: u64) -> Option<Window> {
        let can_tell = self.segments[slot].allocator.joins_neighbours();
        let most_bytes = len.saturating_mul(MOST_EVICTED);
        let window = can_tell.then(|| self.plan_range(slot, len, most_bytes)).flatten();
        window.filter(|window| window.bytes <= most_bytes)
    }

    /// Reserves free ranges on any segments, at most about `most` of them, for an object for which no segment has one
    /// free range.
    pub(crate) fn scatter(&mut self, len: u64, route: &Route, most: u64) -> Option<Pieces> {
        let least = limits::MIN_STRIPE_BYTES.max(len / most);
        let slots = self.roomy_slots(len, route, class_of(least));
        self.scatter_over(len, slots.into_iter(), most, |_| u64::MAX)
    }

    /// The first segments of a route that may have free ranges of a size class. At most as many as an object may have
    /// ranges.
    fn roomy_slots(&mut self, len: u64, route: &Route, class: u32) -> Vec<u32> {
        let mut slots = Vec::new();
        if len < 2 * limits::MIN_STRIPE_BYTES {
            return slots;
        }
        slots.extend(&route.preferred);
        let mut cursor = Cursor::new(route.start);
        while slots.len() < limits::MAX_STRIPES {
            let Some(slot) = self.next_of(route, &mut cursor, |room| room.class >= class) else {
                break;
            };
            slots.push(slot);
        }
        slots
    }

    /// Reserves free ranges on these segments, at most about `most` of them, and no more bytes on one than `bound` says.
    pub(super) fn scatter_over(
        &mut self,
        len: u64,
        slots: impl Iterator<Item = u32>,
        most: u64,
        bound: impl Fn(&Segment) -> u64,
    ) -> Option<Pieces> {
        if len < 2 * limits::MIN_STRIPE_BYTES {
            return None;
        }
        let least = limits::MIN_STRIPE_BYTES.max(len / most);
        let mut pieces = Pieces::new();
        let left = self.reserve_free((len, least), slots, &mut pieces, bound);
        if left > 0 {
            self.unreserve(&pieces);
            return None;
        }
        Some(pieces)
    }

    /// Reserves free ranges until there are enough. Each but the last has at least the length `least`. Gives the
    /// bytes that are still missing.
    fn reserve_free(
        &mut self,
        (len, least): (u64, u64),
        slots: impl Iterator<Item = u32>,
        pieces: &mut Pieces,
        bound: impl Fn(&Segment) -> u64,
    ) -> u64 {
        let mut left = len;
        for slot in slots {
            while left > 0 && pieces.len() < limits::MAX_STRIPES {
                let segment = &self.segments[slot];
                let (free, bound) = (segment.allocator.largest_free(), bound(segment));
                let take = left.min(free).min(bound);
                if take < least.min(left) {
                    break;
                }
                let Some(piece) = self.reserve(slot, take) else { break };
                pieces.push(piece);
                left -= take;
                if bound < free {
                    break;
                }
            }
        }
        left
    }

    /// Reserves ranges for an object for which no segment can make a single one. Takes free ranges, and evicts for
    /// the rest. Tries it with long free ranges only; if there are too few, with shorter ones too.
    pub(super) fn clear_for(&mut self, len: u64, route: &Route) -> Option<Pieces> {
        let least = limits::MIN_STRIPE_BYTES.max(len / limits::MAX_STRIPES as u64);
        let evicted = self.counters.evicted_bytes;
        for free in [least.max(len / 8), least] {
            if self.counters.evicted_bytes > evicted {
                // The freed bytes were not found again, and they have used up the price.
                break;
            }
            let mut pieces = Pieces::new();
            let slots = self.roomy_slots(len, route, class_of(free));
            let left = self.reserve_free((len, free), slots.into_iter(), &mut pieces, |_| u64::MAX);
            if left == 0 || self.clear_rest((len, left), least, route, &mut pieces) {
                return Some(pieces);
            }
            self.unreserve(&pieces);
        }
        None
    }

    /// Evicts to make room for the rest of an object, and reserves that. If false, nothing was evicted, or the freed
    /// room was not found again.
    fn clear_rest(
        &mut self,
        (len, left): (u64, u64),
        least: u64,
        route: &Route,
        pieces: &mut Pieces,
    ) -> bool {
        let most = limits::MAX_STRIPES - pieces.len();
        let Some(windows) = self.plan_windows((len, left), least, route, most) else {
            return false;
        };
        if !self.evict_windows(&windows) {
            return false;
        }
        let mut left = left;
        for window in windows {
            let take = left.min(window.len);
            let Some(piece) = self.reserve(window.slot, take) else { return false };
            pieces.push(piece);
            left -= take;
        }
        true
    }

    /// Plans what to evict for the rest of an object, in at most `most` windows. No two of them touch. The longest is
    /// first: otherwise a shorter range might be cut from its place.
    fn plan_windows(
        &mut self,
        (len, rest): (u64, u64),
        least: u64,
        route: &Route,
        most: usize,
    ) -> Option<Vec<Window>> {
        let now = self.now;
        let can_evict = |room: &Room| room.evictable_from <= now;
        let mut cursor = Cursor::new(route.start);
        let mut preferred = route.preferred.iter().copied();
        let (mut windows, mut left) = (Vec::new(), rest);
        let mut most_bytes = len.saturating_mul(MOST_EVICTED);
        let mut looked_at = 0;
        while looked_at < MOST_CLEARED && self.effort.is_left_for_replica() {
            let next = preferred.next();
            let slot = match next {
                Some(slot) => slot,
                None => self.next_of(route, &mut cursor, can_evict)?,
            };
            if !self.segments[slot].allocator.joins_neighbours() {
                self.effort.take(1);
                continue;
            }
            if self.next_victim(slot, self.config.allow_evict_soft_pinned).is_none() {
                self.note_barren(slot);
                continue;
            }
            looked_at += 1;
            while windows.len() < most {
                let least = least.min(left);
                let wanted = WantedWindow { len: left, least, most_bytes, taken: &windows };
                let Some(window) = self.find_window(slot, wanted) else { break };
                most_bytes -= window.bytes;
                left -= left.min(window.len);
                window.join(&mut windows);
                if left == 0 {
                    return Some(longest_of(windows, rest));
                }
            }
        }
        None
    }
}

/// The longest windows that hold `bytes` together, the longest first.
fn longest_of(mut windows: Vec<Window>, bytes: u64) -> Vec<Window> {
    windows.sort_unstable_by_key(|window| Reverse(window.len));
    let mut held = 0;
    windows.retain(|window| {
        let is_needed = held < bytes;
        held += window.len;
        is_needed
    });
    windows
}
