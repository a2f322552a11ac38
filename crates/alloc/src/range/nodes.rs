use crate::{Range, growth};

/// The place of the sentinel in the table of live ranges.
pub(crate) const SENTINEL: u32 = 0;

/// Ends every list of holes.
pub(crate) const NIL: u32 = u32::MAX;

/// Most live ranges. There is at most one hole more than live ranges, and links can name 2^31 of each.
pub(crate) const MAX_LIVE: u32 = HOLE - 4;

/// The bit of a link that says that it names a hole.
const HOLE: u32 = 1 << 31;

/// Names a neighbouring range. The link alone says whether that range is live or a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link(u32);

impl Link {
    /// The value of `prev` in a vacant place of the table of live ranges.
    const VACANT: Link = Link(u32::MAX);

    pub(crate) fn live(at: u32) -> Link {
        Link(at)
    }

    pub(crate) fn hole(at: u32) -> Link {
        Link(at | HOLE)
    }

    pub(crate) fn kind(self) -> NodeKind {
        if self.0 & HOLE == 0 { NodeKind::Live(self.0) } else { NodeKind::Hole(self.0 & !HOLE) }
    }

    pub(crate) fn as_hole(self) -> Option<u32> {
        (self.0 & HOLE != 0).then_some(self.0 & !HOLE)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum NodeKind {
    Live(u32),
    Hole(u32),
}

/// A reserved range. It ends where the next range starts, so its length is not stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Live {
    pub(crate) offset: u64,
    /// The range that ends where this one starts.
    pub(crate) prev: Link,
    /// The range that starts where this one ends. In a vacant place, the next vacant place.
    pub(crate) next: Link,
}

/// A free range.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hole {
    pub(crate) range: Range,
    /// The live range that ends where this one starts.
    pub(crate) prev: u32,
    /// The live range that starts where this one ends.
    pub(crate) next: u32,
    /// Neighbours in the list of its size class. In a vacant place, `list_next` is the next vacant place.
    pub(crate) list_prev: u32,
    pub(crate) list_next: u32,
}

// With these sizes, no element crosses a cache line.
const _: () = assert!(size_of::<Live>() == 16 && size_of::<Hole>() == 32);

/// All ranges of an arena. The sentinel is a live range of zero bytes at the end of the arena. It closes the chain of
/// neighbours to a ring, so that every range has two neighbours.
#[derive(Clone, Debug)]
pub(crate) struct Nodes {
    live: Vec<Live>,
    holes: Vec<Hole>,
    vacant_live: u32,
    vacant_hole: u32,
}

impl Nodes {
    /// A table that holds only the sentinel.
    pub(crate) fn new(capacity: u64) -> Nodes {
        let sentinel = Link::live(SENTINEL);
        let sentinel = Live { offset: capacity, prev: sentinel, next: sentinel };
        Nodes { live: vec![sentinel], holes: Vec::new(), vacant_live: NIL, vacant_hole: NIL }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.live.capacity() * size_of::<Live>() + self.holes.capacity() * size_of::<Hole>()
    }

    /// Number of places for live ranges and for holes, including vacant ones.
    pub(crate) fn places(&self) -> (usize, usize) {
        (self.live.len(), self.holes.len())
    }

    /// The live range at `at`, if there is one. The sentinel counts as live.
    pub(crate) fn get(&self, at: u32) -> Option<&Live> {
        self.live.get(at as usize).filter(|live| live.prev != Link::VACANT)
    }

    /// The hole at `at`, if there is one.
    pub(crate) fn get_hole(&self, at: u32) -> Option<&Hole> {
        self.holes.get(at as usize).filter(|hole| hole.range.len > 0)
    }

    pub(crate) fn live(&self, at: u32) -> &Live {
        &self.live[at as usize]
    }

    pub(crate) fn live_mut(&mut self, at: u32) -> &mut Live {
        &mut self.live[at as usize]
    }

