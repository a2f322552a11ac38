//! Counts what this process writes, by where to.

use std::sync::atomic::Ordering;

use mooncake_transfer::Source;
use mooncake_types::ReadVolume;

use super::reads::Volume;

/// Ranges that were written, in the order of [`Source::ALL`].
#[derive(Debug, Default)]
pub(super) struct Writes([Volume; Source::ALL.len()]);

impl Writes {
    /// Counts ranges: where each lies, and its length in bytes.
    pub(super) fn add(&self, written: impl Iterator<Item = (Source, u64)>) {
        let mut sums = [(0, 0); Source::ALL.len()];
        for (source, len) in written {
            let (ranges, bytes) = &mut sums[source as usize];
            (*ranges, *bytes) = (*ranges + 1, *bytes + len);
        }
        for (volume, (ranges, bytes)) in self.0.iter().zip(sums).filter(|(_, sum)| sum.0 > 0) {
            volume.objects.fetch_add(ranges, Ordering::Relaxed);
            volume.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// The bytes of all.
    pub(super) fn bytes(&self) -> u64 {
        self.volumes().iter().map(|(_, written)| written.bytes).sum()
    }

    pub(super) fn volumes(&self) -> [(Source, ReadVolume); Source::ALL.len()] {
        Source::ALL.map(|source| (source, self.0[source as usize].read()))
    }
}
