//! Warnings about memory, before it is lent.

use std::os::fd::OwnedFd;
use std::path::Path;

use mooncake_memory::{MemoryLimit, lies_in_memory};
use mooncake_types::ByteSize;

/// The warning if `lent_bytes`, all that a process lends, exceed its limit of memory.
pub(super) fn more_than(limit: Option<MemoryLimit>, lent_bytes: u64) -> Option<String> {
    let limit = limit.filter(|limit| limit.bytes < lent_bytes)?;
    Some(format!(
        "this process lends {}, more than {limit}: it is killed when the pool fills up; lend less, or raise the limit",
        ByteSize(lent_bytes)
    ))
}

/// Warns if `lent_bytes`, all that a process lends, exceed its memory.
pub(super) fn check_size(lent_bytes: u64) {
    if let Some(warning) = more_than(MemoryLimit::look(), lent_bytes) {
        tracing::warn!("{warning}");
    }
}

/// Warns of a file that lies on a disk. Returns whether it lies in memory.
pub(super) fn check_place(file: &OwnedFd, path: &Path) -> bool {
    // If the system does not say, assume memory.
    let is_in_memory = lies_in_memory(file).unwrap_or(true);
    if !is_in_memory {
        warn_of_disk(path);
    }
    is_in_memory
}

/// Warns of a segment file that lies on a disk.
pub(super) fn warn_of_disk(path: &Path) {
    tracing::warn!(
        path = %path.display(),
        "this segment lies on a disk, which every put is written to: puts become as slow as it; use a file in /dev/shm or another tmpfs"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_larger_than_its_container_or_machine_is_warned_about() {
        let limit = |is_of_container| Some(MemoryLimit { bytes: 4 << 30, is_of_container });
        let warning = |what| {
            Some(format!(
                "this process lends 8 GB, more than 4 GB, {what}: it is killed when the pool fills up; lend less, or \
                 raise the limit"
            ))
        };
        for (limit, lent, expected) in [
            (limit(true), 8 << 30, warning("the memory limit of its container")),
            (limit(false), 8 << 30, warning("all the memory of this machine")),
            (limit(true), 4 << 30, None),
            (limit(true), 0, None),
            (None, u64::MAX, None),
        ] {
            assert_eq!(more_than(limit, lent), expected, "{limit:?} {lent}");
        }
    }
}
