use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mooncake_types::mutation::{Rule, is_broken};
use mooncake_types::{Epoch, Tick, limits};

use super::route::Route;

/// Routes that were looked up and may be used again, for as long as their leases last.
///
/// A route says where a version lies, not that it is still there. A read by a cached route is right all the same:
///
/// - The node refuses a version that is not in its ledger.
/// - A client that removes or replaces an object first has its nodes drop it, if there may be leases on it.
/// - A new leader that cannot reach a node waits until all routes of the previous leader have ended. A leader says
///   with each pong how long its routes may be used ([`RouteCache::prolong`]).
///
/// Routes lie in two generations, each with half of the room. A route that is used moves to the younger generation.
/// When that is full, the older one is forgotten.
#[derive(Debug)]
pub struct RouteCache {
    limits: CacheLimits,
    state: Mutex<CachedRoutes>,
}

/// How much a [`RouteCache`] may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheLimits {
    /// Most routes; none are kept if it is zero.
    pub entries: usize,
    /// Most memory for keys and routes, approximately, in bytes.
    pub bytes: usize,
}

#[derive(Debug, Default)]
struct CachedRoutes {
    young: Generation,
    old: Generation,
    /// The epoch of the leader that named the routes.
    epoch: Epoch,
    /// From this moment on, no get may begin with any of them.
    end: Tick,
    /// Keys whose leases are due for renewal, each with its uses since its lookup or its last renewal.
    due: Vec<(Box<str>, u32)>,
}

#[derive(Debug, Default)]
struct Generation {
    routes: HashMap<Box<str>, CachedRoute>,
    bytes: usize,
}

#[derive(Debug)]
struct CachedRoute {
    route: Arc<Route>,
    /// From this moment on, no get may begin with it.
    until: Tick,
    /// From this moment on, the next use makes the key due for renewal; absent once it is due.
    renew_at: Option<Tick>,
    /// Uses that were not reported to the master.
    uses: u32,
}

impl CacheLimits {
    /// Keeps no routes.
    pub const NONE: Self = Self { entries: 0, bytes: 0 };
}

impl Default for CacheLimits {
    fn default() -> Self {
        Self { entries: 64 << 10, bytes: 64 << 20 }
    }
}

impl RouteCache {
    /// An empty cache.
    #[must_use]
    pub fn new(limits: CacheLimits) -> Self {
        Self { limits, state: Mutex::default() }
    }

