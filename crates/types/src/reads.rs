//! The counts of a client's reads, which it reports to the master.

use crate::Medium;

/// A number of objects that were read, and of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadVolume {
    /// Reads of objects. Parts of one object that are read together count as one.
    pub objects: u64,
    /// The bytes that these reads returned.
    pub bytes: u64,
}

impl ReadVolume {
    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.with(other, u64::saturating_add)
    }

    /// The difference of both; zero where `other` is larger.
    fn minus(self, other: Self) -> Self {
        self.with(other, u64::saturating_sub)
    }

    fn with(self, other: Self, join: fn(u64, u64) -> u64) -> Self {
        let (objects, bytes) = (join(self.objects, other.objects), join(self.bytes, other.bytes));
        Self { objects, bytes }
    }
}

/// Counts of the reads of one process since it opened its store. The numbers only grow. Bytes count where they lay. An
/// object counts once by transport and once by tier: for the farthest of its parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCounts {
    /// Objects that gets returned.
    pub get_hits: u64,
    /// Objects that gets asked for and did not find.
    pub get_misses: u64,
    /// Existence checks that found their objects.
    pub exist_hits: u64,
    /// Existence checks that did not find their objects.
    pub exist_misses: u64,
    /// Reads from segments of the same process.
    pub own: ReadVolume,
    /// Reads from other processes of the same host without TCP.
    pub host: ReadVolume,
    /// Reads over TCP.
    pub tcp: ReadVolume,
    /// One-sided reads over libfabric.
    pub fabric: ReadVolume,
    /// Of all these reads, those from disks, shared directories and object stores.
    pub disk: ReadVolume,
    /// Of `disk`, reads from directories that hosts share.
    pub shared_disk: ReadVolume,
    /// Of `disk`, reads from object stores.
    pub object_store: ReadVolume,
}

impl ReadCounts {
    const FIELDS: usize = 18;

    fn fields(&self) -> [u64; Self::FIELDS] {
        let Self { get_hits, get_misses, exist_hits, exist_misses, .. } = *self;
        let Self { own, host, tcp, disk, shared_disk, object_store, fabric, .. } = *self;
        let mut fields = [0; Self::FIELDS];
        let (counts, volumes) = fields.split_at_mut(4);
        counts.copy_from_slice(&[get_hits, get_misses, exist_hits, exist_misses]);
        let all = [own, host, tcp, disk, shared_disk, object_store, fabric];
        volumes.copy_from_slice(all.map(|it| [it.objects, it.bytes]).as_flattened());
        fields
    }

    fn from_fields(fields: [u64; Self::FIELDS]) -> Self {
        let [get_hits, get_misses, exist_hits, exist_misses, volumes @ ..] = fields;
        let volume =
            |at: usize| ReadVolume { objects: volumes[2 * at], bytes: volumes[2 * at + 1] };
        Self {
            get_hits,
            get_misses,
            exist_hits,
            exist_misses,
            own: volume(0),
            host: volume(1),
            tcp: volume(2),
            disk: volume(3),
            shared_disk: volume(4),
            object_store: volume(5),
            fabric: volume(6),
        }
    }

    fn with(&self, other: &Self, join: fn(u64, u64) -> u64) -> Self {
        let (ours, theirs) = (self.fields(), other.fields());
        Self::from_fields(std::array::from_fn(|at| join(ours[at], theirs[at])))
    }

    /// Reads from memory.
    #[must_use]
    pub fn memory(&self) -> ReadVolume {
        let all = self.own.plus(self.host).plus(self.tcp).plus(self.fabric);
        all.minus(self.disk)
    }

    /// Reads from each tier, the nearest first. Each object counts in one tier, the farthest in which a part of it
    /// lay.
    #[must_use]
    pub fn tiers(&self) -> [(Medium, ReadVolume); Medium::ALL.len()] {
        let Self { disk, shared_disk, object_store, .. } = *self;
        Medium::ALL.map(|medium| {
            let read = match medium {
                Medium::Memory => self.memory(),
                Medium::Disk => disk.minus(shared_disk).minus(object_store),
                Medium::SharedDisk => shared_disk,
                Medium::ObjectStore => object_store,
            };
            (medium, read)
        })
    }

    /// The growth since `earlier`; zero where `earlier` is larger.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        self.with(earlier, u64::saturating_sub)
    }

    /// The sum of both, bounded by the largest number.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        self.with(other, u64::saturating_add)
    }

    /// For each count, the larger of both numbers.
    #[must_use]
    pub fn max(&self, other: &Self) -> Self {
        self.with(other, u64::max)
    }
}

/// A client's report of its reads. Counts are totals: a later report makes up for a lost one, and a report that
/// arrives twice counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadReport {
    /// A number that identifies the process, drawn when it opened its store.
    pub run: u64,
    /// All that the process has counted.
    pub counts: ReadCounts,
    /// The counts of the last report that a master confirmed. A master that does not know the process adds only the
    /// difference.
    pub confirmed: ReadCounts,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(first: u64) -> ReadCounts {
        ReadCounts::from_fields(std::array::from_fn(|at| first + at as u64))
    }

    #[test]
    fn each_number_keeps_its_place() {
        let volume = |objects, bytes| ReadVolume { objects, bytes };
        let expected = ReadCounts {
            get_hits: 1,
            get_misses: 2,
            exist_hits: 3,
            exist_misses: 4,
            own: volume(5, 6),
            host: volume(7, 8),
            tcp: volume(9, 10),
            disk: volume(11, 12),
            shared_disk: volume(13, 14),
            object_store: volume(15, 16),
            fabric: volume(17, 18),
        };
        assert_eq!((counts(1), expected.fields()), (expected, counts(1).fields()));
    }

    #[test]
    fn each_object_counts_in_one_tier() {
        let volume = |objects, bytes| ReadVolume { objects, bytes };
        let counts = ReadCounts {
            own: volume(10, 1_000),
            host: volume(20, 2_000),
            tcp: volume(10, 1_000),
            fabric: volume(20, 2_000),
            disk: volume(29, 2_900),
            shared_disk: volume(7, 700),
            object_store: volume(2, 200),
            ..ReadCounts::default()
        };
        let expected = [
            (Medium::Memory, volume(31, 3_100)),
            (Medium::Disk, volume(20, 2_000)),
            (Medium::SharedDisk, volume(7, 700)),
            (Medium::ObjectStore, volume(2, 200)),
        ];
        assert_eq!(counts.tiers(), expected);
        // The report of a process that does not know the tiers beyond disks.
        let older = ReadCounts { shared_disk: volume(0, 0), object_store: volume(0, 0), ..counts };
        assert_eq!(older.tiers()[1], (Medium::Disk, volume(29, 2_900)));
    }

    #[test]
    fn sums_and_differences_end_at_the_bounds() {
        let all = |value| ReadCounts::from_fields([value; ReadCounts::FIELDS]);
        assert_eq!(counts(7).since(&counts(2)), all(5));
        assert_eq!(counts(2).since(&counts(7)), all(0));
        assert_eq!(all(u64::MAX).plus(&counts(1)), all(u64::MAX));
        assert_eq!(counts(1).plus(&all(2)), counts(3));
        assert_eq!(counts(1).max(&counts(3)), counts(3));
    }
}
