//! The ledger against an oracle that tracks single bytes: every sequence on a small segment, and long random ones.

mod changes;
mod drops;
mod inventory;
mod oracle;
mod parts;

use std::collections::BTreeSet;

use mooncake_node::{Clearance, EntryState, FoundEntry, Ledger};
use mooncake_types::{
    Chance, Epoch, ErrorCode, RangeRead, RangeWrite, Seal, SegmentId, Version, limits,
};
use oracle::{Oracle, Write};

const SEGMENT: SegmentId = SegmentId(1);

/// A call that changes a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Begin(Write),
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
        entry_len: len,
        from: 0,
        len,
        key: "key",
        version: version(counter),
        grant: version(counter),
        object_len: len,
        object_offset: 0,
        attributes: &[],
        seal: Seal::NONE,
    }
}

fn range_of(write_of: &Write) -> RangeWrite<'static> {
    let whole = write(write_of.offset, write_of.entry_len, write_of.version);
    let grant = version(write_of.grant);
    RangeWrite { from: write_of.from, len: write_of.len, grant, ..whole }
}

/// A ledger and its oracle, which must agree after each event.
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
            Event::Begin(write) => {
                let begun = self.ledger.begin(&range_of(&write));
                let begun = begun.map(|begun| (begun.ticket, begun.superseded));
                assert_eq!(begun, self.oracle.begin(&write), "{event:?}");
            }
            Event::Complete { ticket } => {
                // A writer completes only after the ledger has cleared it.
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

    /// Compares the answers of both to every question.
    fn compare(&self, counters: impl Iterator<Item = u64> + Clone) {
        for ticket in self.oracle.open_tickets() {
            assert_eq!(self.ledger.clearance(ticket), self.oracle.clearance(ticket), "{ticket}");
        }
        for offset in 0..self.len {
            let held = self.oracle.held(offset);
            for counter in counters.clone() {
                let held = held.filter(|&(found, ..)| found == counter);
                let grant = held.map_or(counter, |(_, grant, _)| grant);
                let whole = RangeRead {
                    segment: SEGMENT,
                    offset,
                    version: version(counter),
                    object_offset: 0,
                    from: 0,
                    len: held.map_or(1, |(.., len)| len),
                    seal: Seal::NONE,
                };
                let expected = held
                    .map(|_| FoundEntry { grant: version(grant), checksums: None })
                    .ok_or(ErrorCode::ObjectNotFound);
                assert_eq!(self.ledger.read(&whole), expected);
                let still_holds =
                    |grant| self.ledger.still_holds(offset, version(counter), version(grant));
                assert_eq!(still_holds(grant), held.is_some());
                assert!(!still_holds(grant + 1));
            }
        }
        self.compare_entries();
    }

    fn compare_entries(&self) {
        let mut end = 0;
        for (offset, entry) in self.ledger.entries() {
            assert!(offset >= end && entry.len > 0, "entries overlap at {offset}");
            end = offset + entry.len;
            let newest =
                (offset..end).map(|byte| self.oracle.newest(byte)).collect::<BTreeSet<_>>();
            assert_eq!(newest, BTreeSet::from([entry.grant.counter]), "at {offset}");
            let is_fence = entry.key.is_empty();
            let found = if is_fence { None } else { Some((entry.len, entry.state)) };
            assert_eq!(found, self.oracle.state(offset), "at {offset}");
            assert!(!is_fence || entry.state == EntryState::Abandoned, "at {offset}");
        }
        assert!(end <= self.len);
    }
}

/// Every write that fills its range.
fn every_whole(len: u64, counters: u64) -> Vec<Event> {
    let grants: Vec<_> = (1..=counters).map(|counter| (counter, counter)).collect();
    let all = every_write(len, &grants).into_iter();
    all.filter(|write| write.len == write.entry_len).map(Event::Begin).collect()
}

/// Every write of a whole range or a part of it, for these versions and grants.
fn every_part(len: u64, grants: &[(u64, u64)]) -> Vec<Event> {
    every_write(len, grants).into_iter().map(Event::Begin).collect()
}

