use super::nodes::{Link, NIL, NodeKind, SENTINEL};
use super::{RangeAllocator, class};
use crate::Range;

/// Counts of the ranges in the chain of neighbours.
#[derive(Default)]
struct Census {
    holes: usize,
    live: usize,
    used: u64,
}

impl RangeAllocator {
    /// Verifies every invariant, in time that grows with the number of ranges. For tests.
    ///
    /// # Errors
    /// A sentence that names the first broken invariant.
    pub fn check(&self) -> Result<(), String> {
        if self.spare.is_some() {
            let mut settled = self.clone();
            settled.settle();
            return settled.check();
        }
        let census = self.check_chain()?;
        let (vacant, vacant_holes) = self.nodes.count_vacant()?;
        if self.nodes.places() != (1 + census.live + vacant, census.holes + vacant_holes) {
            return Err("a place holds no range and is not vacant".to_owned());
        }
        if (census.live, census.used) != (self.allocations(), self.used) {
            return Err(format!(
                "{} ranges of {} bytes are counted, but {} of {} exist",
                self.live, self.used, census.live, census.used
            ));
        }
        self.check_lists(census.holes)?;
        self.check_index(census.holes)
    }

    /// Checks that neighbours link to each other, no range is empty, and no two holes touch.
    fn check_chain(&self) -> Result<Census, String> {
        let sentinel = Link::live(SENTINEL);
        let mut census = Census::default();
        let (mut prev, mut link, mut start) = (sentinel, self.nodes.live(SENTINEL).next, 0);
        while link != sentinel {
            let broken =
                || format!("the chain of neighbours is broken at offset {start}: {link:?}");
            let (said, len, next) = self.look_at(link).ok_or_else(broken)?;
            if said != prev || self.nodes.start(link) != start || len == 0 {
                return Err(broken());
            }
            match link.kind() {
                NodeKind::Hole(_) if prev.as_hole().is_some() => {
                    return Err(format!("two holes touch at offset {start}"));
                }
                NodeKind::Hole(_) => census.holes += 1,
                NodeKind::Live(_) => {
                    census.live += 1;
                    census.used += len;
                }
            }
            (prev, link, start) = (link, next, start + len);
        }
        if self.nodes.live(SENTINEL).prev != prev || start != self.capacity() {
            return Err("the chain of neighbours does not end at the end of the arena".to_owned());
        }
        Ok(census)
    }

    /// The previous range, the length and the next range, as the range at `link` records them. `None` if there is no
    /// range.
    fn look_at(&self, link: Link) -> Option<(Link, u64, Link)> {
        match link.kind() {
            NodeKind::Live(at) => {
                let live = self.nodes.get(at)?;
                let next_exists = match live.next.kind() {
                    NodeKind::Live(next) => self.nodes.get(next).is_some(),
                    NodeKind::Hole(next) => self.nodes.get_hole(next).is_some(),
                };
                let end = next_exists.then(|| self.nodes.start(live.next))?;
                Some((live.prev, end.checked_sub(live.offset)?, live.next))
            }
            NodeKind::Hole(at) => {
                let hole = self.nodes.get_hole(at)?;
                Some((Link::live(hole.prev), hole.range.len, Link::live(hole.next)))
            }
        }
    }

    /// Checks that the lists hold every hole once, in its size class, and that the bitmaps agree.
    fn check_lists(&self, holes: usize) -> Result<(), String> {
        let mut count = 0;
        for class in 0..self.lists.classes() {
            let (mut prev, mut at) = (NIL, self.lists.head(class));
            if (at != NIL) != self.lists.is_marked(class) {
                return Err(format!("the bitmaps are wrong about class {class}"));
            }
            while at != NIL {
                let hole = self.nodes.get_hole(at).filter(|hole| hole.list_prev == prev);
                let Some(hole) = hole.filter(|_| count < holes) else {
                    return Err(format!("the list of class {class} is broken at hole {at}"));
                };
                if class::floor(hole.range.len) != class {
                    return Err(format!("{:?} does not belong into class {class}", hole.range));
                }
                count += 1;
                (prev, at) = (at, hole.list_next);
            }
        }
        if count != holes {
            return Err(format!("the lists hold {count} of {holes} holes"));
        }
        Ok(())
    }

    /// Checks that the index by offset, if there is one, holds exactly the holes.
    fn check_index(&self, holes: usize) -> Result<(), String> {
        let Some(index) = &self.index else { return Ok(()) };
        for (offset, at) in index.iter() {
            let found = self.nodes.get_hole(at).map(|hole| hole.range);
            if found.is_none_or(|Range { offset: start, .. }| start != offset) {
                return Err(format!("no hole is at offset {offset}, as the index says"));
            }
        }
        let count = index.iter().count();
        if count != holes {
            return Err(format!("the index holds {count} of {holes} holes"));
        }
        Ok(())
    }
}
