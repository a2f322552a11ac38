use crate::RawSlice;

/// Whether memory belongs to the host or to a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// Host memory, which the processor can read and write.
    #[default]
    Host,
    /// Memory of the device with this ordinal. Only the device's driver can read and write it.
    Device(u32),
}

/// An address, a length and a [`Place`]: a [`RawSlice`], or memory of a device.
#[derive(Clone, Copy, Debug)]
pub struct PlacedSlice<'m> {
    place: Place,
    slice: RawSlice<'m>,
}

/// An address, a length and a [`Place`], of memory that nothing keeps mapped yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedRange {
    /// Where the memory lies.
    pub place: Place,
    /// The address of the first byte, in host or device memory.
    pub address: usize,
    /// The length in bytes.
    pub len: usize,
}

impl PlacedRange {
    /// The memory of the range.
    ///
    /// # Safety
    /// The terms of [`RawSlice::new`] for host memory, and of [`PlacedSlice::of_device`] for memory of a device.
    #[must_use]
    pub unsafe fn slice<'m>(self) -> PlacedSlice<'m> {
        // SAFETY: the caller upholds the terms.
        unsafe {
            match self.place {
                Place::Host => {
                    let start = std::ptr::with_exposed_provenance_mut(self.address);
                    RawSlice::new(start, self.len).into()
                }
                Place::Device(ordinal) => PlacedSlice::of_device(ordinal, self.address, self.len),
            }
        }
    }
}

impl<'m> From<RawSlice<'m>> for PlacedSlice<'m> {
    fn from(slice: RawSlice<'m>) -> Self {
        Self { place: Place::Host, slice }
    }
}

impl<'m> PlacedSlice<'m> {
    /// The `len` bytes at `address` of a device.
    ///
    /// # Safety
    /// The terms of [`RawSlice::new`], except that the memory is a device's: `address` is a device address, which no
    /// processor can access.
    #[must_use]
    pub const unsafe fn of_device(ordinal: u32, address: usize, len: usize) -> Self {
        // SAFETY: `host` never returns this slice, so it is used only as an address and a length.
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

    /// Whether the slice has no bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.slice.is_empty()
    }

    /// The address of the first byte, in host or device memory.
    #[must_use]
    pub fn addr(&self) -> usize {
        self.slice.as_ptr().addr()
    }

    /// The memory, if it is host memory.
    #[must_use]
    pub const fn host(&self) -> Option<RawSlice<'m>> {
        match self.place {
            Place::Host => Some(self.slice),
            Place::Device(_) => None,
        }
    }

    /// The device's ordinal and the address there, if it is memory of a device.
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
    pub fn sub(&self, from: usize, len: usize) -> PlacedSlice<'m> {
        Self { place: self.place, slice: self.slice.sub(from, len) }
    }

    /// This slice and `next` as one. `None` if `next` does not begin where this one ends, or lies elsewhere.
    #[must_use]
    pub fn joined(self, next: PlacedSlice<'m>) -> Option<PlacedSlice<'m>> {
        let slice = self.slice.joined(next.slice).filter(|_| self.place == next.place)?;
        Some(Self { place: self.place, slice })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Buffer;

    #[test]
    fn memory_of_a_device_is_no_memory_of_the_host() {
        // SAFETY: nothing accesses the memory.
        let device = unsafe { PlacedSlice::of_device(3, 0x1000, 100) };
        assert_eq!((device.place(), device.len()), (Place::Device(3), 100));
        assert!(device.host().is_none());
        assert_eq!(device.sub(10, 20).device(), Some((3, 0x100a)));
        let joined = device.sub(0, 40).joined(device.sub(40, 60)).expect("they adjoin");
        assert_eq!((joined.device(), joined.len()), (Some((3, 0x1000)), 100));
        // SAFETY: as above.
        let other = unsafe { PlacedSlice::of_device(4, 0x1064, 100) };
        assert!(device.joined(other).is_none(), "it lies on another device");
        let buffer = Buffer::zeroed(8);
        let host = PlacedSlice::from(buffer.raw());
        assert_eq!((host.place(), host.device()), (Place::Host, None));
        assert_eq!(host.sub(2, 3).host().map(|slice| slice.len()), Some(3));
    }
}
