//! Where the master's own copies go.

use std::sync::Arc;

use mooncake_types::TaskKind;

use super::create::NewTask;
use super::task::Origin;
use crate::Meta;

/// Segments that are looked at for one copy.
const MOST_LOOKED_AT: usize = 64;

/// How little a segment is wanted: the least first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Standing {
    /// Whether it falls with one that holds a replica: its host, or even its process, is the same.
    shares: u8,
    used_permille: u64,
}

impl Meta {
    /// Has one more replica made of an object, as [`Meta::roomy_segment`] says where. Gives the name of its segment; none
    /// if there is no room, or nothing to read it from.
    pub(crate) fn copy_to_roomy_segment(
        &mut self,
        object: u32,
        most_used: f64,
        origin: Origin,
    ) -> Option<Arc<str>> {
        let (_, assigned) = self.copy_source(object, None)?;
        self.free_replica_numbers(object).next()?;
        let target = self.roomy_segment(object, most_used)?;
        let (kind, source, targets) = (TaskKind::Copy, "", [&*target]);
        let new = NewTask { origin, object, kind, source, targets: &targets, assigned };
        self.submit_task(new);
        Some(target)
    }

    /// The name of a segment for one more replica of an object, if there is one with room that nobody has to be evicted
    /// for, and of which no more than this share is in use then. Other hosts than those that have a replica come first, and
    /// then the emptiest. Some segments are looked at, from a random one on.
    fn roomy_segment(&mut self, object: u32, most_used: f64) -> Option<Arc<str>> {
        let count = self.segments.grantable().len();
        if count == 0 {
            return None;
        }
        let start = self.rng.below(count);
        let places = start..start + count.min(MOST_LOOKED_AT);
        let slots = places.map(|place| self.segments.grantable()[place % count]);
        let has_room = |&slot: &u32| self.has_free_room(slot, self.objects[object].len, most_used);
        let holds_none = |&slot: &u32| self.replicas_on(object, &self.segments[slot].name) == 0;
        let standing = |slot: u32| (self.standing_for(object, slot), slot);
        let best = slots.filter(has_room).filter(holds_none).map(standing).min()?;
        Some(Arc::clone(&self.segments[best.1].name))
    }

    pub(crate) fn has_free_room(&self, slot: u32, len: u64, most_used: f64) -> bool {
        let allocator = &self.segments[slot].allocator;
        let used = allocator.used().saturating_add(len) as f64;
        used <= allocator.capacity() as f64 * most_used && allocator.largest_free() >= len
    }

    fn standing_for(&self, object: u32, slot: u32) -> Standing {
        let segment = &self.segments[slot];
        let shares = |(_, range): (u32, &crate::objects::Range)| {
            let other = &self.segments[range.segment];
            match (other.client == segment.client, host(&other.endpoint) == host(&segment.endpoint))
            {
                (true, _) => 2,
                (false, true) => 1,
                (false, false) => 0,
            }
        };
        let shares = self.ranges_of(object).map(shares).max().unwrap_or(0);
        Standing { shares, used_permille: self.used_permille(slot) }
    }
}

/// The host of an endpoint like `host:port`.
fn host(endpoint: &str) -> &str {
    endpoint.rsplit_once(':').map_or(endpoint, |(host, _)| host)
}