    pub(crate) fn hole(&self, at: u32) -> &Hole {
        &self.holes[at as usize]
    }

    pub(crate) fn hole_mut(&mut self, at: u32) -> &mut Hole {
        &mut self.holes[at as usize]
    }

    /// All holes, each with its place.
    pub(crate) fn holes(&self) -> impl Iterator<Item = (u32, &Hole)> {
        (0..).zip(&self.holes).filter(|(_, hole)| hole.range.len > 0)
    }

    /// Where a range starts.
    pub(crate) fn start(&self, link: Link) -> u64 {
        match link.kind() {
            NodeKind::Live(at) => self.live(at).offset,
            NodeKind::Hole(at) => self.hole(at).range.offset,
        }
    }

    /// Inserts a live range between two neighbours, and updates their links. Returns its place.
    pub(crate) fn insert(&mut self, offset: u64, prev: u32, next: Link) -> u32 {
        let live = Live { offset, prev: Link::live(prev), next };
        let mut at = self.vacant_live;
        if at == NIL {
            at = self.live.len() as u32;
            growth::push(&mut self.live, live);
        } else {
            let place = &mut self.live[at as usize];
            self.vacant_live = place.next.0;
            *place = live;
        }
        self.live_mut(prev).next = Link::live(at);
        match next.kind() {
            NodeKind::Live(next) => self.live_mut(next).prev = Link::live(at),
            NodeKind::Hole(next) => self.hole_mut(next).prev = at,
        }
        at
    }

    /// Inserts a hole between its neighbours, and updates their links. Returns its place. The caller must put it into
    /// a list.
    pub(crate) fn insert_hole(&mut self, range: Range, prev: u32, next: u32) -> u32 {
        let hole = Hole { range, prev, next, list_prev: NIL, list_next: NIL };
        let mut at = self.vacant_hole;
        if at == NIL {
            at = self.holes.len() as u32;
            growth::push(&mut self.holes, hole);
        } else {
            let place = &mut self.holes[at as usize];
            self.vacant_hole = place.list_next;
            *place = hole;
        }
        self.live_mut(prev).next = Link::hole(at);
        self.live_mut(next).prev = Link::hole(at);
        at
    }

    /// Makes the place of a live range vacant. The caller must update the links of its neighbours.
    pub(crate) fn vacate(&mut self, at: u32) {
        let next = Link(self.vacant_live);
        self.live[at as usize] = Live { offset: 0, prev: Link::VACANT, next };
        self.vacant_live = at;
    }

    /// Makes the place of a hole vacant. The caller has removed it from its list, and must update the links of its
    /// neighbours.
    pub(crate) fn vacate_hole(&mut self, at: u32) {
        let next = self.vacant_hole;
        let hole = self.hole_mut(at);
        hole.range.len = 0;
        hole.list_next = next;
        self.vacant_hole = at;
    }

    /// Lengths of the two lists of vacant places: for live ranges and for holes. An error if one of the lists is
    /// broken.
    pub(crate) fn count_vacant(&self) -> Result<(usize, usize), String> {
        let live = count(self.vacant_live, self.live.len(), |at| {
            let live = self.live.get(at as usize)?;
            (live.prev == Link::VACANT).then_some(live.next.0)
        });
        let holes = count(self.vacant_hole, self.holes.len(), |at| {
            let hole = self.holes.get(at as usize)?;
            (hole.range.len == 0).then_some(hole.list_next)
        });
        live.zip(holes).ok_or_else(|| "a list of vacant places is broken".to_owned())
    }
}

/// Length of the list that starts at `at`. `None` if it is longer than `limit`, or a member is not vacant.
fn count(mut at: u32, limit: usize, next: impl Fn(u32) -> Option<u32>) -> Option<usize> {
    let mut len = 0;
    while at != NIL {
        at = next(at)?;
        len += 1;
        if len > limit {
            return None;
        }
    }
    Some(len)
}
