use crate::limits;

/// The medium that holds the bytes of a segment. Readers prefer the replica on the lesser medium.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Medium {
    /// Memory of a node.
    #[default]
    Memory = 0,
    /// A folder on a disk of one node. No put goes there: nodes offload to it.
    Disk = 1,
    /// Files in a directory that hosts share, one for each object. No put goes there: nodes offload to it.
    SharedDisk = 2,
    /// A prefix of an object store that belongs to one node. No put goes there: that node offloads to it the objects
    /// that were used again.
    ObjectStore = 3,
}

/// A record on a disk begins and ends at multiples of this, in bytes.
const BLOCK: u64 = 4096;
/// Reserved for the header of a record, without the checksums of its chunks, in bytes. Keys of usual length fit.
const HEADER_BYTES: u64 = 1024;

impl Medium {
    /// All media, in the order in which readers prefer them.
    pub const ALL: [Medium; 4] = [Self::Memory, Self::Disk, Self::SharedDisk, Self::ObjectStore];

    /// The name of the tier in metrics.
    #[must_use]
    pub const fn tier(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Disk => "disk",
            Self::SharedDisk => "shared_disk",
            Self::ObjectStore => "object_store",
        }
    }

    /// Bytes that a range of this length takes. Except in memory, a record has a header, and both header and bytes are
    /// padded to blocks.
    #[must_use]
    pub const fn reserved_len(self, len: u64) -> u64 {
        match self {
            Self::Memory => len,
            Self::Disk | Self::SharedDisk | Self::ObjectStore => {
                let header = HEADER_BYTES + 4 * len.div_ceil(limits::CHUNK_BYTES);
                let blocks = len.div_ceil(BLOCK) + header.div_ceil(BLOCK);
                blocks.saturating_mul(BLOCK)
            }
        }
    }
}

/// A directory that hosts share, as the master names it to its nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedDirectory {
    /// Its path, the same on every host.
    pub path: String,
    /// Most bytes that each process keeps there; zero stands for a share of the filesystem.
    pub most_bytes: u64,
    /// Whether the oldest files are deleted when there is no room for a new one.
    pub evicts: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_disks_a_range_takes_whole_blocks_and_a_header() {
        for (len, expected) in [
            (1, 2 * BLOCK),
            (BLOCK, 2 * BLOCK),
            (BLOCK + 1, 3 * BLOCK),
            (1 << 20, 257 * BLOCK),
            (1 << 30, (1 << 30) + 5 * BLOCK),
            (u64::MAX, u64::MAX),
        ] {
            assert_eq!(Medium::Disk.reserved_len(len), expected, "{len}");
            assert_eq!(Medium::SharedDisk.reserved_len(len), expected, "{len}");
            assert_eq!(Medium::ObjectStore.reserved_len(len), expected, "{len}");
            assert_eq!(Medium::Memory.reserved_len(len), len);
        }
    }
}
