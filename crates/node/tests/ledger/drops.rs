//! Drops remove entries, and refuse writers whose grant is not newer than the drop.

use mooncake_node::{Clearance, Dropped, Ledger};
use mooncake_types::{ErrorCode, RangeWrite, limits};

use crate::{version, write};

fn put(ledger: &mut Ledger, range: &RangeWrite<'_>) {
    let ticket = ledger.begin(range).expect("it is newer").ticket;
    ledger.complete(ticket, vec![]).expect("nobody else is at work");
}

fn gone(dropped: &[u64], superseded: &[u64]) -> Dropped {
    Dropped { dropped: dropped.to_vec(), superseded: superseded.to_vec() }
}

fn is_there(ledger: &Ledger, offset: u64, counter: u64) -> bool {
    ledger.still_holds(offset, version(counter), version(counter))
}

#[test]
fn only_the_version_that_is_named_is_dropped() {
    let mut ledger = Ledger::new(1000);
    put(&mut ledger, &write(100, 50, 5));
    put(&mut ledger, &write(200, 50, 6));
    assert_eq!(ledger.drop_version(100, version(4), version(4)), gone(&[], &[]));
    assert_eq!(ledger.drop_version(200, version(5), version(5)), gone(&[], &[]));
    assert!(is_there(&ledger, 100, 5) && is_there(&ledger, 200, 6));
    assert_eq!(ledger.drop_version(100, version(5), version(5)), gone(&[100], &[]));
    assert_eq!(ledger.drop_version(100, version(5), version(5)), gone(&[], &[]), "once");
    assert!(!is_there(&ledger, 100, 5) && is_there(&ledger, 200, 6));
    assert_eq!(ledger.begin(&write(100, 50, 5)), Err(ErrorCode::InvalidVersion));
    put(&mut ledger, &write(100, 50, 7));
    assert!(is_there(&ledger, 100, 7));
}

#[test]
fn a_writer_of_what_is_dropped_is_told_to_stop_and_does_not_complete() {
    let mut ledger = Ledger::new(1000);
    let part = |from| RangeWrite { from, len: 25, ..write(100, 50, 5) };
    let tickets = [0, 25].map(|from| ledger.begin(&part(from)).expect("it is free").ticket);
    let other = ledger.begin(&write(200, 50, 5)).expect("it is free").ticket;
    assert_eq!(ledger.drop_version(100, version(5), version(5)), gone(&[], &tickets));
    for ticket in tickets {
        assert_eq!(ledger.clearance(ticket), Clearance::Superseded);
        assert_eq!(ledger.complete(ticket, vec![]), Err(ErrorCode::InvalidVersion));
    }
    assert_eq!(ledger.complete(other, vec![]), Ok(()));
    assert!(!is_there(&ledger, 100, 5) && is_there(&ledger, 200, 5));
}

/// The writer's bytes may still lie in a socket's buffer.
#[test]
fn a_writer_that_has_not_begun_does_not_bring_back_what_was_dropped() {
    let mut ledger = Ledger::new(1000);
    put(&mut ledger, &write(80, 50, 2));
    assert_eq!(
        ledger.drop_version(100, version(5), version(5)),
        gone(&[80], &[]),
        "it was given away since"
    );
    assert_eq!(ledger.begin(&write(100, 50, 5)), Err(ErrorCode::InvalidVersion));
    assert_eq!(ledger.begin(&write(90, 11, 4)), Err(ErrorCode::InvalidVersion));
    put(&mut ledger, &write(101, 50, 5));
    put(&mut ledger, &write(100, 50, 6));
    assert_eq!(ledger.drop_version(2000, version(9), version(9)), gone(&[], &[]), "it is nowhere");
    assert!(is_there(&ledger, 100, 6));
}

#[test]
fn a_ledger_that_starts_empty_forgets_everything_but_who_may_not_write() {
    let mut ledger = Ledger::new(1000);
    assert!(ledger.is_empty());
    put(&mut ledger, &write(100, 50, 5));
    assert!(!ledger.is_empty());
    let at_work = ledger.begin(&write(200, 50, 6)).expect("it is free").ticket;
    put(&mut ledger, &RangeWrite { len: 10, ..write(300, 50, 7) });
    assert_eq!(ledger.drop_all(), gone(&[100], &[at_work]));
    assert!(ledger.is_empty());
    assert_eq!(ledger.inventory(0, 10).entries, []);
    assert_eq!(ledger.complete(at_work, vec![]), Err(ErrorCode::InvalidVersion));
    for (offset, counter) in [(100, 5), (200, 6), (300, 7)] {
        assert!(!is_there(&ledger, offset, counter));
        let late = ledger.begin(&write(offset, 50, counter));
        assert_eq!(late, Err(ErrorCode::InvalidVersion), "{offset}");
    }
    put(&mut ledger, &write(0, 1000, 8));
    assert!(is_there(&ledger, 0, 8) && !ledger.is_empty());
}

