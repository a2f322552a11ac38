use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mooncake_meta::{SegmentReport, Stats};

use super::rpc::RpcMetrics;
use crate::leadership::Service;

/// Everything that the metrics show, at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) stats: Stats,
    /// How much is done of what is asked.
    pub(crate) service: Service,
    /// How late the membership record is.
    pub(crate) record_late: Duration,
    /// Used bytes and capacity by segment name, of those in sight; several segments may share one.
    pub(crate) segments: BTreeMap<Arc<str>, (u64, u64)>,
    pub(crate) rpc: RpcMetrics,
}

impl Snapshot {
    pub(crate) fn new(stats: Stats, reports: &[SegmentReport], rpc: RpcMetrics) -> Snapshot {
        let mut segments: BTreeMap<Arc<str>, (u64, u64)> = BTreeMap::new();
        for report in reports.iter().filter(|report| report.in_sight) {
            let (used, capacity) = segments.entry(Arc::clone(&report.name)).or_default();
            *used += report.used;
            *capacity += report.capacity;
        }
        let (service, record_late) = (Service::Serving, Duration::ZERO);
        Snapshot { stats, service, record_late, segments, rpc }
    }
}
