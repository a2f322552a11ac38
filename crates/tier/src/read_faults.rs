//! Sectors that cannot be read. Each costs the records that lie there, and no more.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use mooncake_types::LogLimiter;

use crate::errors::is_of_medium;

/// At most one file in this many may be unusable when a store is opened.
const MOST_LOST_FILES: usize = 4;

/// Counts and logs reads that failed because of the disk.
#[derive(Debug, Default)]
pub(crate) struct ReadFaults {
    count: AtomicU64,
    lines: LogLimiter<&'static str>,
}

impl ReadFaults {
    /// Notes a read that failed because of the disk; it gives `None`. `cost` says what is lost by that.
    ///
    /// # Errors
    /// The read failed for another reason.
    pub(crate) fn tolerate<T>(
        &self,
        cost: &'static str,
        read: io::Result<T>,
    ) -> io::Result<Option<T>> {
        match read {
            Ok(read) => Ok(Some(read)),
            Err(error) if is_of_medium(&error) => {
                self.note(cost, &error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Counts a fault, and logs it: one line for each cause.
    pub(crate) fn note(&self, cost: &'static str, error: &io::Error) {
        self.count.fetch_add(1, Ordering::Relaxed);
        if let Some(more) = self.lines.admit(cost, Instant::now()) {
            tracing::warn!(%error, cost, more, "a part of a disk cannot be used");
        }
    }

    /// Fails if so many of the files of a store are lost that it is rather the disk than a few sectors. The store must
    /// then remove none: the disk may be well again when it is next opened.
    pub(crate) fn check_losses(lost: usize, files: usize) -> io::Result<()> {
        if lost <= files.div_ceil(MOST_LOST_FILES) {
            return Ok(());
        }
        Err(io::Error::other(format!("{lost} of its {files} files cannot be used")))
    }

    /// How many reads failed because of the disk.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}
