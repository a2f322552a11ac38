//! The device for one-sided transfers between hosts.

use std::sync::Arc;

use mooncake_transfer::{DeviceWish, FabricDevice, FabricError};

use crate::config::{RdmaConfig, StoreConfig};

/// Opens the device that a configuration asks for: for the protocol `rdma` the NICs of libibverbs, otherwise a device of
/// libfabric.
///
/// # Errors
/// There is none.
pub fn open_fabric_device(config: &StoreConfig) -> Result<Arc<FabricDevice>, FabricError> {
    let fabric = || config.fabric.clone();
    let wish = match &config.rdma {
        None => DeviceWish::Fabric(fabric()),
        Some(RdmaConfig { nic, or_fabric }) => {
            DeviceWish::Nics { nics: nic.clone(), otherwise: or_fabric.then(fabric) }
        }
    };
    wish.open()
}
