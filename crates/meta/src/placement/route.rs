//! The segments to which one replica may go, and their order.
//!
//! 1. Segments that the caller names.
//! 2. Near segments, for the first replica: on the host of the writer (`local_first`), or where the first object of
//!    the batch went.
//! 3. All other segments, from a place on that differs for each replica. Segments that share a failure domain with
//!    another replica of the object come last: first those of the same zone, then of the same rack, then of the same
//!    host.

use mooncake_types::{ClientId, ReplicateConfig, limits};
use smallvec::SmallVec;

use crate::Meta;
use crate::config::Strategy;
use crate::segments::{Cursor, Piece, Pieces, Room};

/// Most preferred or excluded segments that one put can name. Further ones are ignored.
const MAX_NAMED: usize = 64;
/// Most segments that `local_first` tries in their order, before all others.
const MAX_NEAR: usize = 16;
/// Most places that are drawn to find one outside the failure domains of other replicas.
const MAX_DRAWS: usize = 64;

/// What a put asks of placement.
pub(crate) struct Wish {
    pub(crate) replicas: usize,
    /// Slots to try first, in order.
    preferred: Vec<u32>,
    /// Slots to try next, for the first replica only.
    near: Vec<u32>,
    /// Slots that must not be used, such as those on which the writer failed. Sorted.
    pub(super) avoided: Vec<u32>,
}

impl Wish {
    /// A wish for one replica, on one of the `preferred` slots if they have room, and on none of the `avoided` ones,
    /// which are sorted.
    pub(super) fn one(preferred: Vec<u32>, avoided: Vec<u32>) -> Self {
        Self { replicas: 1, preferred, near: Vec::new(), avoided }
    }

    /// Prefers this slot for the first replica of the next object, after the segments that the caller names.
    pub(crate) fn follow(&mut self, slot: u32) {
        self.near.clear();
        self.near.push(slot);
    }
}

/// The segments that one replica may go to.
pub(crate) struct Route {
    /// Segments that come first, in order.
    pub(super) preferred: Vec<u32>,
    /// Segments that the walk over all others skips: those that must not be used, and the preferred ones. Sorted.
    skipped: Vec<u32>,
    /// The place at which the walk over all others begins.
    pub(super) start: usize,
    /// Whether new segments may be held back: see
    /// [`Segments::is_held_back`](crate::segments::Segments::is_held_back).
    holds_back: bool,
    /// Failure domains that the walk skips, because they have another replica of the object.
    domains: SmallVec<[PassedDomain; 4]>,
}

/// A failure domain that has a replica of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PassedDomain {
    /// 0: a host, 1: the next wider domain, and so on.
    level: usize,
    id: u32,
}

impl Route {
    /// Opens the route to further segments, for a replica that found no room; false if there are none. First it opens
    /// new segments that were held back. Then it opens the widest failure domains that have other replicas.
    pub(super) fn widen(&mut self) -> bool {
        if std::mem::take(&mut self.holds_back) {
            return true;
        }
        let Some(widest) = self.domains.iter().map(|domain| domain.level).max() else {
            return false;
        };
        self.domains.retain(|domain| domain.level < widest);
        true
    }
}

impl Meta {
    pub(crate) fn wish(&self, from: ClientId, config: &ReplicateConfig<'_>) -> Wish {
        let preferred = config.preferred_segments.iter().take(MAX_NAMED);
        let preferred = preferred.flat_map(|name| self.segments.named(name)).copied();
        let avoided = config.excluded_segments.iter().take(MAX_NAMED);
        let avoided = avoided.filter_map(|&id| self.segments.find(id));
        let mut avoided = distinct(avoided);
        avoided.sort_unstable();
        let near = match self.config.strategy {
            Strategy::LocalFirst => self.near(from),
            Strategy::Random | Strategy::FreeRatioFirst => Vec::new(),
        };
        Wish {
            replicas: config.replica_num as usize,
            preferred: distinct(preferred),
            near,
            avoided,
        }
    }

    /// Segments that take puts: first those on the host of a client, then those on the hosts that follow by name.
    /// None if the client lends no segment.
    fn near(&self, client: ClientId) -> Vec<u32> {
        let Some(&own) = self.segments.of_client(client).first() else { return Vec::new() };
        let slots = self.segments.nearest_to(&self.segments[own].host);
        slots.filter(|&slot| self.segments[slot].takes_puts()).take(MAX_NEAR).collect()
    }

    /// The place at which the walk for the next replica begins.
    pub(super) fn start_of_route(&mut self) -> usize {
        match self.config.strategy {
            Strategy::FreeRatioFirst => self.segments.next_turn(),
            Strategy::Random | Strategy::LocalFirst => {
                self.effort.next_start(self.segments.grantable().len())
            }
        }
    }

    /// The route of a further replica of an object that has the replicas `placed`. `start` is the place at which its
    /// walk begins.
    pub(super) fn route(
        &mut self,
        wish: &Wish,
        avoided: &[u32],
        placed: &[Pieces],
        start: usize,
    ) -> Route {
        let near: &[u32] = if placed.is_empty() { &wish.near } else { &[] };
        let is_usable =
            |slot: &u32| avoided.binary_search(slot).is_err() && self.segments[*slot].takes_puts();
        let first = wish.preferred.iter().chain(near).copied();
        let preferred: Vec<u32> = first.filter(is_usable).collect();
        let mut skipped = avoided.to_vec();
        if !preferred.is_empty() {
            skipped.extend(&preferred);
            skipped.sort_unstable();
        }
        let domains = self.domains_of(placed.iter().flatten().map(|piece| piece.segment));
        let mut route =
            Route { preferred, skipped, start, holds_back: self.segments.is_ramping(), domains };
        self.start_outside(&mut route);
        route
    }

