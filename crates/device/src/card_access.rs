//! Memory of a device that network cards read and write.

use std::sync::OnceLock;

use mooncake_memory::{DeviceAccess, DeviceRegion, Dmabuf, page_bytes};

use crate::allocation::Allocation;
use crate::device::Device;
use crate::error::CopyError;
use crate::load::driver;
use crate::place::each_allocation;

/// Length of the memory of [`try_with_region`]: what the driver allocates at once.
const TRIAL_BYTES: usize = 2 << 20;

/// Memory of the device that has this ordinal.
#[derive(Debug)]
struct CardAccess {
    ordinal: u32,
    address: u64,
    len: u64,
    /// Whether the device has to be told of writes, once it was asked.
    wants_flush: OnceLock<bool>,
}

/// The `len` bytes at `address` of a device, as transfers use it in place. They should stay allocated for as long: where
/// they do not, transfers fail, or move other bytes of the device.
#[must_use]
pub fn device_region(ordinal: u32, address: usize, len: usize) -> DeviceRegion {
    let wants_flush = OnceLock::new();
    let access = CardAccess { ordinal, address: address as u64, len: len as u64, wants_flush };
    DeviceRegion::new(ordinal, address, len, Box::new(access))
}

/// Runs `work` with memory of a device that is allocated for it.
///
/// # Errors
/// The device is unusable, or has no memory.
pub fn try_with_region<T>(
    ordinal: u32,
    work: impl FnOnce(&DeviceRegion) -> T,
) -> Result<T, CopyError> {
    let allocation = Allocation::new(ordinal, TRIAL_BYTES)?;
    let region = device_region(ordinal, allocation.whole().addr(), TRIAL_BYTES);
    Ok(work(&region))
}

impl DeviceAccess for CardAccess {
    fn admit_cards(&self) -> Result<(), String> {
        let driver = driver().ok_or_else(|| CopyError::NoDriver.to_string())?;
        let wants_flush = driver.wants_flush(self.ordinal).map_err(|error| {
            format!("the GPU cannot be told when a network card has written to it: {error}")
        })?;
        self.wants_flush.get_or_init(|| wants_flush);
        let device = Device::of(self.ordinal).map_err(|error| error.to_string())?;
        let end = self.address.saturating_add(self.len);
        each_allocation(driver, self.ordinal, self.address..end, |at| {
            // Memory that was mapped, and not allocated, has no such attribute.
            if let Err(error) = device.within(|| driver.make_synchronous(at)) {
                tracing::debug!(%error, "copies of the application are not synchronous");
            }
        })
        .map_err(|error| error.to_string())
    }

    fn dmabuf(&self) -> Result<Dmabuf, String> {
        let page = page_bytes();
        let start = self.address - self.address % page;
        let end =
            self.address.checked_add(self.len).and_then(|it| it.checked_next_multiple_of(page));
        let len = end.ok_or("the range runs past the end of the address space")? - start;
        let device = Device::of(self.ordinal).map_err(|error| error.to_string())?;
        let range = (start, usize::try_from(len).map_err(|error| error.to_string())?);
        let opened = device.within(|| device.driver().dmabuf(self.ordinal, range));
        let descriptor = opened.map_err(|error| error.to_string())?;
        Ok(Dmabuf { descriptor, offset: self.address - start })
    }

    fn settle(&self) -> Result<(), String> {
        if self.wants_flush.get() == Some(&false) {
            return Ok(());
        }
        let device = Device::of(self.ordinal).map_err(|error| error.to_string())?;
        device.within(|| device.driver().flush_writes()).map_err(|error| error.to_string())
    }

    fn pci_address(&self) -> Option<String> {
        driver()?.bus_address(self.ordinal).ok()
    }
}