#[test]
fn a_new_writer_waits_for_one_that_was_at_work_when_all_was_dropped() {
    let mut ledger = Ledger::new(1000);
    let old = ledger.begin(&write(200, 50, 6)).expect("it is free").ticket;
    let _ = ledger.drop_all();
    let new = ledger.begin(&write(190, 50, 8)).expect("it is newer");
    assert!(new.superseded.is_empty(), "it has been told already");
    assert_eq!(ledger.clearance(new.ticket), Clearance::Wait);
    ledger.abandon(old);
    assert_eq!(ledger.clearance(new.ticket), Clearance::Clear);
}

/// A copy was written to the same range while the drop was in flight.
#[test]
fn a_drop_takes_nothing_that_was_written_under_a_newer_grant() {
    let mut ledger = Ledger::new(1000);
    let copy = |grant| RangeWrite { grant: version(grant), ..write(100, 50, 5) };
    put(&mut ledger, &copy(9));
    assert_eq!(ledger.drop_version(100, version(5), version(8)), gone(&[], &[]));
    assert!(ledger.still_holds(100, version(5), version(9)));
    assert_eq!(ledger.drop_version(100, version(5), version(12)), gone(&[100], &[]));
    let late = |counter| write(100, 50, counter);
    assert_eq!(ledger.begin(&late(12)), Err(ErrorCode::InvalidVersion), "it is kept out too");
    put(&mut ledger, &late(13));
    assert_eq!(ledger.drop_version(200, version(5), version(14)), gone(&[], &[]));
    let copy = RangeWrite { grant: version(14), ..write(200, 50, 5) };
    assert_eq!(ledger.begin(&copy), Err(ErrorCode::InvalidVersion), "nor may it begin");
}

#[test]
fn a_peer_that_names_unknown_places_without_end_makes_the_ledger_no_longer_than_it_may_be() {
    let (most, far) = (limits::MAX_LEDGER_FENCES as u64, 1 << 30);
    let mut ledger = Ledger::new(2 * far);
    put(&mut ledger, &write(far, 50, 5));
    for number in 0..3 * most {
        // Half of them come from the end of the segment.
        let offset = if number % 2 == 0 { 2 * number } else { 2 * far - 1 - 2 * number };
        assert_eq!(ledger.drop_version(offset, version(1), version(8)), gone(&[], &[]));
        assert_eq!(ledger.begin(&write(offset, 1, 8)), Err(ErrorCode::InvalidVersion), "{offset}");
    }
    let count = ledger.entries().count() as u64;
    assert!((most..most + 10).contains(&count), "{count} entries");
    assert!(is_there(&ledger, far, 5), "what lies between is not touched");
    put(&mut ledger, &write(2 * most, 3 * most, 9));
    assert!(is_there(&ledger, 2 * most, 9), "newer writes are not kept out");
}

#[test]
fn a_full_ledger_fences_beside_others_what_it_is_told_to_drop() {
    let most = limits::MAX_LEDGER_FENCES as u64;
    let full = || {
        let mut ledger = Ledger::new(10 * most);
        for number in 0..most {
            ledger.drop_version(2 * number, version(1), version(1));
        }
        ledger
    };
    let refused = |ledger: &mut Ledger, offset: u64, len: u64, counter: u64| {
        ledger.begin(&write(offset, len, counter)).is_err()
    };
    // Nothing but a fence lies before it: all between is fenced too.
    let mut ledger = full();
    ledger.drop_version(5 * most, version(3), version(4));
    assert!(refused(&mut ledger, 3 * most, 10, 4) && !refused(&mut ledger, 3 * most, 10, 5));
    // Between two entries, it is a new fence.
    let mut ledger = full();
    put(&mut ledger, &write(4 * most, 10, 2));
    put(&mut ledger, &write(6 * most, 10, 2));
    ledger.drop_version(5 * most, version(3), version(4));
    assert!(
        refused(&mut ledger, 5 * most - 9, 10, 4) && !refused(&mut ledger, 4 * most + 10, 10, 3)
    );
    // A fence behind it is joined, and counts for itself no more.
    let mut ledger = full();
    put(&mut ledger, &write(4 * most, 10, 2));
    ledger.drop_version(6 * most, version(3), version(9));
    let count = ledger.entries().count();
    ledger.drop_version(5 * most, version(3), version(4));
    assert_eq!(ledger.entries().count(), count);
    assert!(refused(&mut ledger, 5 * most, 10, 9) && !refused(&mut ledger, 5 * most, 10, 10));
    // An older entry that lies there goes as a whole, with its writer.
    let mut ledger = full();
    put(&mut ledger, &write(4 * most, 10, 2));
    let old = ledger.begin(&write(5 * most, 10, 2)).expect("it is newer").ticket;
    let drop = |ledger: &mut Ledger, offset| ledger.drop_version(offset, version(3), version(4));
    assert_eq!(drop(&mut ledger, 4 * most + 5), gone(&[4 * most], &[]));
    assert_eq!(drop(&mut ledger, 5 * most), gone(&[], &[old]));
    assert!(refused(&mut ledger, 4 * most, 10, 4) && refused(&mut ledger, 5 * most + 9, 1, 4));
    assert!(!refused(&mut ledger, 4 * most, 10, 5));
    // A newer one stays.
    let mut ledger = full();
    put(&mut ledger, &write(4 * most, 10, 7));
    assert_eq!(drop(&mut ledger, 4 * most), gone(&[], &[]));
    assert!(is_there(&ledger, 4 * most, 7));
}
