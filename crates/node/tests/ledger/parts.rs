//! Entries that are written in parts, one rule per test.

use mooncake_node::{BegunWrite, Clearance, EntryState, Ledger};
use mooncake_types::limits::MAX_ENTRY_PARTS;
use mooncake_types::{ErrorCode, RangeWrite};

use crate::{version, write};

/// A write of `len` bytes from `from` on, in an entry of 100 bytes at offset 1000.
fn part(from: u64, len: u64, counter: u64) -> RangeWrite<'static> {
    RangeWrite { from, len, ..write(1000, 100, counter) }
}

fn begin(ledger: &mut Ledger, range: &RangeWrite<'_>) -> u64 {
    ledger.begin(range).unwrap_or_else(|code| panic!("{code}: {range:?}")).ticket
}

fn put(ledger: &mut Ledger, range: &RangeWrite<'_>) {
    let ticket = begin(ledger, range);
    assert_eq!(ledger.clearance(ticket), Clearance::Clear);
    assert_eq!(ledger.complete(ticket, vec![0]), Ok(()));
}

fn states(ledger: &Ledger) -> Vec<(u64, u64, EntryState)> {
    ledger.entries().map(|(offset, entry)| (offset, entry.len, entry.state)).collect()
}

#[test]
fn parts_in_any_order_make_an_entry_without_checksums() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [1, 2, 0]] {
        let mut ledger = Ledger::new(4096);
        for (round, index) in order.into_iter().enumerate() {
            assert_eq!(
                ledger.entries().filter(|(_, e)| e.state == EntryState::Complete).count(),
                0
            );
            assert_eq!(ledger.entries().count(), usize::from(round > 0));
            put(&mut ledger, &[part(0, 40, 1), part(40, 1, 1), part(41, 59, 1)][index]);
        }
        let (offset, entry) = ledger.entries().next().expect("it is there");
        assert_eq!((offset, entry.len, &*entry.key), (1000, 100, "key"));
        assert_eq!((entry.version, entry.grant), (version(1), version(1)));
        assert_eq!((entry.object_len, entry.object_offset), (100, 0));
        assert_eq!((entry.state, &entry.checksums), (EntryState::Complete, &None));
    }
}

#[test]
fn the_first_part_takes_the_whole_range() {
    let mut ledger = Ledger::new(4096);
    put(&mut ledger, &write(1090, 20, 1));
    let before = begin(&mut ledger, &write(950, 60, 1));
    // This part overlaps no older writer, so it need not wait, although its entry supersedes them.
    let BegunWrite { ticket, superseded, .. } =
        ledger.begin(&part(40, 10, 2)).expect("it is newer");
    assert_eq!((superseded, ledger.clearance(ticket)), (vec![before], Clearance::Clear));
    let (abandoned, writing) = (EntryState::Abandoned, EntryState::Writing);
    let expected = [(950, 50, abandoned), (1000, 100, writing), (1100, 10, abandoned)];
    assert_eq!(states(&ledger), expected);
    // A part waits only if the older writer still works in it.
    let first = begin(&mut ledger, &part(0, 40, 2));
    assert_eq!(ledger.clearance(first), Clearance::Wait);
    ledger.abandon(before);
    assert_eq!(ledger.clearance(first), Clearance::Clear);
}

#[test]
fn a_newer_grant_in_one_part_stops_the_writers_of_all() {
    let mut ledger = Ledger::new(4096);
    let (left, right) = (begin(&mut ledger, &part(0, 40, 1)), begin(&mut ledger, &part(60, 40, 1)));
    let begun = ledger.begin(&write(1090, 20, 2)).expect("it is newer");
    assert_eq!(begun.superseded, [left, right]);
    assert_eq!(ledger.clearance(begun.ticket), Clearance::Wait);
    assert_eq!(ledger.complete(left, vec![]), Err(ErrorCode::InvalidVersion));
    // The left writer's part does not overlap the newer entry; the right writer's part does.
    assert_eq!(ledger.clearance(begun.ticket), Clearance::Wait);
    ledger.abandon(right);
    assert_eq!(ledger.clearance(begun.ticket), Clearance::Clear);
    for late in [part(0, 40, 1), part(40, 20, 1)] {
        assert_eq!(ledger.begin(&late), Err(ErrorCode::InvalidVersion));
    }
}

#[test]
fn writers_of_one_grant_keep_out_of_each_others_parts() {
    let mut ledger = Ledger::new(4096);
    let first = begin(&mut ledger, &part(10, 20, 1));
    let second = begin(&mut ledger, &part(30, 20, 1));
    let busy = Err(ErrorCode::ObjectReplicaBusy);
    for other in [part(10, 20, 1), part(0, 11, 1), part(29, 1, 1), part(0, 99, 1), part(0, 100, 1)]
    {
        assert_eq!(ledger.begin(&other), busy, "{other:?}");
    }
    ledger.abandon(first);
    // The first writer has stopped, so its part can be written again.
    put(&mut ledger, &part(10, 20, 1));
    assert_eq!(ledger.complete(second, vec![]), Ok(()));
    put(&mut ledger, &part(0, 10, 1));
    put(&mut ledger, &part(50, 50, 1));
    assert_eq!(states(&ledger), [(1000, 100, EntryState::Complete)]);
}

