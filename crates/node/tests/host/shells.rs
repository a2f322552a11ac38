//! Both shells of a segment: what a transport relies on holds for each.

use std::sync::Arc;

use mooncake_memory::Region;
use mooncake_node::{DiskOptions, DiskSegment, Host, Segment};
use mooncake_tier::testing::DiskDouble;
use mooncake_types::{ClientId, SegmentId};

/// Where the bytes of a segment lie.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shell {
    Memory,
    Disk,
}

impl Shell {
    /// A host of one segment that is at least so long.
    pub(crate) fn host(self, segment: SegmentId, len: u64) -> Host {
        match self {
            Self::Memory => {
                let region = Region::anonymous(len).expect("a little memory");
                Host::new(vec![Segment::new(segment, region)])
            }
            Self::Disk => {
                let host = Host::new(Vec::new());
                host.lend_disk(disk(&DiskDouble::new(1), segment, (4 * len).max(1 << 20)));
                host
            }
        }
    }
}

/// A disk that takes so many bytes.
pub(crate) fn disk(double: &DiskDouble, segment: SegmentId, capacity_bytes: u64) -> DiskSegment {
    let options = options(segment, capacity_bytes);
    DiskSegment::open_directory(Arc::new(double.directory()), options).expect("it opens")
}

/// What [`disk`] asks for.
pub(crate) fn options(segment: SegmentId, capacity_bytes: u64) -> DiskOptions {
    DiskOptions {
        cluster: "cluster".to_owned(),
        capacity_bytes,
        client: ClientId(5),
        is_client_settled: false,
        segment,
        staging_bytes: capacity_bytes,
        seed: 1,
    }
}

/// Runs functions that take a [`Shell`] as tests of each.
macro_rules! for_both_shells {
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
    };
}
pub(crate) use for_both_shells;
