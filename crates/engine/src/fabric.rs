//! The device by which engines reach each other one-sided.

use std::sync::Arc;

use mooncake_transfer::{DeviceWish, FabricDevice, NO_NIC, Transports, Way};

use crate::{EngineConfig, OpenError};

/// Opens the device that the configuration names, and says by which ways peers are reached. `None` means TCP.
pub(crate) fn open(
    config: &EngineConfig,
) -> Result<Option<(Arc<FabricDevice>, Transports)>, OpenError> {
    let Some((ways, wish)) = &config.fabric else { return Ok(None) };
    match wish.open() {
        Ok(device) => {
            tracing::info!(device = %device.device(), "peers are reached one-sided");
            Ok(Some((device, ways.clone())))
        }
        Err(error) if ways.allows(Way::Tcp) => {
            match wish {
                DeviceWish::Nics { .. } => {
                    tracing::warn!(%error, "protocol 'rdma': {NO_NIC}, so peers are reached by tcp");
                }
                DeviceWish::Fabric(_) => {
                    tracing::warn!(%error, "fabric cannot be used, so peers are reached by tcp");
                }
            }
            Ok(None)
        }
        Err(error) => Err(OpenError::Fabric { reason: error.to_string() }),
    }
}
