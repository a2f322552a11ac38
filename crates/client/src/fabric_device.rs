//! The device for one-sided transfers between hosts.

use std::sync::Arc;

use mooncake_transfer::{FabricDevice, FabricError, FabricLimits};

use crate::config::{RdmaConfig, StoreConfig};

/// Why the protocol `rdma` takes another way.
pub(crate) const NO_NIC: &str = "there is no NIC of libibverbs";

/// Opens the device that a configuration asks for: for the protocol `rdma` a NIC of libibverbs, otherwise a device of
/// libfabric.
///
/// # Errors
/// There is none.
pub fn open_fabric_device(config: &StoreConfig) -> Result<Arc<FabricDevice>, FabricError> {
    let limits = FabricLimits::default();
    let Some(RdmaConfig { nic, or_fabric }) = &config.rdma else {
        return FabricDevice::open(&config.fabric, limits);
    };
    match FabricDevice::open_verbs(nic, limits) {
        Err(error) if *or_fabric => {
            tracing::warn!(%error, "protocol 'rdma': {NO_NIC}, so libfabric is asked");
            FabricDevice::open(&config.fabric, limits)
        }
        opened => opened,
    }
}
