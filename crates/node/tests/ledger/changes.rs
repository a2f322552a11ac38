//! What a ledger reports to a standby, and to a standby that has become the leader.

use std::collections::BTreeMap;

use mooncake_node::{Clearance, Ledger, ListedEntry};
use mooncake_types::{Chance, ErrorCode, Follow, InventoryEntry, RangeWrite, Seal};

use crate::{SEGMENT, version, write};

const LEN: u64 = 64;

/// A master's view of a ledger: its entries by their offsets.
#[derive(Clone, Default)]
struct Known {
    entries: BTreeMap<u64, ListedEntry>,
    since: Option<u64>,
    from: Option<u64>,
}

fn owned(entry: &InventoryEntry<'_>) -> ListedEntry {
    ListedEntry {
        offset: entry.offset,
        len: entry.len,
        key: entry.key.into(),
        version: entry.version,
        grant: entry.grant,
        object_len: entry.object_len,
        object_offset: entry.object_offset,
        state: entry.state,
        attributes: entry.attributes.into(),
    }
}

impl Known {
    /// Asks once. Returns whether another question is due, or why the ledger refused.
    fn ask(&mut self, ledger: &Ledger, limit: usize) -> Result<bool, ErrorCode> {
        let follow =
            Follow { segment: SEGMENT, since: self.since, from: self.from, seal: Seal::NONE };
        let told = ledger.follow(&follow, limit)?;
        let page = told.page();
        assert!(page.entries.len() <= limit && page.gone.len() <= limit);
        for offset in &page.gone {
            self.entries.remove(offset);
        }
        for entry in &page.entries {
            let end = entry.offset + entry.len;
            self.entries.retain(|&at, it| at >= end || at + it.len <= entry.offset);
            self.entries.insert(entry.offset, owned(entry));
        }
        let listed = self.since.is_some() && self.from.is_none();
        (self.since, self.from) = (Some(page.cursor), page.next);
        Ok(page.more || !listed)
    }

    fn catch_up(&mut self, ledger: &Ledger, limit: usize) -> Result<(), ErrorCode> {
        while self.ask(ledger, limit)? {}
        Ok(())
    }
}

fn all(ledger: &Ledger) -> BTreeMap<u64, ListedEntry> {
    let entries = ledger.inventory(0, usize::MAX).entries;
    entries.into_iter().map(|entry| (entry.offset, entry)).collect()
}

/// Makes a random change to a ledger. `counter` is the newest grant so far.
fn change(ledger: &mut Ledger, open: &mut Vec<u64>, counter: &mut u64, chance: &mut Chance) {
    let (offset, len) = (chance.below(LEN), 1 + chance.below(12));
    match chance.below(10) {
        0..5 => {
            let grant = *counter + 1 - chance.below(3).min(*counter);
            *counter += 1;
            let half = if chance.below(3) == 0 { len.div_ceil(2) } else { len };
            let range = RangeWrite { len: half, ..write(offset, len, grant) };
            if let Ok(begun) = ledger.begin(&range) {
                open.push(begun.ticket);
            }
        }
        5..8 if !open.is_empty() => {
            let ticket = open.swap_remove(chance.below(open.len() as u64) as usize);
            match ledger.clearance(ticket) == Clearance::Clear && chance.below(4) > 0 {
                true => assert_eq!(ledger.complete(ticket, vec![]), Ok(())),
                false => ledger.abandon(ticket),
            }
        }
        8 => {
            let there = ledger.entries().nth(chance.below(4) as usize);
            let (at, of) = there.map_or((offset, version(1)), |(at, entry)| (at, entry.version));
            ledger.drop_version(at, of, version(*counter));
        }
        _ if chance.below(40) == 0 => drop(ledger.drop_all()),
        _ => {}
    }
}

/// Two standbys follow at their own pace. Whenever one has caught up, its view equals the ledger.
#[test]
fn who_follows_knows_the_ledger_as_it_is() {
    let (mut caught_up, mut anew) = (0, 0);
    for seed in 0..300 {
        let chance = &mut Chance::new(seed);
        let mut ledger = Ledger::new(LEN);
        ledger.number_changes(chance.below(1000), 5 + chance.below(40) as usize);
        let (mut open, mut counter) = (Vec::new(), 0);
        let mut known = [Known::default(), Known::default()];
        for _ in 0..400 {
            change(&mut ledger, &mut open, &mut counter, chance);
            let known = &mut known[chance.below(2) as usize];
            let limit = 1 + chance.below(6) as usize;
            let asked = match chance.below(12) {
                0..3 => known.ask(&ledger, limit).map(|_| ()),
                3 => known.catch_up(&ledger, limit).map(|()| {
                    caught_up += 1;
                    assert_eq!(known.entries, all(&ledger), "seed {seed}");
                }),
                _ => Ok(()),
            };
            if let Err(code) = asked {
                anew += 1;
                assert_eq!(code, ErrorCode::InvalidVersion);
                *known = Known::default();
            }
        }
        for mut known in known {
            if known.catch_up(&ledger, 3).is_ok() {
                assert_eq!(known.entries, all(&ledger), "seed {seed}");
            }
        }
    }
    assert!(caught_up > 3_000 && anew > 300, "{caught_up} {anew}");
}

#[test]
fn what_did_not_change_is_not_told_again() {
    let mut ledger = Ledger::new(LEN);
    for number in 0..4 {
        let ticket = ledger.begin(&write(number * 10, 10, number + 1)).expect("it is newer").ticket;
        ledger.complete(ticket, vec![]).expect("nobody else is at work");
    }
    let mut known = Known::default();
    assert_eq!(known.catch_up(&ledger, 2), Ok(()));
    let since = known.since.expect("it has caught up");
    let nothing = ledger.changed(since, 9).expect("it is known");
    assert_eq!(
        (nothing.entries, nothing.gone, nothing.cursor, nothing.more),
        (vec![], vec![], since, false)
    );
    ledger.begin(&write(15, 10, 9)).expect("it is newer");
    let changed = ledger.changed(since, 9).expect("it is known");
    let told: Vec<u64> = changed.entries.iter().map(|entry| entry.offset).collect();
    let mut gone = changed.gone.clone();
    gone.sort_unstable();
    assert_eq!((told, gone), (vec![15], vec![10, 20]));
}

#[test]
fn a_cursor_that_the_ledger_never_gave_is_refused() {
    let mut ledger = Ledger::new(LEN);
    ledger.number_changes(100, 4);
    for since in [0, 99, 101, u64::MAX] {
        let follow = Follow { segment: SEGMENT, since: Some(since), from: None, seal: Seal::NONE };
        assert_eq!(ledger.follow(&follow, 9).err(), Some(ErrorCode::InvalidVersion), "{since}");
        assert_eq!(ledger.changed(since, 9), None, "{since}");
    }
    let before = ledger.cursor();
    ledger.drop_all();
    assert_eq!(ledger.changed(before, 9), None, "all of it is gone");
}
