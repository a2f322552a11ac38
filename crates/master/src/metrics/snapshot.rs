use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mooncake_meta::{SegmentReport, Stats, TenantReport};
use mooncake_types::{Epoch, Medium, ReadCounts};

use super::rpc::RpcMetrics;
use crate::leadership::Service;

/// Everything that the metrics show, at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) stats: Stats,
    /// The epoch under which the leader began.
    pub(crate) term: Epoch,
    /// How much of its service the master provides.
    pub(crate) service: Service,
    /// How late the membership record is.
    pub(crate) record_late: Duration,
    /// Used bytes and capacity of the memory in sight, by segment name. Several segments may share a name.
    pub(crate) segments: BTreeMap<Arc<str>, (u64, u64)>,
    pub(crate) rpc: RpcMetrics,
    /// What clients read.
    pub(crate) reads: ReadCounts,
    /// The tenants with quotas, and a few others. None if quotas are not enforced.
    pub(crate) tenants: Vec<TenantReport>,
    /// The memory that quotas share, in bytes.
    pub(crate) tenant_memory: u64,
}

/// Objects that clients wanted: those that were there, and those that were not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct HitCounts {
    pub(crate) hits: u64,
    pub(crate) misses: u64,
}

impl HitCounts {
    /// An existence check that finds its object is no hit, since the read counts. A check that finds nothing is a
    /// miss, since no read follows.
    fn of(reads: &ReadCounts) -> Self {
        Self { hits: reads.get_hits, misses: reads.get_misses.saturating_add(reads.exist_misses) }
    }

    pub(crate) fn objects(self) -> u64 {
        self.hits.saturating_add(self.misses)
    }

    /// The share of hits; `None` as long as no object was wanted.
    pub(crate) fn hit_ratio(self) -> Option<f64> {
        (self.objects() > 0).then(|| self.hits as f64 / self.objects() as f64)
    }
}

impl Snapshot {
    pub(crate) fn wanted(&self) -> HitCounts {
        HitCounts::of(&self.reads)
    }

    /// Adds segments to the sums.
    pub(crate) fn add(&mut self, reports: &[SegmentReport]) {
        for report in reports {
            self.stats.add(report);
            if report.in_sight && report.medium == Medium::Memory {
                let name = Arc::clone(&report.name);
                let (used, capacity) = self.segments.entry(name).or_default();
                *used += report.used;
                *capacity += report.capacity;
            }
        }
    }

    /// A snapshot to which the segments are still to be added.
    pub(crate) fn new(stats: Stats, rpc: RpcMetrics) -> Snapshot {
        let segments = BTreeMap::new();
        let (service, record_late) = (Service::Serving, Duration::ZERO);
        let reads = ReadCounts::default();
        let (tenants, tenant_memory, term) = (Vec::new(), 0, Epoch::default());
        Snapshot { stats, term, service, record_late, segments, rpc, reads, tenants, tenant_memory }
    }
}
