//! Counts what this process reads through its store. The master sums these counts for the pool.
//!
//! Each ping carries all counts, and those that a master has confirmed. The master adds the difference, so lost and
//! repeated pings change no sum. The last counts go with `Leave`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use mooncake_ops::MoveError;
use mooncake_transfer::Source;
use mooncake_types::{ErrorCode, Medium, ReadCounts, ReadReport, ReadVolume};

/// Counters of reads; see the module.
#[derive(Debug)]
pub(crate) struct Reads {
    run: u64,
    gets: HitsAndMisses,
    exists: HitsAndMisses,
    /// In the order of [`Source::ALL`].
    volumes: [Volume; Source::ALL.len()],
    /// The same reads by [`Medium`].
    tiers: [Volume; Medium::ALL.len()],
    /// The counts that a master has confirmed.
    confirmed: Mutex<ReadCounts>,
}

#[derive(Debug, Default)]
struct HitsAndMisses {
    hits: AtomicU64,
    misses: AtomicU64,
}

#[derive(Debug, Default)]
pub(super) struct Volume {
    pub(super) objects: AtomicU64,
    pub(super) bytes: AtomicU64,
}

impl Volume {
    pub(super) fn read(&self) -> ReadVolume {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        ReadVolume { objects: load(&self.objects), bytes: load(&self.bytes) }
    }
}

/// A range that was read, or that could not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fetched {
    /// The position of its item in the call.
    pub(crate) position: usize,
    /// The medium that it lies in.
    pub(crate) medium: Medium,
    pub(crate) len: u64,
    pub(crate) result: Result<Source, MoveError>,
}

impl Reads {
    /// All counts are zero. `run` is a number that no other process has.
    pub(super) fn new(run: u64) -> Self {
        let (gets, exists) = (HitsAndMisses::default(), HitsAndMisses::default());
        let (volumes, tiers) = Default::default();
        Self { run, gets, exists, volumes, tiers, confirmed: Mutex::default() }
    }

    /// Counts the results of gets. An unfinished object counts as a miss; other errors do not count.
    pub(crate) fn on_gets<T>(&self, results: &[Result<T, ErrorCode>]) {
        self.on_missed_gets(results);
        self.gets.add(results.iter().filter(|result| result.is_ok()).count(), 0);
    }

    /// Counts only the misses among results, as [`on_gets`](Self::on_gets) does; the others are yet to be read.
    pub(crate) fn on_missed_gets<T>(&self, results: &[Result<T, ErrorCode>]) {
        use ErrorCode::{ObjectNotFound, ReplicaIsNotReady};
        let is_miss = |result: &&Result<T, ErrorCode>| {
            matches!(result, Err(ObjectNotFound | ReplicaIsNotReady))
        };
        self.gets.add(0, results.iter().filter(is_miss).count());
    }

    /// Counts the results of existence checks.
    pub(crate) fn on_exists(&self, answers: &[Result<bool, ErrorCode>]) {
        let count = |wanted| answers.iter().filter(|answer| **answer == Ok(wanted)).count();
        self.exists.add(count(true), count(false));
    }

    /// Counts a prefix check: the first `count` keys exist. All later keys count as missing, since the caller
    /// computes them.
    pub(crate) fn on_prefix(&self, count: u64, keys: usize) {
        let found = usize::try_from(count).unwrap_or(usize::MAX).min(keys);
        self.exists.add(found, keys - found);
    }

