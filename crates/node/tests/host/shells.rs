//! The kinds of segment, and a macro that runs a test on each.

use std::sync::Arc;

use mooncake_memory::Region;
use mooncake_node::{DiskKind, DiskOptions, DiskSegment, Host, Segment};
use mooncake_tier::testing::DiskDouble;
use mooncake_types::{ClientId, SegmentId};

/// The medium of a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shell {
    Memory,
    Disk,
    SharedDisk,
}

impl Shell {
    /// A host with one segment of at least `len` bytes.
    pub(crate) fn host(self, segment: SegmentId, len: u64) -> Host {
        match self {
            Self::Memory => {
                let region = Region::anonymous(len).expect("a little memory");
                Host::new(vec![Segment::new(segment, region)])
            }
            Self::Disk => disk_host(DiskKind::Log, segment, len),
            Self::SharedDisk => disk_host(FILES, segment, len),
        }
    }
}

fn disk_host(kind: DiskKind, segment: SegmentId, len: u64) -> Host {
    let host = Host::new(Vec::new());
    host.lend_disk(disk_of(kind, &DiskDouble::new(1), segment, (4 * len).max(1 << 20)));
    host
}

/// One file for each object; the disk evicts files when it is full.
pub(crate) const FILES: DiskKind = DiskKind::Files { evicts: true };

/// A log of this capacity.
pub(crate) fn disk(double: &DiskDouble, segment: SegmentId, capacity_bytes: u64) -> DiskSegment {
    disk_of(DiskKind::Log, double, segment, capacity_bytes)
}

/// A disk of this kind and capacity.
pub(crate) fn disk_of(
    kind: DiskKind,
    double: &DiskDouble,
    segment: SegmentId,
    capacity_bytes: u64,
) -> DiskSegment {
    let options = DiskOptions { kind, ..options(segment, capacity_bytes) };
    DiskSegment::open_directory(Arc::new(double.directory()), options).expect("it opens")
}

/// The options of [`disk`].
pub(crate) fn options(segment: SegmentId, capacity_bytes: u64) -> DiskOptions {
    DiskOptions {
        kind: DiskKind::Log,
        cluster: "cluster".to_owned(),
        capacity_bytes,
        client: ClientId(5),
        is_client_settled: false,
        segment,
        staging_bytes: capacity_bytes,
        seed: 1,
    }
}

/// Makes one test for each [`Shell`] of every function that takes one.
macro_rules! for_all_shells {
    ($($test:ident),* $(,)?) => {
        mod memory {
            $(
                #[test]
                fn $test() {
                    super::$test(crate::shells::Shell::Memory);
                }
            )*
        }

        mod disk {
            $(
                #[test]
                fn $test() {
                    super::$test(crate::shells::Shell::Disk);
                }
            )*
        }

        mod shared_disk {
            $(
                #[test]
                fn $test() {
                    super::$test(crate::shells::Shell::SharedDisk);
                }
            )*
        }
    };
}
pub(crate) use for_all_shells;
