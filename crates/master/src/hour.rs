//! The pool in numbers over the last hour, for the page: a ring of samples, one every ten seconds. One task of the owner
//! thread adds to it; readers copy what they have not seen.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::metrics::Snapshot;

/// Time between two samples.
pub(crate) const EVERY: Duration = Duration::from_secs(10);
/// Samples of an hour, with the first and the last.
const KEPT: usize = 361;
/// A request that took the state machine longer than this is slow.
const SLOW_SECONDS: f64 = 0.01;

/// What each number of a sample is. Those after `disk_bytes` are counters of one leadership, which `epoch` names.
pub(crate) const FIELDS: [&str; 24] = [
    "at_ms",
    "epoch",
    "keys",
    "memory_used",
    "memory_bytes",
    "disk_used",
    "disk_bytes",
    "hits",
    "misses",
    "own_bytes",
    "host_bytes",
    "fabric_bytes",
    "tcp_bytes",
    "memory_read",
    "disk_read",
    "shared_disk_read",
    "object_store_read",
    "puts",
    "put_bytes",
    "refused",
    "evicted_keys",
    "evicted_bytes",
    "requests",
    "slow",
];

/// The pool at one moment: see [`FIELDS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Sample([u64; FIELDS.len()]);

impl Sample {
    /// The sample of a snapshot that was just taken.
    pub(crate) fn of(snapshot: &Snapshot) -> Self {
        Self::at(snapshot, SystemTime::now())
    }

    fn at(snapshot: &Snapshot, now: SystemTime) -> Self {
        let since_1970 = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let at_ms = u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX);
        let Snapshot { stats, reads, .. } = snapshot;
        let (wanted, values) = (snapshot.wanted(), snapshot.rpc.value_size.report());
        let [memory, disk, shared_disk, object_store] = reads.tiers().map(|(_, read)| read.bytes);
        let (requests, slow) = snapshot.rpc.requests_and_slow(SLOW_SECONDS);
        Self([
            at_ms,
            snapshot.term.0,
            stats.keys as u64,
            stats.used_bytes,
            stats.capacity_bytes,
            stats.disk_used_bytes,
            stats.disk_capacity_bytes,
            wanted.hits,
            wanted.misses,
            reads.own.bytes,
            reads.host.bytes,
            reads.fabric.bytes,
            reads.tcp.bytes,
            memory,
            disk,
            shared_disk,
            object_store,
            values.count,
            values.sum as u64,
            stats.counters.allocation_failures,
            stats.counters.evicted_keys,
            stats.counters.evicted_bytes,
            requests,
            slow,
        ])
    }
}

/// The samples of the last hour in which this master led.
#[derive(Debug, Default)]
pub(crate) struct Hour {
    samples: VecDeque<Sample>,
    /// Samples that were ever added.
    added: u64,
}

impl Hour {
    /// Adds a sample; the oldest one goes if there are too many.
    pub(crate) fn add(&mut self, sample: Sample) {
        if self.samples.len() == KEPT {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
        self.added += 1;
    }

    /// How many samples were ever added.
    pub(crate) fn added(&self) -> u64 {
        self.added
    }

    /// The samples that were added after the first `seen` ones, as far as they are kept.
    pub(crate) fn since(&self, seen: u64) -> Vec<Sample> {
        let new = usize::try_from(self.added.saturating_sub(seen)).unwrap_or(usize::MAX);
        let known = self.samples.len().saturating_sub(new);
        self.samples.iter().skip(known).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use mooncake_meta::{Counters, Stats};
    use mooncake_types::{Epoch, ReadCounts, ReadVolume};

    use super::*;
    use crate::metrics::RpcMetrics;

    fn sample(number: u64) -> Sample {
        Sample([number; FIELDS.len()])
    }

    #[test]
    fn an_hour_is_kept_and_no_sample_is_told_twice() {
        let mut hour = Hour::default();
        assert_eq!((hour.since(0), hour.added()), (vec![], 0));
        (0..KEPT as u64 + 5).for_each(|number| hour.add(sample(number)));
        assert_eq!(hour.since(0).len(), KEPT);
        assert_eq!(hour.since(0)[0], sample(5));
        assert_eq!(hour.since(KEPT as u64 + 3), [sample(KEPT as u64 + 3), sample(KEPT as u64 + 4)]);
        assert_eq!(hour.since(hour.added()), []);
        assert_eq!(hour.since(u64::MAX), []);
    }

    #[test]
    fn each_number_of_a_sample_stands_under_its_name() {
        let counters = Counters {
            allocation_failures: 1,
            evicted_keys: 2,
            evicted_bytes: 3,
            ..Counters::default()
        };
        let stats = Stats {
            counters,
            keys: 4,
            used_bytes: 5,
            capacity_bytes: 6,
            disk_used_bytes: 7,
            disk_capacity_bytes: 8,
            ..Stats::default()
        };
        let volume = |bytes| ReadVolume { objects: 1, bytes };
        let reads = ReadCounts {
            get_hits: 9,
            get_misses: 10,
            exist_misses: 1,
            own: volume(100),
            host: volume(200),
            tcp: volume(400),
            fabric: volume(300),
            disk: volume(60),
            shared_disk: volume(20),
            object_store: volume(10),
            ..ReadCounts::default()
        };
        let term = Epoch(7);
        let snapshot = Snapshot { reads, term, ..Snapshot::new(stats, RpcMetrics::default()) };
        let Sample(numbers) = Sample::at(&snapshot, UNIX_EPOCH + Duration::from_millis(17));
        let expected =
            [17, 7, 4, 5, 6, 7, 8, 9, 11, 100, 200, 300, 400, 940, 30, 20, 10, 0, 0, 1, 2, 3, 0, 0];
        let named =
            |numbers: [u64; FIELDS.len()]| FIELDS.into_iter().zip(numbers).collect::<Vec<_>>();
        assert_eq!(named(numbers), named(expected));
    }
}