#[test]
fn what_is_written_again_is_missing_meanwhile() {
    let mut ledger = Ledger::new(4096);
    put(&mut ledger, &part(0, 60, 1));
    let again = begin(&mut ledger, &part(20, 10, 1));
    put(&mut ledger, &part(60, 40, 1));
    assert_eq!(states(&ledger), [(1000, 100, EntryState::Writing)]);
    ledger.abandon(again);
    assert_eq!(states(&ledger), [(1000, 100, EntryState::Writing)]);
    put(&mut ledger, &part(25, 5, 1));
    assert_eq!(states(&ledger), [(1000, 100, EntryState::Writing)]);
    put(&mut ledger, &part(15, 10, 1));
    assert_eq!(states(&ledger), [(1000, 100, EntryState::Complete)]);
}

#[test]
fn what_is_complete_is_never_written_again() {
    let mut ledger = Ledger::new(4096);
    put(&mut ledger, &part(0, 60, 1));
    put(&mut ledger, &part(60, 40, 1));
    assert_eq!(ledger.begin(&part(0, 1, 1)), Err(ErrorCode::InvalidWrite));
    assert_eq!(ledger.begin(&part(0, 100, 1)), Err(ErrorCode::InvalidVersion));
    put(&mut ledger, &write(0, 100, 1));
    let over_whole = RangeWrite { from: 5, len: 5, ..write(0, 100, 1) };
    assert_eq!(ledger.begin(&over_whole), Err(ErrorCode::InvalidWrite));
    let complete = EntryState::Complete;
    assert_eq!(states(&ledger), [(0, 100, complete), (1000, 100, complete)]);
}

#[test]
fn parts_of_other_writes_are_refused() {
    let mut ledger = Ledger::new(4096);
    let grant = version(3);
    let good = RangeWrite { grant, ..part(0, 40, 2) };
    put(&mut ledger, &good);
    for other in [
        RangeWrite { grant: version(2), ..good },
        RangeWrite { version: version(1), ..good },
        RangeWrite { version: version(3), ..good },
        RangeWrite { key: "other", ..good },
        RangeWrite { entry_len: 99, ..good },
        RangeWrite { entry_len: 101, object_len: 101, ..good },
        RangeWrite { offset: 1001, ..good },
        RangeWrite { object_len: 101, ..good },
        RangeWrite { object_len: 101, object_offset: 1, ..good },
    ] {
        assert_eq!(ledger.begin(&other), Err(ErrorCode::InvalidVersion), "{other:?}");
    }
    put(&mut ledger, &RangeWrite { from: 40, len: 60, ..good });
    let (_, entry) = ledger.entries().next().expect("it is there");
    let found = (entry.version, entry.grant, entry.state);
    assert_eq!(found, (version(2), grant, EntryState::Complete));
}

#[test]
fn an_entry_that_nobody_wrote_to_is_abandoned() {
    let mut ledger = Ledger::new(4096);
    let (one, two) = (begin(&mut ledger, &part(0, 40, 1)), begin(&mut ledger, &part(40, 60, 1)));
    ledger.abandon(one);
    assert_eq!(states(&ledger), [(1000, 100, EntryState::Writing)]);
    ledger.abandon(two);
    assert_eq!(states(&ledger), [(1000, 100, EntryState::Abandoned)]);
    put(&mut ledger, &part(0, 40, 1));
    // A write of the whole entry replaces the parts that were written.
    let whole = begin(&mut ledger, &part(0, 100, 1));
    ledger.abandon(whole);
    assert_eq!(states(&ledger), [(1000, 100, EntryState::Abandoned)]);
    put(&mut ledger, &part(0, 40, 1));
    assert_eq!(states(&ledger), [(1000, 100, EntryState::Writing)]);
}

#[test]
fn an_entry_falls_into_so_many_pieces_and_no_more() {
    let most = MAX_ENTRY_PARTS as u64;
    let len = 2 * most + 8;
    let at = |from, len_of| RangeWrite { from, len: len_of, ..write(0, len, 1) };
    let mut ledger = Ledger::new(len);
    for piece in 0..most - 1 {
        put(&mut ledger, &at(2 * piece, 1));
    }
    let refused = Err(ErrorCode::InvalidWrite);
    let ticket = begin(&mut ledger, &at(2 * most - 2, 1));
    assert_eq!(ledger.begin(&at(2 * most, 1)), refused, "a writer counts as a piece");
    assert_eq!(ledger.complete(ticket, vec![]), Ok(()));
    assert_eq!(ledger.begin(&at(2 * most, 1)), refused, "one piece more");
    // A part that joins two pieces is accepted, and allows one more piece.
    put(&mut ledger, &at(1, 1));
    put(&mut ledger, &at(2 * most, 1));
    assert_eq!(ledger.begin(&at(2 * most + 2, 1)), refused, "one piece more");
    assert_eq!(ledger.begin(&at(1, 1)), refused, "if it were given up, there would be one more");
    put(&mut ledger, &at(0, len - 1));
    put(&mut ledger, &at(len - 1, 1));
    assert_eq!(states(&ledger), [(0, len, EntryState::Complete)]);
}
