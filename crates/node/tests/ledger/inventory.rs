//! The inventory that a ledger reports to a new leader.

use mooncake_node::{Inventory, Ledger, ListedEntry};
use mooncake_types::{EntryState, RangeWrite, limits};

use crate::{version, write};

fn begin(ledger: &mut Ledger, range: &RangeWrite<'_>) -> u64 {
    ledger.begin(range).expect("it is newer").ticket
}

fn put(ledger: &mut Ledger, range: &RangeWrite<'_>) {
    let ticket = begin(ledger, range);
    ledger.complete(ticket, vec![]).expect("nobody else is at work");
}

#[test]
fn what_can_be_read_and_what_is_being_written_is_listed_in_order_with_all_that_is_known_of_it() {
    let mut ledger = Ledger::new(10_000);
    assert_eq!(ledger.inventory(0, 10), Inventory::default());
    let whole = write(3000, 100, 7);
    put(&mut ledger, &RangeWrite { key: "c", attributes: b"pinned", ..whole });
    let stripe = RangeWrite { object_len: 900, object_offset: 800, ..write(1000, 100, 5) };
    put(&mut ledger, &RangeWrite { key: "a", grant: version(6), ..stripe });
    let half = RangeWrite { key: "b", len: 50, ..write(2000, 100, 8) };
    put(&mut ledger, &half);
    let given_up = begin(&mut ledger, &write(500, 10, 9));
    ledger.abandon(given_up);
    begin(&mut ledger, &write(4000, 10, 10));
    // A newer write overlaps this entry, so it is not listed.
    put(&mut ledger, &write(5000, 100, 11));
    put(&mut ledger, &RangeWrite { key: "d", ..write(5050, 10, 12) });
    let listed = |offset, key: &str, counter, state| ListedEntry {
        offset,
        len: 100,
        key: key.into(),
        version: version(counter),
        grant: version(counter),
        object_len: 100,
        object_offset: 0,
        state,
        attributes: Box::default(),
    };
    let entries = vec![
        ListedEntry {
            grant: version(6),
            object_len: 900,
            object_offset: 800,
            ..listed(1000, "a", 5, EntryState::Complete)
        },
        listed(2000, "b", 8, EntryState::Writing),
        ListedEntry {
            attributes: (*b"pinned").into(),
            ..listed(3000, "c", 7, EntryState::Complete)
        },
        ListedEntry { len: 10, object_len: 10, ..listed(4000, "key", 10, EntryState::Writing) },
        ListedEntry { len: 10, object_len: 10, ..listed(5050, "d", 12, EntryState::Complete) },
    ];
    assert_eq!(ledger.inventory(0, 10), Inventory { entries: entries.clone(), next: None });
    // Pages of any length list each entry once.
    for limit in 1..=5 {
        let (mut from, mut paged) = (Some(0), Vec::new());
        while let Some(start) = from {
            let page = ledger.inventory(start, limit);
            assert!(page.entries.len() <= limit);
            paged.extend(page.entries);
            from = page.next;
        }
        assert_eq!(paged, entries, "{limit} at a time");
    }
}

#[test]
fn a_page_has_no_more_bytes_than_a_frame_takes() {
    let mut ledger = Ledger::new(1 << 30);
    let count = limits::MAX_INVENTORY_PAGE_BYTES as u64 / limits::MAX_KEY_BYTES as u64 + 10;
    for number in 0..count {
        let key = format!("{number:0width$}", width = limits::MAX_KEY_BYTES);
        put(&mut ledger, &RangeWrite { key: &key, ..write(number * 10, 10, number + 1) });
    }
    let first = ledger.inventory(0, limits::MAX_INVENTORY_PAGE_ENTRIES);
    assert_eq!(first.entries.len() as u64, count - 10);
    let second = ledger.inventory(first.next.expect("there is more"), usize::MAX);
    assert_eq!((second.entries.len(), second.next), (10, None));
}
