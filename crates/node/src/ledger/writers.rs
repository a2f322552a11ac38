//! The writers at work in a segment. They are found by their place, so that a write costs hardly more when many others
//! run.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

#[derive(Clone, Debug)]
pub(super) struct Writer {
    /// The range of its entry.
    pub(super) entry: Range<u64>,
    /// The part of it that this writer writes; usually all of it.
    pub(super) part: Range<u64>,
    pub(super) is_superseded: bool,
}

/// All writers, by their tickets.
///
/// The parts of writers that are not superseded never overlap, and neither do their entries, unless both write the
/// same entry.
#[derive(Clone, Debug, Default)]
pub(super) struct Writers {
    known: BTreeMap<u64, Writer>,
    next_ticket: u64,
    /// Where the parts of those begin that are not superseded, in order, and their tickets. They are few enough that a
    /// sorted list is quicker than a tree.
    by_part: Vec<(u64, u64)>,
    /// Where the parts of the superseded ones begin, and their tickets.
    superseded: BTreeSet<(u64, u64)>,
    /// Length of the longest part of a superseded writer since there was none.
    longest: u64,
}

impl Writers {
    pub(super) const fn new() -> Self {
        Self {
            known: BTreeMap::new(),
            next_ticket: 0,
            by_part: Vec::new(),
            superseded: BTreeSet::new(),
            longest: 0,
        }
    }

    /// Adds a writer. No other that is not superseded may be at work in its part. Returns the ticket.
    pub(super) fn insert(&mut self, entry: Range<u64>, part: Range<u64>) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.by_part.insert(self.place_from(part.start), (part.start, ticket));
        self.known.insert(ticket, Writer { entry, part, is_superseded: false });
        ticket
    }

    /// # Panics
    /// If there is no such writer.
    pub(super) fn get(&self, ticket: u64) -> &Writer {
        self.known.get(&ticket).expect("the ticket is open")
    }

    /// # Panics
    /// If there is no such writer.
    pub(super) fn remove(&mut self, ticket: u64) -> Writer {
        let writer = self.known.remove(&ticket).expect("the ticket is open");
        match writer.is_superseded {
            true => {
                self.superseded.remove(&(writer.part.start, ticket));
                self.longest = if self.superseded.is_empty() { 0 } else { self.longest };
            }
            false => {
                self.by_part.remove(self.place_from(writer.part.start));
            }
        }
        writer
    }

    /// Whether a writer that is not superseded is at work in this part.
    pub(super) fn is_at_work(&self, part: &Range<u64>) -> bool {
        let last = self.by_part[..self.place_from(part.end)].last();
        last.is_some_and(|&(_, ticket)| self.get(ticket).part.end > part.start)
    }

    /// Whether a superseded writer is at work in this part.
    pub(super) fn is_blocked(&self, part: &Range<u64>) -> bool {
        if self.superseded.is_empty() {
            return false;
        }
        let from = (part.start.saturating_sub(self.longest), 0);
        let mut near = self.superseded.range(from..(part.end, 0));
        near.any(|&(_, ticket)| self.get(ticket).part.end > part.start)
    }

    /// Marks the writers of entries that overlap a range as superseded. Returns the tickets that were not marked
    /// before, in growing order.
    pub(super) fn supersede(&mut self, wanted: &Range<u64>) -> Vec<u64> {
        if self.by_part.is_empty() {
            return Vec::new();
        }
        let entry_of = |ticket: u64| &self.get(ticket).entry;
        let (before, behind) = self.by_part.split_at(self.place_from(wanted.end));
        let before = before.iter().rev().take_while(|(_, it)| entry_of(*it).end > wanted.start);
        let behind = behind.iter().take_while(|(_, it)| entry_of(*it).start < wanted.end);
        let mut superseded: Vec<u64> = before.chain(behind).map(|&(_, ticket)| ticket).collect();
        superseded.sort_unstable();
        for &ticket in &superseded {
            let writer = self.known.get_mut(&ticket).expect("it was found a moment ago");
            writer.is_superseded = true;
            let Range { start, end } = writer.part;
            self.superseded.insert((start, ticket));
            self.longest = self.longest.max(end - start);
        }
        if !superseded.is_empty() {
            self.by_part.retain(|(_, ticket)| superseded.binary_search(ticket).is_err());
        }
        superseded
    }

    /// The place of the first part that begins at an offset or after it.
    fn place_from(&self, offset: u64) -> usize {
        self.by_part.partition_point(|&(start, _)| start < offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mooncake_types::Chance;

    fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
        one.start < other.end && other.start < one.end
    }

    #[test]
    fn the_writers_found_by_place_are_those_that_a_look_at_all_finds() {
        let (mut writers, mut dice) = (Writers::new(), Chance::new(11));
        let (mut superseded, mut blocked) = (0, 0);
        for _ in 0..50_000 {
            let start = dice.place(64) as u64;
            let range = start..start + 1 + dice.place(16) as u64;
            let others: Vec<(u64, Writer)> =
                writers.known.iter().map(|(&ticket, writer)| (ticket, writer.clone())).collect();
            let find = |is_wanted: &dyn Fn(&Writer) -> bool| -> Vec<u64> {
                let found = others.iter().filter(|(_, writer)| is_wanted(writer));
                found.map(|&(ticket, _)| ticket).collect()
            };
            let is_taken = !find(&|it| !it.is_superseded && overlap(&it.part, &range)).is_empty();
            let is_blocked = !find(&|it| it.is_superseded && overlap(&it.part, &range)).is_empty();
            assert_eq!(
                (writers.is_at_work(&range), writers.is_blocked(&range)),
                (is_taken, is_blocked)
            );
            blocked += u32::from(is_blocked);
            match dice.place(4) {
                0 if !others.is_empty() => {
                    writers.remove(others[dice.place(others.len())].0);
                }
                // A further part of an entry.
                1 => {
                    let mut entries = others.iter().filter(|(_, it)| !it.is_superseded);
                    let whole = entries
                        .find(|(_, it)| it.entry.start <= range.start && range.end <= it.entry.end);
                    if let Some((_, it)) = whole.filter(|_| !is_taken) {
                        writers.insert(it.entry.clone(), range);
                    }
                }
                _ => {
                    let expected = find(&|it| !it.is_superseded && overlap(&it.entry, &range));
                    assert_eq!(writers.supersede(&range), expected);
                    superseded += expected.len();
                    let part = range.start
                        ..range.start + 1 + dice.place((range.end - range.start) as usize) as u64;
                    writers.insert(range, part);
                }
            }
        }
        assert!(superseded > 1_000 && blocked > 1_000, "{superseded} {blocked}");
    }
}
