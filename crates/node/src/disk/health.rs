//! What a disk has lost, and whether its reads keep failing.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use mooncake_types::{LogLimiter, SegmentId};

/// What a failed read adds to the score of a disk. Each read that succeeds takes one from it.
const FAILED_READ: u64 = 16;
/// A disk with this score has failed. So 64 failed reads in a row end it, or more than one in 17 for long. Single bad
/// sectors do not.
const FAILED_DISK: u64 = 1024;

/// Why objects left a disk that the master had not asked to drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LossCause {
    /// They could not be read, or were damaged.
    Unreadable,
    /// The log needed their room.
    NoRoom,
}

/// Counts of a disk, from its opening on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskLosses {
    /// Objects that could not be read, or were damaged.
    pub unreadable: u64,
    /// Objects whose room was needed: others have filled the filesystem, or headers take more room than usual.
    pub no_room: u64,
    /// Reads that the disk failed, when it was opened, read or cleaned.
    pub failed_reads: u64,
}

/// A disk that has failed and is lent no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedDisk {
    /// The id of its segment.
    pub segment: SegmentId,
    /// Its folder, if it lay in a filesystem.
    pub folder: Option<PathBuf>,
    /// Why it failed.
    pub reason: Arc<str>,
}

/// Keeps the counts, and logs one line for each cause.
#[derive(Debug, Default)]
pub(super) struct DiskHealth {
    unreadable: AtomicU64,
    no_room: AtomicU64,
    failed_reads: AtomicU64,
    score: AtomicU64,
    lines: LogLimiter<&'static str>,
}

impl DiskLosses {
    /// All objects that were lost.
    #[must_use]
    pub const fn objects(&self) -> u64 {
        self.unreadable + self.no_room
    }

    pub(crate) const fn and(self, other: Self) -> Self {
        Self {
            unreadable: self.unreadable + other.unreadable,
            no_room: self.no_room + other.no_room,
            failed_reads: self.failed_reads + other.failed_reads,
        }
    }
}

impl DiskHealth {
    pub(super) fn on_read(&self) {
        // Nearly always zero: then this costs one load.
        if self.score.load(Ordering::Relaxed) > 0 {
            let less = |score: u64| Some(score.saturating_sub(1));
            let _ = self.score.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        }
    }

    /// Notes a read that the disk failed. Returns true if too many fail.
    pub(super) fn on_failed_read(&self) -> bool {
        self.failed_reads.fetch_add(1, Ordering::Relaxed);
        self.score.fetch_add(FAILED_READ, Ordering::Relaxed) + FAILED_READ >= FAILED_DISK
    }

    /// Counts objects that are lost.
    pub(super) fn on_loss(&self, cause: LossCause, objects: u64) {
        let count = match cause {
            LossCause::Unreadable => &self.unreadable,
            LossCause::NoRoom => &self.no_room,
        };
        count.fetch_add(objects, Ordering::Relaxed);
    }

    /// Whether to log a line about a cause now. If so, returns how many were kept back since the last.
    pub(super) fn admit(&self, cause: &'static str) -> Option<u64> {
        self.lines.admit(cause, Instant::now())
    }

    pub(super) fn losses(&self) -> DiskLosses {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        DiskLosses {
            unreadable: read(&self.unreadable),
            no_room: read(&self.no_room),
            failed_reads: read(&self.failed_reads),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many reads of a disk it takes to end it, if one in `one_in` fails; `None` if it is never ended.
    fn ended_after(one_in: u64) -> Option<u64> {
        let health = DiskHealth::default();
        (1..1_000_000).find(|read| match read % one_in {
            0 => health.on_failed_read(),
            _ => {
                health.on_read();
                false
            }
        })
    }

    #[test]
    fn a_disk_ends_when_its_reads_keep_failing_and_not_at_single_sectors() {
        assert_eq!(ended_after(1), Some(64));
        assert!(ended_after(2).is_some_and(|reads| reads < 150), "{:?}", ended_after(2));
        assert_eq!(ended_after(17), None);
        assert_eq!(ended_after(1_000), None);
    }
}
