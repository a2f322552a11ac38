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

/// What goes wrong in a history, beside power cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Faults {
    None,
    /// Calls fail, from some moment on.
    Errors,
    /// For some calls there is no space, and often the disk has no byte left.
    Full,
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
    /// Gone with a file that was given up. The next call that makes room must name them.
    unnamed: BTreeSet<RecordId>,
}

impl Expected {
    fn of(kind: Kind) -> Self {
        let (there, dropped, perhaps) = (BTreeMap::new(), BTreeSet::new(), BTreeMap::new());
        Self { kind, there, dropped, perhaps, unnamed: BTreeSet::new() }
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
        self.unnamed.clear();
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
                    Err(PutError::Full) => {
                        // Others may have filled the disk in the middle of the call.
                        self.perhaps.insert(name, len);
                        let works = self.make_room(disk, len);
                        if works && put(disk, name, len).is_ok() {
                            self.perhaps.remove(&name);
                            self.there.insert(name, len);
                        }
                        return works && !disk.is_broken() && self.learn_losses(disk);
                    }
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
                let distinct: BTreeSet<RecordId> = names.iter().copied().collect();
                let mut gone = disk.drop_records(&names);
                while gone.is_err() && self.kind != Kind::Packs && !disk.is_broken() {
                    gone = disk.drop_records(&names).map(|_| distinct.len());
                }
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
                return self.learn_losses(disk);
            }
            _ if dice.happens(5) => return self.make_room(disk, dice.below(100_000)),
            _ => {
                let absent = get(disk, name(u64::MAX), 0, 1);
                assert!(matches!(absent, Err(ReadError::NotThere)));
            }
        }
        true
    }

    /// Others may have gone with a file that was given up for want of space.
    fn learn_losses(&mut self, disk: &dyn RecordStore) -> bool {
        let is_there =
            |name: &RecordId| !matches!(get(disk, *name, 0, 1), Err(ReadError::NotThere));
        for (name, len) in self.there.extract_if(.., |name, _| !is_there(name)) {
            self.unnamed.insert(name);
            self.perhaps.insert(name, len);
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
            match self.there.remove(&name) {
                Some(len) => _ = self.perhaps.insert(name, len),
                None => assert!(self.unnamed.remove(&name), "only what is there is evicted"),
            }
        }
        assert_eq!(self.unnamed, BTreeSet::new(), "nobody said that they are gone");
        true
    }
}

/// Returns how often the store was opened again, and how many retired files a log took over.
fn live(kind: Kind, seed: u64, faults: Faults) -> (u64, u64) {
    let (power, mut dice) = (kind.power(seed), Dice(seed * 2 + 1));
    let (mut expected, mut next, mut starts) = (Expected::of(kind), 0, 0);
    let mut disk = expected.open(&power);
    println!("{kind:?}, seed {seed}, {faults:?}");
    for step in 0..STEPS {
        match (faults, &power) {
            (Faults::Errors, power) if dice.happens(60) => power.fail_in(dice.below(30)),
            (Faults::Full, Power::Disk(disk)) if dice.happens(20) => {
                disk.run_out_in(dice.below(30), 1 + dice.below(4));
            }
            (Faults::Full, Power::Disk(disk)) if dice.happens(20) => disk.fill(dice.happens(2)),
            _ => {}
        }
        let works = expected.step(&*disk, &mut dice, &mut next);
        assert!(works || faults == Faults::Errors, "{kind:?}, seed {seed}: the disk is broken");
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
fn live_all(kind: Kind, faults: Faults) {
    let all = (1..=histories()).map(|seed| live(kind, seed, faults));
    let (starts, taken_over) = all.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    assert!(starts > histories(), "{kind:?} was opened again {starts} times");
    assert!(kind != Kind::Log || taken_over > histories(), "{taken_over} files were taken over");
}

#[test]
fn what_was_acknowledged_is_there_and_what_was_dropped_never_comes_back() {
    [Kind::Log, Kind::Files, Kind::Packs].into_iter().for_each(|kind| live_all(kind, Faults::None));
}

#[test]
fn the_same_holds_when_any_write_fails() {
    [Kind::Log, Kind::Files, Kind::Packs]
        .into_iter()
        .for_each(|kind| live_all(kind, Faults::Errors));
}

/// No error of space ends a disk, or loses more than what the disk says is gone.
#[test]
fn the_same_holds_when_there_is_no_space_at_any_write() {
    [Kind::Log, Kind::Files].into_iter().for_each(|kind| live_all(kind, Faults::Full));
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
