use std::fmt;
use std::sync::Arc;

use mooncake_memory::PlacedSlice;

use crate::device::Device;
use crate::error::CopyError;
use crate::load::driver;

/// Memory of a device. Dropping this frees it.
pub(crate) struct Allocation {
    device: Arc<Device>,
    address: u64,
    len: usize,
}

impl Allocation {
    /// Allocates `len` uninitialised bytes.
    pub(crate) fn new(ordinal: u32, len: usize) -> Result<Allocation, CopyError> {
        let device = Device::of(ordinal)?;
        let address = device.within(|| device.driver().allocate(len))?;
        Ok(Allocation { device, address, len })
    }

    /// Address of the first byte.
    #[cfg(feature = "testing")]
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// All bytes of the allocation.
    pub(crate) fn whole(&self) -> PlacedSlice<'_> {
        // SAFETY: device memory that only this allocation's owner knows, until the drop frees it. A later use is an
        // error that the driver reports.
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
        // A forked child does not have the allocation.
        if driver().is_none() {
            return;
        }
        // Losing the context has freed it already, and the driver then reports an error.
        if let Err(error) = self.device.within(|| self.device.driver().free(self.address)) {
            tracing::debug!(%error, "memory of a device was not freed");
        }
    }
}
