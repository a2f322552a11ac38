//! The ledger against an oracle that knows bytes only: every sequence of a small segment, and long random ones.

mod oracle;

use std::collections::BTreeSet;

use mooncake_client::Chance;
use mooncake_client::node::{Clearance, EntryState, Ledger};
use mooncake_types::{Epoch, ErrorCode, RangeRead, RangeWrite, SegmentId, Version, limits};
use oracle::Oracle;

const SEGMENT: SegmentId = SegmentId(1);

/// One thing that may happen to a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Begin { offset: u64, len: u64, counter: u64 },
    Complete { ticket: u64 },
    Abandon { ticket: u64 },
}

fn version(counter: u64) -> Version {
    Version { epoch: Epoch(1), counter }
}

fn write(offset: u64, len: u64, counter: u64) -> RangeWrite<'static> {
    RangeWrite {
        segment: SEGMENT,
        offset,
        len,
        key: "key",
        version: version(counter),
        object_len: len,
        object_offset: 0,
    }
}

/// A ledger and its oracle, which must agree after every event.
#[derive(Clone)]
struct Pair {
    len: u64,
    ledger: Ledger,
    oracle: Oracle,
}

impl Pair {
    fn new(len: u64) -> Self {
        Self { len, ledger: Ledger::new(len), oracle: Oracle::new(len as usize) }
    }

    fn apply(&mut self, event: Event) {
        match event {
            Event::Begin { offset, len, counter } => {
                let begun = self.ledger.begin(&write(offset, len, counter));
                match self.oracle.begin(offset, len, counter) {
                    None => assert_eq!(begun, Err(ErrorCode::InvalidVersion), "{event:?}"),
                    Some((ticket, superseded)) => {
                        let begun = begun.unwrap_or_else(|code| panic!("{event:?}: {code}"));
                        assert_eq!((begun.ticket, begun.superseded), (ticket, superseded));
                    }
                }
            }
            Event::Complete { ticket } => {
                // A writer completes only what it was cleared to write.
                if self.ledger.clearance(ticket) == Clearance::Wait {
                    return self.apply(Event::Abandon { ticket });
                }
                let expected = self.oracle.complete(ticket);
                assert_eq!(self.ledger.complete(ticket, vec![]).is_ok(), expected, "{event:?}");
            }
            Event::Abandon { ticket } => {
                self.oracle.abandon(ticket);
                self.ledger.abandon(ticket);
            }
        }
    }

    /// Everything that can be asked, asked of both.
    fn compare(&self, counters: impl Iterator<Item = u64> + Clone) {
        for ticket in self.oracle.open_tickets() {
            assert_eq!(self.ledger.clearance(ticket), self.oracle.clearance(ticket), "{ticket}");
        }
        for offset in 0..self.len {
            for counter in counters.clone() {
                let held = self.oracle.held_len(offset, counter);
                assert_eq!(self.ledger.holds(offset, version(counter)), held.is_some());
                let whole = RangeRead {
                    segment: SEGMENT,
                    offset,
                    version: version(counter),
                    from: 0,
                    len: held.unwrap_or(1),
                };
                let expected = held.map(|_| None).ok_or(ErrorCode::ObjectNotFound);
                assert_eq!(self.ledger.read(&whole), expected);
            }
        }
        let mut end = 0;
        for (offset, entry) in self.ledger.entries() {
            assert!(offset >= end && entry.len > 0, "entries overlap at {offset}");
            end = offset + entry.len;
            let newest =
                (offset..end).map(|byte| self.oracle.newest(byte)).collect::<BTreeSet<_>>();
            assert_eq!(newest, BTreeSet::from([entry.version.counter]), "at {offset}");
        }
        assert!(end <= self.len);
    }
}

fn every_begin(len: u64, counters: u64) -> Vec<Event> {
    let mut events = Vec::new();
    for offset in 0..len {
        for end in offset + 1..=len {
            for counter in 1..=counters {
                events.push(Event::Begin { offset, len: end - offset, counter });
            }
        }
    }
    events
}

fn explore(pair: &Pair, begins: &[Event], depth: u32, visited: &mut u64) {
    *visited += 1;
    pair.compare(1..=3);
    if depth == 0 {
        return;
    }
    let endings = pair
        .oracle
        .open_tickets()
        .into_iter()
        .flat_map(|ticket| [Event::Complete { ticket }, Event::Abandon { ticket }]);
    for event in begins.iter().copied().chain(endings) {
        let mut next = pair.clone();
        next.apply(event);
        explore(&next, begins, depth - 1, visited);
    }
}

#[test]
fn every_short_sequence_agrees_with_the_oracle() {
    let mut visited = 0;
    explore(&Pair::new(3), &every_begin(3, 3), 4, &mut visited);
    assert!(visited > 100_000, "{visited}");
    // Longer, on two bytes with two versions.
    explore(&Pair::new(2), &every_begin(2, 2), 6, &mut visited);
}