    /// Whether it keeps anything.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.limits.entries > 0
    }

    /// The routes of these keys that a get may begin with now, by position, and whether [`RouteCache::take_due`] has
    /// any keys. Forgets routes of leaders older than `epoch`.
    pub fn find<'k>(
        &self,
        keys: impl Iterator<Item = &'k str>,
        now: Tick,
        epoch: Epoch,
    ) -> (Vec<Option<Arc<Route>>>, bool) {
        let mut state = self.lock();
        let forgotten = state.see(epoch);
        let half = self.half();
        let found = keys.map(|key| state.find(key, now, half)).collect();
        let is_due = !state.due.is_empty();
        drop(state);
        drop(forgotten);
        (found, is_due)
    }

    /// Keeps routes that a leader of `epoch` or later named, under their keys. Does nothing if the cache knows a
    /// newer leader.
    pub fn keep<'k>(
        &self,
        routes: impl Iterator<Item = (&'k str, Arc<Route>)>,
        now: Tick,
        epoch: Epoch,
    ) {
        if !self.is_on() {
            return;
        }
        let half = self.half();
        let mut forgotten = Vec::new();
        let mut state = self.lock();
        if epoch < state.epoch {
            return;
        }
        let outdated = state.see(epoch);
        for (key, route) in routes {
            let route = route.compact().map_or(route, Arc::new);
            let Some(entry) = CachedRoute::new(route, now) else { continue };
            let old = state.old.take(key).map(|(_, entry)| entry);
            let before = state.young.insert(key.into(), entry).or(old);
            if let Some(uses) = before.map(|entry| entry.uses).filter(|&uses| uses > 0) {
                state.young.count(key, uses);
            }
            forgotten.extend(state.grow_old(half));
        }
        drop(state);
        // Freed outside the lock, because there may be many.
        drop((forgotten, outdated));
    }

    /// Lets routes of the leader of `epoch` be used until `end`. Never shortens that time.
    pub fn prolong(&self, epoch: Epoch, end: Tick) {
        let mut state = self.lock();
        let forgotten = state.see(epoch);
        if epoch == state.epoch {
            state.end = state.end.max(end);
        }
        drop(state);
        drop(forgotten);
    }

    /// The epoch and the moment that [`RouteCache::prolong`] was told last.
    #[must_use]
    pub fn term(&self) -> (Epoch, Tick) {
        let state = self.lock();
        (state.epoch, state.end)
    }

    /// Forgets the routes of these keys.
    pub fn forget<'k>(&self, keys: impl Iterator<Item = &'k str>) {
        if !self.is_on() {
            return;
        }
        let mut state = self.lock();
        for key in keys {
            state.young.remove(key);
            state.old.remove(key);
        }
    }

    /// Forgets all routes.
    pub fn clear(&self) {
        let state = {
            let mut state = self.lock();
            let CachedRoutes { epoch, end, .. } = *state;
            std::mem::replace(&mut *state, CachedRoutes { epoch, end, ..CachedRoutes::default() })
        };
        drop(state);
    }

    /// Takes the keys that were used after half of their lease, each with its uses since its lookup or the last call.
    /// Without this report, objects read only by cached routes would look unused to the master. Returns no more keys
    /// than fit one request.
    pub fn take_due(&self) -> Vec<(Box<str>, u32)> {
        std::mem::take(&mut self.lock().due)
    }

    /// How many routes it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        let state = self.lock();
        state.young.routes.len() + state.old.routes.len()
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn half(&self) -> CacheLimits {
        let CacheLimits { entries, bytes } = self.limits;
        CacheLimits { entries: entries.div_ceil(2), bytes: bytes / 2 }
    }

    fn lock(&self) -> MutexGuard<'_, CachedRoutes> {
        // Every entry is whole, even if a thread panicked while it held the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CachedRoutes {
    /// Forgets the routes of older leaders, and returns them.
    fn see(&mut self, epoch: Epoch) -> Option<CachedRoutes> {
        let is_newer = self.epoch < epoch;
        is_newer.then(|| std::mem::replace(self, CachedRoutes { epoch, ..CachedRoutes::default() }))
    }

    fn find(&mut self, key: &str, now: Tick, half: CacheLimits) -> Option<Arc<Route>> {
        if now >= self.end && !is_broken(Rule::RoutesEndWithTheirLeader) {
            return None;
        }
        if !self.young.routes.contains_key(key)
            && let Some((key, entry)) = self.old.take(key)
            && now < entry.until
        {
            self.young.insert(key, entry);
            // Freed under the lock: routes that were not used for a whole generation, and usually few of them.
            drop(self.grow_old(half));
        }
        let entry = self.young.routes.get_mut(key)?;
        if now >= entry.until {
            self.young.remove(key);
            return None;
        }
        let route = Arc::clone(&entry.route);
        entry.uses = entry.uses.saturating_add(1);
        if self.due.len() < limits::MAX_BATCH_KEYS && entry.renew_at.is_some_and(|at| now >= at) {
            entry.renew_at = None;
            self.due.push((key.into(), std::mem::take(&mut entry.uses)));
        }
        Some(route)
    }

    /// Makes the younger generation the older one once it is full, and returns the generation that it replaces.
    fn grow_old(&mut self, half: CacheLimits) -> Option<Generation> {
        if self.young.routes.len() < half.entries && self.young.bytes < half.bytes {
            return None;
        }
        let grown = std::mem::take(&mut self.young);
        Some(std::mem::replace(&mut self.old, grown))
    }
}

impl Generation {
    /// Returns the entry that it replaces.
    fn insert(&mut self, key: Box<str>, entry: CachedRoute) -> Option<CachedRoute> {
        let before = self.take(&key).map(|(_, entry)| entry);
        self.bytes += len_bytes(&key, &entry);
        self.routes.insert(key, entry);
        before
    }

    /// Adds the uses of a route from before it was looked up again.
    fn count(&mut self, key: &str, uses: u32) {
        if let Some(entry) = self.routes.get_mut(key) {
            entry.uses = entry.uses.saturating_add(uses);
        }
    }

    fn take(&mut self, key: &str) -> Option<(Box<str>, CachedRoute)> {
        let (key, entry) = self.routes.remove_entry(key)?;
        self.bytes -= len_bytes(&key, &entry);
        Some((key, entry))
    }

