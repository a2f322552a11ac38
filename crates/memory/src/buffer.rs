use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use crate::RawSlice;

/// Owned bytes on the heap that a transfer may fill or send.
///
/// It hands out [`RawSlice`]s, which borrow it.
pub struct Buffer {
    ptr: NonNull<u8>,
    len: usize,
    capacity: usize,
}

// SAFETY: the bytes are owned; nothing about them belongs to one thread.
unsafe impl Send for Buffer {}
// SAFETY: shared access only reads, except through raw slices. Their users keep the terms of `RawSlice::new`.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Allocates `len` zero bytes. The kernel maps large buffers lazily, so they cost nothing until they are touched.
    #[must_use]
    pub fn zeroed(len: usize) -> Buffer {
        if len == 0 {
            return Buffer::from_vec(Vec::new());
        }
        let layout =
            Layout::array::<u8>(len).expect("a buffer is shorter than half the address space");
        // SAFETY: the layout's size is not zero.
        let ptr = unsafe { alloc_zeroed(layout) };
        let Some(ptr) = NonNull::new(ptr) else { handle_alloc_error(layout) };
        Buffer { ptr, len, capacity: len }
    }

    /// As [`Buffer::zeroed`], but returns `None` if there is not enough memory.
    #[must_use]
    pub fn try_zeroed(len: usize) -> Option<Buffer> {
        let layout = Layout::array::<u8>(len).ok()?;
        if len == 0 {
            return Some(Buffer::from_vec(Vec::new()));
        }
        // SAFETY: the layout's size is not zero.
        let ptr = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Buffer { ptr, len, capacity: len })
    }

    /// Wraps `bytes` without copying them.
    #[must_use]
    pub fn from_vec(bytes: Vec<u8>) -> Buffer {
        let mut bytes = ManuallyDrop::new(bytes);
        let ptr = NonNull::new(bytes.as_mut_ptr()).expect("a vector's pointer is never null");
        Buffer { ptr, len: bytes.len(), capacity: bytes.capacity() }
    }

    /// Returns the bytes without copying them.
    #[must_use]
    pub fn into_vec(self) -> Vec<u8> {
        let this = ManuallyDrop::new(self);
        // SAFETY: pointer, length and capacity come from a Vec, or from the global allocator with the layout of a Vec
        // of this capacity. All bytes are initialised, and `this` never frees them.
        unsafe { Vec::from_raw_parts(this.ptr.as_ptr(), this.len, this.capacity) }
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the buffer has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes as memory to transfer from or to. The caller ensures that no transfer writes them while
    /// [`Buffer::as_slice`] is borrowed.
    #[must_use]
    pub fn raw(&self) -> RawSlice<'_> {
        // SAFETY: this buffer owns the memory until it is dropped, and the slice borrows it.
        unsafe { RawSlice::new(self.ptr.as_ptr(), self.len) }
    }

    /// The bytes. The caller ensures that no transfer into them is under way.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the buffer owns `len` initialised bytes; no transfer writes them, which the caller ensures (see
        // above).
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }

    /// The bytes, mutably. The caller ensures that no transfer from or into them is under way.
    #[must_use]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as for `as_slice`, and `&mut self` makes the borrow exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.capacity > 0 {
            let layout = Layout::array::<u8>(self.capacity).expect("it was allocated with it");
            // SAFETY: the global allocator made this memory with this layout, here or in a Vec; this is the only place
            // that frees it.
            unsafe { dealloc(self.ptr.as_ptr(), layout) }
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_comes_back_as_it_went_in() {
        let mut bytes = Vec::with_capacity(100);
        bytes.extend_from_slice(b"payload");
        let address = bytes.as_ptr();
        let bytes = Buffer::from_vec(bytes).into_vec();
        assert_eq!(
            (bytes.as_slice(), bytes.as_ptr(), bytes.capacity()),
            (&b"payload"[..], address, 100)
        );
    }

    #[test]
    fn impossible_lengths_are_none() {
        assert!(Buffer::try_zeroed(usize::MAX).is_none());
        assert!(Buffer::try_zeroed(1 << 62).is_none());
        let small = Buffer::try_zeroed(3).expect("three bytes");
        assert_eq!(
            (small.as_slice(), Buffer::try_zeroed(0).expect("none").len()),
            (&[0; 3][..], 0)
        );
    }

    #[test]
    fn a_fresh_buffer_is_zero_and_can_be_written() {
        for len in [0, 1, 4096, 1 << 20] {
            let mut buffer = Buffer::zeroed(len);
            assert_eq!(buffer.as_slice(), vec![0; len]);
            buffer.as_mut_slice().fill(7);
            assert_eq!(buffer.into_vec(), vec![7; len]);
        }
    }
}