    /// The route of one more replica of an object that has replicas on the slots `held`, which are sorted. It begins
    /// anywhere. None if no segment takes puts.
    pub(super) fn route_beside(&mut self, held: &[u32]) -> Option<Route> {
        let count = self.segments.grantable().len();
        let start = (count > 0).then(|| self.chance.place(count))?;
        let domains = self.domains_of(held.iter().copied());
        let (preferred, skipped) = (Vec::new(), held.to_vec());
        let mut route = Route { preferred, skipped, start, holds_back: false, domains };
        self.start_outside(&mut route);
        Some(route)
    }

    /// The failure domains of the replicas on these slots. Leaves out a level if no segment that takes puts lies outside the
    /// domains of that level.
    fn domains_of(&self, slots: impl Iterator<Item = u32>) -> SmallVec<[PassedDomain; 4]> {
        let mut domains: SmallVec<[PassedDomain; 4]> = SmallVec::new();
        for slot in slots {
            for (level, &id) in self.segments[slot].domains.iter().enumerate() {
                let domain = PassedDomain { level, id };
                if !domains.contains(&domain) {
                    domains.push(domain);
                }
            }
        }
        if domains.is_empty() {
            return domains;
        }
        for level in 0..=limits::MAX_DOMAINS {
            let as_wide = domains.iter().filter(|domain| domain.level == level);
            if !self.segments.are_some_outside(as_wide.map(|domain| domain.id)) {
                domains.retain(|domain| domain.level != level);
            }
        }
        domains
    }

    /// Has a route that skips failure domains begin at a random place outside them. The segments of a rack often have
    /// neighbouring places. Otherwise the segment that follows them would get every replica that skips the rack.
    fn start_outside(&mut self, route: &mut Route) {
        if route.domains.is_empty() {
            return;
        }
        let count = self.segments.grantable().len();
        for _ in 0..MAX_DRAWS {
            route.start = self.chance.place(count);
            if !self.is_in(&route.domains, self.segments.grantable()[route.start]) {
                return;
            }
        }
    }

    fn is_in(&self, domains: &[PassedDomain], slot: u32) -> bool {
        let own = &self.segments[slot].domains;
        domains.iter().any(|domain| own.contains(&domain.id))
    }

    /// Whether a segment is neither avoided nor preferred on its route.
    fn is_on(&self, route: &Route, slot: u32) -> bool {
        route.skipped.is_empty() || route.skipped.binary_search(&slot).is_err()
    }

    /// Whether a route may use a segment before it is [widened](Route::widen): the segment is not held back, and
    /// shares no failure domain with another replica.
    fn is_open(&self, route: &Route, slot: u32) -> bool {
        !(route.holds_back && self.segments.is_held_back(slot, route.start))
            && (route.domains.is_empty() || !self.is_in(&route.domains, slot))
    }

    /// The next segment of a route that is not preferred and whose room is `wanted`. Also none if the walk passed
    /// over very many segments that have the room but are not open. Then the caller must widen the route, or evict.
    pub(crate) fn next_of(
        &mut self,
        route: &Route,
        cursor: &mut Cursor,
        wanted: impl Fn(&Room) -> bool,
    ) -> Option<u32> {
        loop {
            let slot = self.segments.next_with_room(cursor, &wanted)?;
            if !self.is_on(route, slot) {
                continue;
            }
            if self.is_open(route, slot) {
                return Some(slot);
            }
            if !cursor.pass_over() {
                return None;
            }
        }
    }

    /// The first segments of a route, whatever room they have.
    pub(super) fn first_of(&mut self, route: &Route, count: usize) -> Vec<u32> {
        let mut slots: Vec<u32> = route.preferred.iter().copied().take(count).collect();
        let mut cursor = Cursor::new(route.start);
        while slots.len() < count {
            let Some(slot) = self.next_of(route, &mut cursor, |room| room.capacity > 0) else {
                break;
            };
            slots.push(slot);
        }
        slots
    }

    /// Under `free_ratio_first`: reserves a range on the emptier of two segments, or else on the other. The first
    /// segment has its turn. The second is drawn in proportion to its length, so that large segments fill up as fast
    /// as small ones.
    pub(super) fn reserve_emptier(&mut self, len: u64, route: &Route) -> Option<Piece> {
        if self.config.strategy != Strategy::FreeRatioFirst {
            return None;
        }
        let first = self.next_of(route, &mut Cursor::new(route.start), |room| room.capacity > 0)?;
        let drawn = self.segments.by_share(self.chance.bits());
        let is_usable =
            |&slot: &u32| slot != first && self.is_on(route, slot) && self.is_open(route, slot);
        let second = drawn.filter(is_usable);
        let mut pair = [Some(first), second];
        if second.is_some_and(|it| self.segments[it].is_emptier_than(&self.segments[first])) {
            pair.reverse();
        }
        pair.into_iter().flatten().find_map(|slot| self.reserve(slot, len))
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