    fn remove(&mut self, key: &str) {
        drop(self.take(key));
    }
}

impl CachedRoute {
    /// An entry for the rest of the route's lease, less a margin for clock drift and for rounding to milliseconds.
    /// `None` if too little is left.
    fn new(route: Arc<Route>, now: Tick) -> Option<Self> {
        let left_ms = route.lease_end().since_ms(now);
        let usable_ms = left_ms.checked_sub(left_ms / 64 + 2).filter(|&ms| ms > 0)?;
        let renew_at = Some(now.after_ms(left_ms / 2));
        Some(Self { route, until: now.after_ms(usable_ms), renew_at, uses: 0 })
    }
}

/// Approximate size of an entry in memory, in bytes.
fn len_bytes(key: &str, entry: &CachedRoute) -> usize {
    size_of::<(Box<str>, CachedRoute)>() + key.len() + entry.route.len_bytes()
}

#[cfg(test)]
mod tests {
    use mooncake_types::{Located, Medium, Placement, SegmentAddress, SegmentId, Version};

    use super::*;

    fn route(counter: u64, lease_end: Tick) -> Arc<Route> {
        let placements =
            vec![Placement { replica: 0, segment: 1, offset: 8, len: 10, ..Placement::default() }];
        let version = Version { epoch: Epoch(1), counter };
        let address = |number: u128| SegmentAddress {
            id: SegmentId(number),
            name: number.to_string().into(),
            endpoint: "e".into(),
            medium: Medium::Memory,
        };
        let segments: Arc<[SegmentAddress]> = vec![address(1), address(2), address(3)].into();
        let located = Located { version, len: 10, placements };
        Arc::new(Route::new(located, &segments, lease_end).expect("it makes sense"))
    }

    /// A cache whose routes their leader allows for a long time.
    fn cache(entries: usize, bytes: usize) -> RouteCache {
        let cache = RouteCache::new(CacheLimits { entries, bytes });
        cache.prolong(Epoch(1), Tick(1_000_000));
        cache
    }

    fn find(cache: &RouteCache, key: &str, now: u64) -> Option<Version> {
        let found = cache.find([key].into_iter(), Tick(now), Epoch(1)).0.remove(0);
        found.map(|route| route.version())
    }

    fn keep(cache: &RouteCache, key: &str, counter: u64, now: u64) {
        let routes = [(key, route(counter, Tick(now + 6_400)))];
        cache.keep(routes.into_iter(), Tick(now), Epoch(1));
    }

    fn version(counter: u64) -> Option<Version> {
        Some(Version { epoch: Epoch(1), counter })
    }

    #[test]
    fn a_route_is_used_until_a_margin_before_the_end_of_its_lease() {
        let cache = cache(10, 1 << 20);
        keep(&cache, "k", 7, 1_000);
        for (now, expected) in [(1_000, version(7)), (7_297, version(7)), (7_298, None), (0, None)]
        {
            assert_eq!(find(&cache, "k", now), expected, "at {now}");
        }
        assert!(cache.is_empty(), "what cannot be used any more is forgotten");
        cache.keep([("k", route(7, Tick(1_002)))].into_iter(), Tick(1_000), Epoch(1));
        assert_eq!(find(&cache, "k", 1_000), None, "too little is left of it");
    }

    #[test]
    fn what_is_forgotten_is_not_found() {
        let cache = cache(10, 1 << 20);
        for key in ["a", "b", "c"] {
            keep(&cache, key, 1, 0);
        }
        cache.forget(["a", "z"].into_iter());
        assert_eq!((find(&cache, "a", 1), find(&cache, "b", 1)), (None, version(1)));
        keep(&cache, "b", 2, 1);
        assert_eq!(find(&cache, "b", 2), version(2), "a newer one takes its place");
        cache.clear();
        assert!(cache.is_empty());
    }

    #[test]
    fn routes_of_an_older_leader_are_forgotten() {
        let cache = cache(10, 1 << 20);
        keep(&cache, "k", 1, 0);
        let found = cache.find(["k"].into_iter(), Tick(1), Epoch(2));
        assert_eq!((found, cache.len()), ((vec![None], false), 0));
        cache.prolong(Epoch(2), Tick(9_000));
        keep(&cache, "k", 1, 2);
        assert!(cache.is_empty(), "it was looked up before");
    }