fn every_write(len: u64, grants: &[(u64, u64)]) -> Vec<Write> {
    let spans =
        |len: u64| (0..len).flat_map(move |from| (from + 1..=len).map(move |to| (from, to)));
    let mut writes = Vec::new();
    for (start, end) in spans(len) {
        for (from, to) in spans(end - start) {
            for &(version, grant) in grants {
                let (offset, entry_len, len) = (start, end - start, to - from);
                writes.push(Write { offset, entry_len, from, len, version, grant });
            }
        }
    }
    writes
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
    explore(&Pair::new(3), &every_whole(3, 3), 4, &mut visited);
    assert!(visited > 100_000, "{visited}");
    // Longer sequences, of two versions on two bytes.
    explore(&Pair::new(2), &every_whole(2, 2), 6, &mut visited);
}

#[test]
fn every_short_sequence_of_parts_agrees_with_the_oracle() {
    let mut visited = 0;
    // One version under two grants, and another one under the newer grant.
    explore(&Pair::new(3), &every_part(3, &[(1, 1), (1, 2), (2, 2)]), 3, &mut visited);
    assert!(visited > 50_000, "{visited}");
    // Longer sequences on two bytes.
    explore(&Pair::new(2), &every_part(2, &[(1, 1), (1, 2)]), 5, &mut visited);
    // The longest sequences: parts of a single entry.
    let mut one_entry = every_part(3, &[(1, 1)]);
    one_entry.retain(|event| matches!(event, Event::Begin(write) if write.entry_len == 3));
    explore(&Pair::new(3), &one_entry, 6, &mut visited);
}

fn random_start() -> u64 {
    match std::env::var("MOONCAKE_TEST_SEED") {
        Ok(text) => text.parse().expect("MOONCAKE_TEST_SEED is a number"),
        Err(_) => std::process::id().into(),
    }
}

/// A new write, sometimes under an older grant, or another part of an entry that was begun.
fn random_write(chance: &mut Chance, pair: &Pair, counter: &mut u64) -> Write {
    let begun = if chance.below(2) == 0 { pair.oracle.pick(chance) } else { None };
    let whole = begun.unwrap_or_else(|| {
        *counter += 1;
        let offset = chance.below(pair.len);
        let len = 1 + chance.below(pair.len - offset);
        // Sometimes the grant is up to seven older, or the version is older than the grant, as for a copy.
        let mut back = || if chance.below(4) == 0 { chance.below(8) } else { 0 };
        let grant = *counter - back().min(*counter - 1);
        let version = grant - back().min(grant - 1);
        Write { offset, entry_len: len, from: 0, len, version, grant }
    });
    if chance.below(2) == 0 {
        return whole;
    }
    let from = chance.below(whole.entry_len);
    Write { from, len: 1 + chance.below(whole.entry_len - from), ..whole }
}

/// Writers keep writing in their ranges until they complete or abandon, even after they were superseded. Every entry
/// that the ledger calls complete must hold its own bytes.
#[test]
fn complete_entries_keep_their_bytes_whatever_zombies_write() {
    let start = random_start();
    println!("MOONCAKE_TEST_SEED={start}");
    let mut chance = Chance::new(start);
    let mut completed = 0;
    for _ in 0..60 {
        let len = 4 + chance.below(60);
        let mut pair = Pair::new(len);
        let mut counter = 0;
        for _ in 0..400 {
            let open = pair.oracle.open_tickets();
            let pick = |chance: &mut Chance| open[chance.below(open.len() as u64) as usize];
            let event = match chance.below(10) {
                0..4 => Event::Begin(random_write(&mut chance, &pair, &mut counter)),
                4..8 if !open.is_empty() => Event::Complete { ticket: pick(&mut chance) },
                8 if !open.is_empty() => Event::Abandon { ticket: pick(&mut chance) },
                _ => continue,
            };
            pair.apply(event);
            pair.oracle.scribble(&mut chance);
            pair.oracle.check_bytes();
            pair.compare(counter.saturating_sub(16)..=counter);
            completed += (0..len).filter(|&offset| pair.oracle.held(offset).is_some()).count();
        }
    }
    assert!(completed > 1000, "{completed}");
}

