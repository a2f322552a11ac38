use std::fmt;
use std::sync::Arc;

use mooncake_memory::PlacedSlice;

use crate::device::Device;
use crate::error::CopyError;
use crate::load::driver;

/// Memory of a device, freed when this is dropped.
pub(crate) struct Allocation {
    device: Arc<Device>,
    address: u64,
    len: usize,
}

impl Allocation {
    /// `len` bytes that mean nothing yet.
    pub(crate) fn new(ordinal: u32, len: usize) -> Result<Allocation, CopyError> {
        let device = Device::of(ordinal)?;
        let address = device.within(|| device.driver().allocate(len))?;
        Ok(Allocation { device, address, len })
    }

    /// Where it starts.
    #[cfg(feature = "testing")]
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// All of it.
    pub(crate) fn whole(&self) -> PlacedSlice {
        // SAFETY: memory of the device that is freed when this is dropped; nothing but its owner knows of it. Should it be used
        // later, the driver says so.
        unsafe { PlacedSlice::of_device(self.device.ordinal(), self.address as usize, self.len) }
    }
}

impl fmt::Debug for Allocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Allocation { address, len, .. } = self;
        f.debug_struct("Allocation").field("address", address).field("len", len).finish()
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // A child has none of it.
        if driver().is_none() {
            return;
        }
        // A context that was lost has freed it.
        if let Err(error) = self.device.within(|| self.device.driver().free(self.address)) {
            tracing::debug!(%error, "memory of a device was not freed");
        }
    }
}