    #[test]
    fn a_route_is_used_only_while_its_leader_stands_for_it() {
        let cache = RouteCache::new(CacheLimits { entries: 10, bytes: 1 << 20 });
        keep(&cache, "k", 7, 1_000);
        assert_eq!(find(&cache, "k", 1_000), None, "no pong came yet");
        cache.prolong(Epoch(1), Tick(2_000));
        cache.prolong(Epoch(1), Tick(1_500));
        assert_eq!([1_999, 2_000].map(|at| find(&cache, "k", at)), [version(7), None]);
        cache.prolong(Epoch(0), Tick(9_000));
        assert_eq!(find(&cache, "k", 2_000), None, "the pong of an older leader prolongs nothing");
        cache.prolong(Epoch(1), Tick(4_000));
        assert_eq!(find(&cache, "k", 2_000), version(7), "it was kept");
        cache.prolong(Epoch(2), Tick(3_000));
        assert!(cache.is_empty(), "another leads");
        cache.keep([("k", route(7, Tick(9_000)))].into_iter(), Tick(2_000), Epoch(2));
        let found = cache.find(["k"].into_iter(), Tick(3_000), Epoch(2)).0;
        assert_eq!(
            found,
            [None],
            "the pong of the leader before ends the routes that are added later too"
        );
    }

    #[test]
    fn a_cache_without_room_tells_others_how_long_routes_may_be_used() {
        let off = RouteCache::new(CacheLimits::NONE);
        assert_eq!(off.term(), (Epoch(0), Tick(0)));
        off.prolong(Epoch(1), Tick(2_000));
        assert_eq!(off.term(), (Epoch(1), Tick(2_000)));
        let other = RouteCache::new(CacheLimits { entries: 10, bytes: 1 << 20 });
        keep(&other, "k", 7, 1_000);
        let (epoch, end) = off.term();
        other.prolong(epoch, end);
        assert_eq!([1_999, 2_000].map(|at| find(&other, "k", at)), [version(7), None]);
    }

    #[test]
    fn entries_and_bytes_are_bounded_and_what_is_used_stays() {
        let one =
            len_bytes("key 0000", &CachedRoute::new(compacted(), Tick(0)).expect("it is long"));
        for (entries, bytes) in [(100, 1 << 20), (10_000, one * 100)] {
            let cache = cache(entries, bytes);
            keep(&cache, "key used", 0, 0);
            for number in 0..1_000 {
                keep(&cache, &format!("key {number:04}"), number, 0);
                assert!(cache.len() <= 101, "{} entries", cache.len());
                assert_eq!(find(&cache, "key used", 1), version(0), "after {number}");
            }
            assert!(cache.len() >= 50, "{} entries", cache.len());
        }
    }

    fn compacted() -> Arc<Route> {
        Arc::new(route(0, Tick(6_400)).compact().expect("it has segments that it does not need"))
    }

    #[test]
    fn a_route_keeps_only_the_segments_that_it_needs() {
        let compact = compacted();
        assert_eq!(
            compact.replica_starts().collect::<Vec<_>>(),
            route(0, Tick(0)).replica_starts().collect::<Vec<_>>()
        );
        assert_eq!(compact.compact(), None);
    }

    #[test]
    fn a_lease_is_renewed_once_half_of_it_is_over_and_the_route_is_used() {
        let cache = cache(10, 1 << 20);
        keep(&cache, "k", 1, 0);
        keep(&cache, "unused", 1, 0);
        let is_due = |now| cache.find(["k"].into_iter(), Tick(now), Epoch(1)).1;
        assert_eq!([is_due(3_199), is_due(3_200), is_due(3_300)], [false, true, true]);
        assert_eq!(cache.take_due(), [(Box::from("k"), 2)], "once");
        keep(&cache, "k", 1, 3_300);
        assert!(!is_due(3_301));
        assert!(is_due(6_500));
        assert_eq!(cache.take_due(), [(Box::from("k"), 3)], "one before it was renewed, two since");
        keep(&cache, "k", 1, 6_500);
        assert_eq!(find(&cache, "k", 9_000), version(1), "it lasts longer");
    }

    #[test]
    fn a_cache_of_nothing_keeps_nothing() {
        let cache = RouteCache::new(CacheLimits::NONE);
        keep(&cache, "k", 1, 0);
        assert_eq!((find(&cache, "k", 1), cache.is_on()), (None, false));
    }
}