#[test]
fn ranges_outside_of_the_segment_or_the_object_are_refused() {
    let mut ledger = Ledger::new(100);
    let good = write(10, 20, 1);
    let long_attributes = vec![0; limits::MAX_ATTRIBUTES_BYTES + 1];
    let long_key = "k".repeat(limits::MAX_KEY_BYTES + 1);
    for (range, expected) in [
        (RangeWrite { offset: 81, ..good }, ErrorCode::InvalidWrite),
        (RangeWrite { offset: u64::MAX, ..good }, ErrorCode::InvalidWrite),
        (RangeWrite { entry_len: 0, len: 0, ..good }, ErrorCode::InvalidWrite),
        (RangeWrite { entry_len: u64::MAX, len: u64::MAX, ..good }, ErrorCode::InvalidWrite),
        (RangeWrite { entry_len: 91, ..good }, ErrorCode::InvalidWrite),
        (RangeWrite { entry_len: 19, ..good }, ErrorCode::InvalidWrite),
        (RangeWrite { len: 0, ..good }, ErrorCode::InvalidWrite),
        (RangeWrite { len: 21, ..good }, ErrorCode::InvalidWrite),
        (RangeWrite { from: 1, ..good }, ErrorCode::InvalidWrite),
        (RangeWrite { from: 20, len: 1, ..good }, ErrorCode::InvalidWrite),
        (RangeWrite { from: u64::MAX, ..good }, ErrorCode::InvalidWrite),
        (RangeWrite { object_len: 19, ..good }, ErrorCode::InvalidWrite),
        (RangeWrite { object_offset: 1, ..good }, ErrorCode::InvalidWrite),
        (RangeWrite { object_offset: u64::MAX, ..good }, ErrorCode::InvalidWrite),
        (RangeWrite { grant: version(0), ..good }, ErrorCode::InvalidVersion),
        (RangeWrite { key: "", ..good }, ErrorCode::InvalidKey),
        (RangeWrite { key: &long_key, ..good }, ErrorCode::InvalidKey),
        (RangeWrite { attributes: &long_attributes, ..good }, ErrorCode::InvalidParams),
    ] {
        assert_eq!(ledger.begin(&range), Err(expected), "{range:?}");
    }
    assert_eq!(ledger.entries().count(), 0);
}

/// A replica may have moved, and another stripe of the same version may have taken its range.
#[test]
fn another_stripe_of_the_same_version_is_not_what_was_asked_for() {
    let mut ledger = Ledger::new(1 << 20);
    let stripe = RangeWrite { object_len: 200, object_offset: 100, ..write(0, 100, 1) };
    let ticket = ledger.begin(&stripe).expect("it is free").ticket;
    ledger.complete(ticket, vec![]).expect("nobody else was there");
    let read = |object_offset| RangeRead {
        segment: SEGMENT,
        offset: 0,
        version: version(1),
        object_offset,
        from: 0,
        len: 100,
        seal: Seal::NONE,
    };
    assert_eq!(ledger.read(&read(0)), Err(ErrorCode::ObjectNotFound));
    assert!(ledger.read(&read(100)).is_ok());
}

#[test]
fn parts_of_an_entry_can_be_read_and_nothing_beyond_it() {
    let mut ledger = Ledger::new(1 << 20);
    let len = limits::CHUNK_BYTES + 1;
    let ticket = ledger.begin(&write(4096, len, 5)).expect("the range is free").ticket;
    let read = |ledger: &Ledger, from, len| {
        let version = version(5);
        let read = ledger.read(&RangeRead {
            segment: SEGMENT,
            offset: 4096,
            version,
            object_offset: 0,
            from,
            len,
            seal: Seal::NONE,
        });
        read.map(|held| held.checksums)
    };
    assert_eq!(read(&ledger, 0, len), Err(ErrorCode::ObjectNotFound));
    assert_eq!(ledger.complete(ticket, vec![7, 8]), Ok(()));
    assert_eq!(read(&ledger, 0, len), Ok(Some([7, 8].into())));
    assert_eq!(read(&ledger, 1, len - 1), Ok(None));
    assert_eq!(read(&ledger, 0, 5), Ok(None));
    assert_eq!(read(&ledger, 0, limits::CHUNK_BYTES), Ok(Some([7].into())));
    assert_eq!(read(&ledger, 1, limits::CHUNK_BYTES), Ok(None));
    assert_eq!(read(&ledger, limits::CHUNK_BYTES, 1), Ok(Some([8].into())));
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