fn random_start() -> u64 {
    match std::env::var("MOONCAKE_TEST_SEED") {
        Ok(text) => text.parse().expect("MOONCAKE_TEST_SEED is a number"),
        Err(_) => std::process::id().into(),
    }
}

/// Writers that scribble over their ranges for as long as they are at work, superseded or not, as a stalled writer
/// would: whatever the ledger calls complete must nevertheless hold its own bytes.
#[test]
fn complete_entries_keep_their_bytes_whatever_zombies_write() {
    let start = random_start();
    println!("MOONCAKE_TEST_SEED={start}");
    let mut chance = Chance::new(start);
    for _ in 0..60 {
        let len = 4 + chance.below(60);
        let mut pair = Pair::new(len);
        let mut counter = 0;
        for _ in 0..400 {
            let open = pair.oracle.open_tickets();
            let pick = |chance: &mut Chance| open[chance.below(open.len() as u64) as usize];
            let event = match chance.below(10) {
                0..4 => {
                    counter += 1;
                    let offset = chance.below(len);
                    let len = 1 + chance.below(len - offset);
                    // Now and then a writer that got its grant long ago.
                    let age = if chance.below(4) == 0 { chance.below(8) } else { 0 };
                    Event::Begin { offset, len, counter: counter - age.min(counter - 1) }
                }
                4..8 if !open.is_empty() => Event::Complete { ticket: pick(&mut chance) },
                8 if !open.is_empty() => Event::Abandon { ticket: pick(&mut chance) },
                _ => continue,
            };
            pair.apply(event);
            pair.oracle.scribble(&mut chance);
            pair.oracle.check_bytes();
            pair.compare(counter.saturating_sub(9)..=counter);
        }
    }
}

#[test]
fn ranges_outside_of_the_segment_or_the_object_are_refused() {
    let mut ledger = Ledger::new(100);
    let good = write(10, 20, 1);
    let long_key = "k".repeat(limits::MAX_KEY_BYTES + 1);
    for (range, expected) in [
        (RangeWrite { offset: 81, ..good }, ErrorCode::InvalidWrite),
        (RangeWrite { offset: u64::MAX, ..good }, ErrorCode::InvalidWrite),
        (RangeWrite { len: 0, ..good }, ErrorCode::InvalidWrite),
        (RangeWrite { len: u64::MAX, ..good }, ErrorCode::InvalidWrite),
        (RangeWrite { object_len: 19, ..good }, ErrorCode::InvalidWrite),
        (RangeWrite { object_offset: 1, ..good }, ErrorCode::InvalidWrite),
        (RangeWrite { object_offset: u64::MAX, ..good }, ErrorCode::InvalidWrite),
        (RangeWrite { key: "", ..good }, ErrorCode::InvalidKey),
        (RangeWrite { key: &long_key, ..good }, ErrorCode::InvalidKey),
    ] {
        assert_eq!(ledger.begin(&range), Err(expected), "{range:?}");
    }
    assert_eq!(ledger.entries().count(), 0);
}

#[test]
fn parts_of_an_entry_can_be_read_and_nothing_beyond_it() {
    let mut ledger = Ledger::new(1 << 20);
    let len = limits::CHUNK_BYTES + 1;
    let ticket = ledger.begin(&write(4096, len, 5)).expect("the range is free").ticket;
    let read = |ledger: &Ledger, from, len| {
        let version = version(5);
        ledger.read(&RangeRead { segment: SEGMENT, offset: 4096, version, from, len })
    };
    assert_eq!(read(&ledger, 0, len), Err(ErrorCode::ObjectNotFound));
    assert_eq!(ledger.complete(ticket, vec![7, 8]), Ok(()));
    assert_eq!(read(&ledger, 0, len), Ok(Some([7, 8].into())));
    assert_eq!(read(&ledger, 1, len - 1), Ok(None));
    assert_eq!(read(&ledger, len - 1, 1), Ok(None));
    for (from, len) in [(0, 0), (1, len), (len, 1), (u64::MAX, 2), (0, u64::MAX)] {
        assert_eq!(read(&ledger, from, len), Err(ErrorCode::InvalidParams), "{len} from {from}");
    }
}

#[test]
fn checksums_that_do_not_fit_the_length_are_not_kept() {
    let mut ledger = Ledger::new(1000);
    let ticket = ledger.begin(&write(0, 1000, 1)).expect("the range is free").ticket;
    assert_eq!(ledger.complete(ticket, vec![1, 2]), Ok(()));
    let entries: Vec<_> = ledger.entries().map(|(_, entry)| entry.clone()).collect();
    assert_eq!(entries.len(), 1);
    assert_eq!((entries[0].state, entries[0].checksums.clone()), (EntryState::Complete, None));
}
