//! What goes by each NIC.

use std::fmt;
use std::sync::Arc;

use mooncake_http::prometheus::{self, Family};
use mooncake_transfer::{FabricDevice, NicUse};

use super::Metrics;

/// A count of each NIC: its name, what it says, and where it stands.
type Count = (&'static str, &'static str, fn(&NicUse) -> u64);

const COUNTS: [Count; 4] = [
    (
        "mooncake_client_nic_read_bytes",
        "Bytes that a NIC was to read from other hosts, repeated reads included",
        |nic| nic.read_bytes,
    ),
    (
        "mooncake_client_nic_written_bytes",
        "Bytes that a NIC was to write to other hosts, repeated writes included",
        |nic| nic.written_bytes,
    ),
    ("mooncake_client_nic_requests", "Requests that a NIC was given", |nic| nic.requests),
    (
        "mooncake_client_nic_lost_requests",
        "Requests that a NIC did not carry out; other NICs repeat them",
        |nic| nic.lost_requests,
    ),
];

impl Metrics {
    /// Includes the NICs of the device for one-sided transfers.
    pub(crate) fn show_device(&self, device: &Arc<FabricDevice>) {
        self.device.get_or_init(|| Arc::clone(device));
    }

    /// Whether there is a device for one-sided transfers.
    pub(crate) fn has_device(&self) -> bool {
        self.device.get().is_some()
    }

    /// Only a process that has NICs has these metrics.
    pub(super) fn nics(&self, out: &mut prometheus::Metrics<'_, '_>) -> fmt::Result {
        let nics = self.device.get().map(|device| device.nics()).unwrap_or_default();
        if nics.is_empty() {
            return Ok(());
        }
        let label = "nic";
        for (name, help, count) in COUNTS {
            let each = nics.iter().map(|nic| (nic.name.as_str(), count(nic)));
            out.counters(Family { name, help, label }, each)?;
        }
        let (name, help) = ("mooncake_client_nic_up", "Whether a NIC works: 1, or 0");
        let each = nics.iter().map(|nic| (nic.name.as_str(), u64::from(nic.is_up)));
        out.gauges(Family { name, help, label }, each)
    }
}
