//! What a client counts of its reads, and tells the master.

/// Objects that were read, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadVolume {
    /// Objects, or parts of one object that were read together.
    pub objects: u64,
    /// Bytes of them.
    pub bytes: u64,
}

/// What one process has read since it opened its store. The numbers only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCounts {
    /// Objects that were got.
    pub get_hits: u64,
    /// Objects that were to be got and were not there.
    pub get_misses: u64,
    /// Existence checks that found their objects.
    pub exist_hits: u64,
    /// Existence checks that found nothing.
    pub exist_misses: u64,
    /// What was read from segments of the same process.
    pub own: ReadVolume,
    /// What was read from other processes of the same host without TCP.
    pub host: ReadVolume,
    /// What was read by TCP.
    pub tcp: ReadVolume,
    /// Of all these, what lay on disks, at least in part.
    pub disk: ReadVolume,
}

impl ReadCounts {
    const FIELDS: usize = 12;

    fn fields(&self) -> [u64; Self::FIELDS] {
        let Self { get_hits, get_misses, exist_hits, exist_misses, own, host, tcp, disk } = *self;
        let volumes = [own, host, tcp, disk].map(|volume| [volume.objects, volume.bytes]);
        let [own, host, tcp, disk] = volumes;
        let [hits, misses] = [[get_hits, get_misses], [exist_hits, exist_misses]];
        let mut fields = [0; Self::FIELDS];
        fields.copy_from_slice([hits, misses, own, host, tcp, disk].as_flattened());
        fields
    }

    fn from_fields(fields: [u64; Self::FIELDS]) -> Self {
        let [get_hits, get_misses, exist_hits, exist_misses, volumes @ ..] = fields;
        let volume = |at: usize| ReadVolume { objects: volumes[at], bytes: volumes[at + 1] };
        let (own, host, tcp, disk) = (volume(0), volume(2), volume(4), volume(6));
        Self { get_hits, get_misses, exist_hits, exist_misses, own, host, tcp, disk }
    }

    fn with(&self, other: &Self, join: fn(u64, u64) -> u64) -> Self {
        let (ours, theirs) = (self.fields(), other.fields());
        Self::from_fields(std::array::from_fn(|at| join(ours[at], theirs[at])))
    }

    /// What was read from memory alone.
    #[must_use]
    pub fn memory(&self) -> ReadVolume {
        let Self { own, host, tcp, disk, .. } = self;
        let all = |of: fn(&ReadVolume) -> u64| [own, host, tcp].into_iter().map(of).sum::<u64>();
        ReadVolume {
            objects: all(|volume| volume.objects).saturating_sub(disk.objects),
            bytes: all(|volume| volume.bytes).saturating_sub(disk.bytes),
        }
    }

    /// What came since `earlier`; nothing where that says more.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        self.with(earlier, u64::saturating_sub)
    }

    /// Both together, the largest number where that is too much.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        self.with(other, u64::saturating_add)
    }

    /// The larger of each two numbers.
    #[must_use]
    pub fn max(&self, other: &Self) -> Self {
        self.with(other, u64::max)
    }
}

/// What a client tells of its reads. Of two reports the later one says all that the earlier one said, so one that is lost
/// loses nothing, and one that arrives twice counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadReport {
    /// A number for the process that counts, drawn when it opened its store.
    pub run: u64,
    /// All that it has counted.
    pub counts: ReadCounts,
    /// What it had counted by its last report that a master confirmed. A master that does not know the process counts
    /// what came since.
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
        };
        assert_eq!((counts(1), expected.fields()), (expected, counts(1).fields()));
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
