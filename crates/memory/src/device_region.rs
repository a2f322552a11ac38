//! Memory of a device that transfers use in place.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::registrations::Registrations;
use crate::{HeldSlice, Registration};

/// What the driver of a device does for network cards that read and write its memory. Errors are in words.
pub trait DeviceAccess: fmt::Debug + Send + Sync {
    /// Prepares the memory for network cards.
    ///
    /// # Errors
    /// Why none may access it.
    fn admit_cards(&self) -> Result<(), String>;

    /// Opens a dmabuf in which all of the memory lies.
    ///
    /// # Errors
    /// Why there is none.
    fn dmabuf(&self) -> Result<Dmabuf, String>;

    /// Lets the device see what network cards have written there so far.
    ///
    /// # Errors
    /// The device may still see older bytes.
    fn settle(&self) -> Result<(), String>;

    /// The device's address on PCI, for example `0000:3B:00.0`, if it is known.
    fn pci_address(&self) -> Option<String>;
}

/// A dmabuf: memory of a device, as other drivers of the kernel know it.
#[derive(Debug)]
pub struct Dmabuf {
    /// The descriptor. What was registered with it stays so when it is closed.
    pub descriptor: OwnedFd,
    /// Where the memory begins in it, in bytes.
    pub offset: u64,
}

/// Memory of a device, and what it is registered with. It is only an address and a length: nothing of the host can read
/// or write it, and nothing here keeps it allocated.
#[derive(Debug)]
pub struct DeviceRegion {
    ordinal: u32,
    address: usize,
    len: usize,
    access: Box<dyn DeviceAccess>,
    registrations: Registrations,
}

impl DeviceRegion {
    /// The `len` bytes at `address` of a device.
    #[must_use]
    pub fn new(ordinal: u32, address: usize, len: usize, access: Box<dyn DeviceAccess>) -> Self {
        Self { ordinal, address, len, access, registrations: Registrations::default() }
    }

    /// The device's ordinal.
    #[must_use]
    pub fn ordinal(&self) -> u32 {
        self.ordinal
    }

    /// The address of the first byte, in the device.
    #[must_use]
    pub fn address(&self) -> usize {
        self.address
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What the device's driver does for network cards.
    #[must_use]
    pub fn access(&self) -> &dyn DeviceAccess {
        &*self.access
    }

    /// As [`crate::Region::registered`]. A registration is dropped with this value.
    ///
    /// # Errors
    /// Those of `make`, which the next call tries again.
    pub fn registered<R: Registration, E>(
        &self,
        number: u32,
        make: impl FnOnce() -> Result<R, E>,
    ) -> Result<&R, E> {
        self.registrations.get_or_make(number, make)
    }

    /// The `len` bytes at `address`, with what they are registered with. `None` if they do not lie within the region.
    #[must_use]
    pub fn hold(self: &Arc<Self>, address: usize, len: usize) -> Option<DeviceSlice> {
        let from = address.checked_sub(self.address)?;
        let is_inside = from.checked_add(len).is_some_and(|end| end <= self.len);
        is_inside.then(|| DeviceSlice { region: Arc::clone(self), from, len })
    }
}

/// Bytes of a [`DeviceRegion`], and the region, which keeps its registrations.
#[derive(Clone, Debug)]
pub struct DeviceSlice {
    region: Arc<DeviceRegion>,
    from: usize,
    len: usize,
}

impl DeviceSlice {
    /// The region.
    #[must_use]
    pub fn region(&self) -> &DeviceRegion {
        &self.region
    }

    /// The address of the first byte, in the device.
    #[must_use]
    pub fn address(&self) -> usize {
        self.region.address + self.from
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Memory that may be passed to other threads: of the host, which stays mapped, or of a device.
#[derive(Clone, Debug)]
pub enum HeldMemory {
    /// Memory of the host.
    Host(HeldSlice),
    /// Memory of a device.
    Device(DeviceSlice),
}

impl From<HeldSlice> for HeldMemory {
    fn from(slice: HeldSlice) -> Self {
        HeldMemory::Host(slice)
    }
}

impl HeldMemory {
    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            HeldMemory::Host(slice) => slice.len(),
            HeldMemory::Device(slice) => slice.len(),
        }
    }

    /// Whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The address of the first byte of the region, in the host or in the device.
    #[must_use]
    pub fn region_start(&self) -> usize {
        match self {
            HeldMemory::Host(slice) => slice.region().whole().as_ptr().addr(),
            HeldMemory::Device(slice) => slice.region.address,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct NoDriver;

    impl DeviceAccess for NoDriver {
        fn admit_cards(&self) -> Result<(), String> {
            Err("there is no driver".to_owned())
        }

        fn dmabuf(&self) -> Result<Dmabuf, String> {
            Err("there is no driver".to_owned())
        }

        fn settle(&self) -> Result<(), String> {
            Ok(())
        }

        fn pci_address(&self) -> Option<String> {
            None
        }
    }

    #[derive(Debug)]
    struct Registered(#[expect(dead_code, reason = "it is counted")] Arc<()>);

    impl Registration for Registered {}

    #[test]
    fn what_is_held_lies_within_and_keeps_registrations() {
        let region = Arc::new(DeviceRegion::new(3, 0x1000, 100, Box::new(NoDriver)));
        let held = |address, len| region.hold(address, len).map(|it| (it.address(), it.len()));
        assert_eq!(held(0x1000, 100), Some((0x1000, 100)));
        assert_eq!(held(0x100a, 90), Some((0x100a, 90)));
        for (address, len) in [(0x100a, 91), (0xfff, 2), (0x1065, 0), (0x1000, usize::MAX)] {
            assert_eq!(held(address, len), None, "{len} bytes at {address:#x}");
        }
        let count = Arc::new(());
        let make = || Ok::<_, ()>(Registered(Arc::clone(&count)));
        region.registered(0, make).expect("it registers");
        region.registered(0, make).expect("it is registered");
        let slice = HeldMemory::Device(region.hold(0x100a, 5).expect("it lies within"));
        drop(region);
        assert_eq!((Arc::strong_count(&count), slice.len(), slice.region_start()), (2, 5, 0x1000));
        drop(slice);
        assert_eq!(Arc::strong_count(&count), 1);
    }
}
