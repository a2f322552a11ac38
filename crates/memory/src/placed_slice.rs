use crate::RawSlice;

/// Where memory lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// The processor can read and write it.
    #[default]
    Host,
    /// In the device with this ordinal. Only the device's driver can read and write it.
    Device(u32),
}

/// An address and a length, and where the memory lies: a [`RawSlice`], or memory of a device.
#[derive(Clone, Copy, Debug)]
pub struct PlacedSlice {
    place: Place,
    slice: RawSlice,
}

impl From<RawSlice> for PlacedSlice {
    fn from(slice: RawSlice) -> Self {
        Self { place: Place::Host, slice }
    }
}

impl PlacedSlice {
    /// The `len` bytes at `address` of a device.
    ///
    /// # Safety
    /// As [`RawSlice::new`] demands of memory of the host, but that no processor can reach it: `address` is one of a device.
    #[must_use]
    pub const unsafe fn of_device(ordinal: u32, address: usize, len: usize) -> Self {
        // SAFETY: nobody gets this slice but as numbers, since `host` keeps it back.
        let slice = unsafe { RawSlice::new(std::ptr::without_provenance_mut(address), len) };
        Self { place: Place::Device(ordinal), slice }
    }

    /// Where the memory lies.
    #[must_use]
    pub const fn place(&self) -> Place {
        self.place
    }

    /// Length in bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.slice.len()
    }

    /// Is there nothing in it?
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.slice.is_empty()
    }

    /// The address of the first byte, wherever it lies.
    #[must_use]
    pub fn addr(&self) -> usize {
        self.slice.as_ptr().addr()
    }

    /// The memory, if the processor can reach it.
    #[must_use]
    pub const fn host(&self) -> Option<RawSlice> {
        match self.place {
            Place::Host => Some(self.slice),
            Place::Device(_) => None,
        }
    }

    /// The ordinal of the device and the address there, if it is memory of one.
    #[must_use]
    pub fn device(&self) -> Option<(u32, u64)> {
        match self.place {
            Place::Host => None,
            Place::Device(ordinal) => Some((ordinal, self.addr() as u64)),
        }
    }

    /// The `len` bytes that start `from` bytes in.
    ///
    /// # Panics
    /// If they do not lie within this slice.
    #[must_use]
    pub fn sub(&self, from: usize, len: usize) -> PlacedSlice {
        Self { place: self.place, slice: self.slice.sub(from, len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Buffer;

    #[test]
    fn memory_of_a_device_is_no_memory_of_the_host() {
        // SAFETY: nobody uses the memory.
        let device = unsafe { PlacedSlice::of_device(3, 0x1000, 100) };
        assert_eq!((device.place(), device.len()), (Place::Device(3), 100));
        assert!(device.host().is_none());
        assert_eq!(device.sub(10, 20).device(), Some((3, 0x100a)));
        let buffer = Buffer::zeroed(8);
        let host = PlacedSlice::from(buffer.raw());
        assert_eq!((host.place(), host.device()), (Place::Host, None));
        assert_eq!(host.sub(2, 3).host().map(|slice| slice.len()), Some(3));
    }
}
