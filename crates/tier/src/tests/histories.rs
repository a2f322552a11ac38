//! Random histories of successive processes. After each start the test checks what the store promised.

use std::collections::{BTreeMap, BTreeSet};

use super::{CONFIG, Dice, Kind, Power, bytes, get, name, put};
use crate::{FileStore, LogStore, OpenError, PutError, ReadError, RecordId, RecordStore};

const HISTORIES: u64 = 60;
const STEPS: u64 = 300;

/// Number of histories, from `MOONCAKE_TEST_LIVES` if it is set.
fn histories() -> u64 {
    let lives = std::env::var("MOONCAKE_TEST_LIVES").ok();
    lives.map_or(HISTORIES, |text| text.parse().expect("MOONCAKE_TEST_LIVES is a number"))
}

/// Which records must, may and must not be on the disk.
struct Expected {
    kind: Kind,
    /// Put and acknowledged, and neither dropped nor evicted since.
    there: BTreeMap<RecordId, u64>,
    /// Their drop was acknowledged.
    dropped: BTreeSet<RecordId>,
    /// Evicted, or their put or drop was never acknowledged: they may return.
    perhaps: BTreeMap<RecordId, u64>,
}

impl Expected {
    fn of(kind: Kind) -> Self {
        let (there, dropped, perhaps) = (BTreeMap::new(), BTreeSet::new(), BTreeMap::new());
        Self { kind, there, dropped, perhaps }
    }

    /// Opens the store and checks which records it reports.
    fn open(&mut self, power: &Power) -> Box<dyn RecordStore> {
        let (disk, told) = loop {
            let mut told = BTreeMap::new();
            let disk = self.kind.open_on(power, |record| {
                assert!(told.insert(record.name, record.len).is_none(), "{record:?} is told twice");
            });
            match disk {
                // A delayed write of the previous process arrived meanwhile.
                Err(OpenError::InUse(_)) => assert_eq!(self.kind, Kind::Packs),
                disk => break (disk.expect("it opens after whatever happened"), told),
            }
        };
        for name in self.there.keys() {
            assert!(told.contains_key(name), "{name:?} was acknowledged, and is lost");
        }
        for (&name, &len) in &told {
            assert!(!self.dropped.contains(&name), "{name:?} was dropped, and is back");
            let len_put = self.there.get(&name).or(self.perhaps.get(&name));
            assert_eq!(len_put, Some(&len), "{name:?}");
        }
        (self.there, self.perhaps) = (told, BTreeMap::new());
        self.check(&*disk);
        disk
    }

    fn check(&self, disk: &dyn RecordStore) {
        for (&name, &len) in &self.there {
            assert!(get(disk, name, 0, len).expect("it is there") == bytes(name, len), "{name:?}");
        }
        assert!(self.kind == Kind::Packs || disk.usage().used_bytes <= CONFIG.capacity);
        assert_eq!(disk.usage().records, self.there.len(), "no others are there");
    }

    fn random(&self, dice: &mut Dice) -> Option<RecordId> {
        let count = self.there.len() as u64;
        (count > 0)
            .then(|| dice.below(count) as usize)
            .and_then(|at| self.there.keys().nth(at).copied())
    }