    /// Counts ranges that were read; those of one item are adjacent. An item counts as read if all its ranges are. It
    /// counts for the farthest source, and the farthest tier, of its ranges.
    pub(super) fn on_fetched(&self, fetched: &[Fetched]) {
        for of_item in fetched.chunk_by(|one, next| one.position == next.position) {
            let mut farthest = Ok(Source::Own);
            let mut tier = Medium::Memory;
            for Fetched { medium, len, result, .. } in of_item {
                if let Ok(source) = result {
                    self.volumes[*source as usize].bytes.fetch_add(*len, Ordering::Relaxed);
                    self.tiers[*medium as usize].bytes.fetch_add(*len, Ordering::Relaxed);
                    tier = tier.max(*medium);
                }
                farthest = farthest.and_then(|far| result.map(|source| source.max(far)));
            }
            if let Ok(source) = farthest {
                self.volumes[source as usize].objects.fetch_add(1, Ordering::Relaxed);
                self.tiers[tier as usize].objects.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// All counts as they are now.
    pub(super) fn counts(&self) -> ReadCounts {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let from = |source: Source| self.volumes[source as usize].read();
        let tier = |medium: Medium| self.tiers[medium as usize].read();
        let (shared_disk, object_store) = (tier(Medium::SharedDisk), tier(Medium::ObjectStore));
        ReadCounts {
            get_hits: load(&self.gets.hits),
            get_misses: load(&self.gets.misses),
            exist_hits: load(&self.exists.hits),
            exist_misses: load(&self.exists.misses),
            own: from(Source::Own),
            host: from(Source::Host),
            fabric: from(Source::Fabric),
            tcp: from(Source::Tcp),
            disk: tier(Medium::Disk).plus(shared_disk).plus(object_store),
            shared_disk,
            object_store,
        }
    }

    /// The report for the master; `None` if it has confirmed all counts.
    pub(crate) fn report(&self) -> Option<ReadReport> {
        let counts = self.counts();
        let confirmed = *self.confirmed.lock().unwrap_or_else(PoisonError::into_inner);
        (counts != confirmed).then_some(ReadReport { run: self.run, counts, confirmed })
    }

    /// Notes that a master has taken this report.
    pub(crate) fn on_confirmed(&self, report: &ReadReport) {
        let mut confirmed = self.confirmed.lock().unwrap_or_else(PoisonError::into_inner);
        *confirmed = confirmed.max(&report.counts);
    }
}

impl HitsAndMisses {
    fn add(&self, hits: usize, misses: usize) {
        self.hits.fetch_add(hits as u64, Ordering::Relaxed);
        self.misses.fetch_add(misses as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_neither_found_nor_missing_counts_nowhere() {
        let reads = Reads::new(1);
        reads.on_gets(&[
            Ok(1),
            Err(ErrorCode::ObjectNotFound),
            Err(ErrorCode::ReplicaIsNotReady),
            Err(ErrorCode::TransferFail),
            Err(ErrorCode::InvalidKey),
        ]);
        reads.on_exists(&[Ok(true), Ok(true), Ok(false), Err(ErrorCode::RpcFail)]);
        let expected = ReadCounts {
            get_hits: 1,
            get_misses: 2,
            exist_hits: 2,
            exist_misses: 1,
            ..ReadCounts::default()
        };
        assert_eq!(reads.counts(), expected);
    }

    #[test]
    fn an_item_comes_from_where_its_farthest_range_lies() {
        let reads = Reads::new(1);
        let fetched = |position, len, result| Fetched {
            position,
            medium: match len {
                ..=60 => Medium::Memory,
                61..=70 => Medium::Disk,
                71..=80 => Medium::SharedDisk,
                _ => Medium::ObjectStore,
            },
            len,
            result,
        };
        reads.on_fetched(&[
            fetched(0, 10, Ok(Source::Own)),
            fetched(3, 20, Ok(Source::Host)),
            fetched(3, 30, Ok(Source::Tcp)),
            fetched(3, 40, Ok(Source::Own)),
            fetched(4, 50, Ok(Source::Host)),
            fetched(4, 60, Err(MoveError::Stale)),
            fetched(5, 70, Ok(Source::Host)),
            fetched(6, 80, Ok(Source::Host)),
            fetched(7, 90, Ok(Source::Tcp)),
            fetched(7, 65, Ok(Source::Own)),
            fetched(8, 91, Err(MoveError::Stale)),
            fetched(9, 11, Ok(Source::Fabric)),
            fetched(9, 12, Ok(Source::Host)),
            fetched(10, 13, Ok(Source::Fabric)),
            fetched(10, 14, Ok(Source::Tcp)),
        ]);
        let volume = |objects, bytes| ReadVolume { objects, bytes };
        let counts = reads.counts();
        let expected = [
            volume(1, 50 + 65),
            volume(2, 20 + 50 + 70 + 80 + 12),
            volume(1, 11 + 13),
            volume(3, 30 + 90 + 14),
        ];
        assert_eq!([counts.own, counts.host, counts.fabric, counts.tcp], expected);
        let expected =
            [volume(4, 150 + 11 + 12 + 13 + 14), volume(1, 70 + 65), volume(1, 80), volume(1, 90)];
        assert_eq!(counts.tiers().map(|(_, read)| read), expected);
        assert_eq!(counts.disk, volume(3, 70 + 65 + 80 + 90));
    }

    #[test]
    fn what_no_master_confirmed_is_told_again() {
        let reads = Reads::new(7);
        assert_eq!(reads.report(), None, "there is nothing to tell");
        reads.on_exists(&[Ok(true)]);
        let first = reads.report().expect("a check was counted");
        reads.on_exists(&[Ok(false)]);
        let second = reads.report().expect("the first was not confirmed");
        assert_eq!((second.run, second.confirmed), (7, ReadCounts::default()));
        reads.on_confirmed(&first);
        assert_eq!(reads.report().map(|report| report.confirmed), Some(first.counts));
        reads.on_confirmed(&second);
        reads.on_confirmed(&first);
        assert_eq!(reads.report(), None);
    }
}