    /// Makes one random call. Returns false if the store failed.
    fn step(&mut self, disk: &dyn RecordStore, dice: &mut Dice, next: &mut u64) -> bool {
        match dice.below(10) {
            0..5 => {
                *next += 1;
                let (name, len) = (name(*next), 1 + dice.below(30_000));
                match put(disk, name, len) {
                    Ok(()) => {
                        self.there.insert(name, len);
                    }
                    Err(PutError::Full) => return self.make_room(disk, len),
                    Err(PutError::Broken(_) | PutError::Unreachable(_)) => {
                        self.perhaps.insert(name, len);
                        return false;
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            5..7 => {
                let Some(name) = self.random(dice) else { return true };
                let len = self.there[&name];
                let from = dice.below(len);
                let part = get(disk, name, from, len - from).expect("it is there");
                assert!(part == bytes(name, len)[from as usize..], "{name:?}");
            }
            7..9 => {
                let names: Vec<RecordId> =
                    (0..dice.below(4)).filter_map(|_| self.random(dice)).collect();
                let gone = disk.drop_records(&names);
                let distinct: BTreeSet<RecordId> = names.into_iter().collect();
                for name in &distinct {
                    let len = self.there.remove(name).expect("it was there");
                    match gone {
                        Ok(_) => self.dropped.insert(*name),
                        Err(_) => self.perhaps.insert(*name, len).is_none(),
                    };
                }
                match gone {
                    Ok(count) => assert_eq!(count, distinct.len()),
                    Err(_) => return false,
                }
            }
            _ if dice.happens(5) => return self.make_room(disk, dice.below(100_000)),
            _ => {
                let absent = get(disk, name(u64::MAX), 0, 1);
                assert!(matches!(absent, Err(ReadError::NotThere)));
            }
        }
        true
    }

    fn make_room(&mut self, disk: &dyn RecordStore, wanted: u64) -> bool {
        let Ok(evicted) = disk.make_room(wanted) else {
            // The call failed, so any of the records may be evicted.
            self.perhaps.append(&mut self.there);
            return false;
        };
        for name in evicted {
            let len = self.there.remove(&name).expect("only what is there is evicted");
            self.perhaps.insert(name, len);
        }
        true
    }
}

/// Returns how often the store was opened again, and how many retired files a log took over.
fn live(kind: Kind, seed: u64, faults: bool) -> (u64, u64) {
    let (power, mut dice) = (kind.power(seed), Dice(seed * 2 + 1));
    let (mut expected, mut next, mut starts) = (Expected::of(kind), 0, 0);
    let mut disk = expected.open(&power);
    for step in 0..STEPS {
        if faults && dice.happens(60) {
            power.fail_in(dice.below(30));
        }
        let works = expected.step(&*disk, &mut dice, &mut next);
        if works && step % 16 == 0 {
            expected.check(&*disk);
        }
        if !works && kind == Kind::Packs && dice.happens(2) {
            // An object store continues once it can be reached again.
            power.heal();
        } else if !works || dice.happens(25) {
            match dice.happens(2) {
                true => power.cut(),
                false => power.kill(),
            }
            drop(disk);
            disk = expected.open(&power);
            starts += 1;
        }
    }
    let taken_over = match &power {
        Power::Disk(disk) => disk.renumbered(),
        Power::Bucket(_) => 0,
    };
    (starts, taken_over)
}

/// Runs all histories of a kind, and checks that they did what they are for.
fn live_all(kind: Kind, faults: bool) {
    let all = (1..=histories()).map(|seed| live(kind, seed, faults));
    let (starts, taken_over) = all.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    assert!(starts > histories(), "{kind:?} was opened again {starts} times");
    assert!(kind != Kind::Log || taken_over > histories(), "{taken_over} files were taken over");
}

#[test]
fn what_was_acknowledged_is_there_and_what_was_dropped_never_comes_back() {
    [Kind::Log, Kind::Files, Kind::Packs].into_iter().for_each(|kind| live_all(kind, false));
}

#[test]
fn the_same_holds_when_any_write_fails() {
    [Kind::Log, Kind::Files, Kind::Packs].into_iter().for_each(|kind| live_all(kind, true));
}

#[test]
fn of_what_was_made_empty_no_record_comes_back() {
    for (kind, seed) in (1..=20).flat_map(|seed| [(Kind::Log, seed), (Kind::Files, seed)]) {
        let (power, mut expected) = (kind.power(seed), Expected::of(kind));
        let Power::Disk(disk_power) = &power else { unreachable!("it is a disk") };
        let disk = expected.open(&power);
        let puts = (1..).take_while(|&number| put(&*disk, name(number), 30_000).is_ok()).count();
        assert!(puts > 10, "{puts}");
        power.kill();
        let emptied = match kind {
            Kind::Log => LogStore::empty(&disk_power.directory()),
            Kind::Files | Kind::Packs => FileStore::empty(&disk_power.directory()),
        };
        emptied.expect("the disk works");
        power.cut();
        let disk = kind.open_on(&power, |record| panic!("{record:?} is back"));
        assert_eq!(disk.expect("it opens").usage().records, 0);
    }
}
