use std::fmt;
use std::marker::PhantomData;

/// An address and a length of memory that others may write at any time. It borrows what keeps the memory mapped, for
/// `'m`, and is no reference to the memory itself.
///
/// It has the layout of the kernel's `iovec`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct RawSlice<'m> {
    ptr: *mut u8,
    len: usize,
    owner: PhantomData<&'m ()>,
}

// SAFETY: a RawSlice is only an address. The caller of `new` promised that any thread may use the memory.
unsafe impl Send for RawSlice<'_> {}
// SAFETY: as for Send; no method returns a reference to the memory.
unsafe impl Sync for RawSlice<'_> {}

impl<'m> RawSlice<'m> {
    /// A slice of no bytes.
    pub const EMPTY: RawSlice<'static> = RawSlice::at(std::ptr::without_provenance_mut(1), 0);

    const fn at(ptr: *mut u8, len: usize) -> Self {
        Self { ptr, len, owner: PhantomData }
    }

    /// The `len` bytes at `ptr`.
    ///
    /// # Safety
    /// For all of `'m`, which the caller chooses:
    ///
    /// - The memory stays mapped.
    /// - Any thread may read it, and may write it if the slice serves as a destination.
    /// - No code relies on a Rust reference to the memory that a write would invalidate.
    #[must_use]
    pub const unsafe fn new(ptr: *mut u8, len: usize) -> RawSlice<'m> {
        RawSlice::at(ptr, len)
    }

    /// `len` unmapped bytes, for tests of transfers that get a bad address from their caller.
    #[doc(hidden)]
    #[must_use]
    pub const fn unmapped(len: usize) -> RawSlice<'static> {
        // The first page of the address space is never mapped.
        RawSlice::at(std::ptr::without_provenance_mut(16), len)
    }

    /// Length in bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether the slice has no bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The address of the first byte.
    #[must_use]
    pub const fn as_ptr(&self) -> *mut u8 {
        self.ptr
    }

    /// The `len` bytes at offset `from`.
    ///
    /// # Panics
    /// If they do not lie within this slice.
    #[must_use]
    pub fn sub(&self, from: usize, len: usize) -> RawSlice<'m> {
        let inside = from.checked_add(len).is_some_and(|end| end <= self.len);
        assert!(inside, "{len} bytes from {from} do not lie within a slice of {} bytes", self.len);
        RawSlice::at(self.ptr.wrapping_add(from), len)
    }

    /// This slice and `next` as one. `None` if `next` does not begin where this one ends.
    #[must_use]
    pub fn joined(self, next: RawSlice<'m>) -> Option<RawSlice<'m>> {
        let adjoins = self.ptr.wrapping_add(self.len) == next.ptr;
        let len = self.len.checked_add(next.len).filter(|_| adjoins)?;
        // Two allocations may adjoin, and a pointer into the first alone would not reach the second.
        let _ = next.ptr.expose_provenance();
        let ptr = std::ptr::with_exposed_provenance_mut(self.ptr.expose_provenance());
        Some(RawSlice::at(ptr, len))
    }

    /// Copies all bytes of this slice to `dst`. The two may overlap.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn copy_to(self, dst: RawSlice<'_>) {
        assert_eq!(self.len, dst.len, "copy between slices of different lengths");
        // SAFETY: the callers of `new` promised that both ranges are mapped and usable from any thread; both have this
        // length.
        unsafe { std::ptr::copy(self.ptr, dst.ptr, self.len) }
    }

    /// Copies all bytes of this slice to `dst`.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn read_into(&self, dst: &mut [u8]) {
        assert_eq!(self.len, dst.len(), "read into a buffer of another length");
        // SAFETY: the caller of `new` promised that this slice is mapped and that no reference covers its memory, so
        // `dst` cannot overlap it. `dst` is exclusively borrowed and has the same length.
        unsafe { std::ptr::copy_nonoverlapping(self.ptr, dst.as_mut_ptr(), self.len) }
    }

    /// Overwrites this slice with `src`.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn write_from(&self, src: &[u8]) {
        assert_eq!(self.len, src.len(), "write from a buffer of another length");
        // SAFETY: the caller of `new` promised that this slice is mapped and that no reference covers its memory, so
        // `src` cannot overlap it. Both have the same length.
        unsafe { std::ptr::copy_nonoverlapping(src.as_ptr(), self.ptr, self.len) }
    }

    /// Appends a copy of the bytes.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        out.reserve(self.len);
        // SAFETY: the caller of `new` promised that this slice is mapped. `reserve` made room for as many bytes behind
        // the vector's end. The copy initialises them before `set_len` includes them.
        unsafe {
            let end = out.spare_capacity_mut().as_mut_ptr().cast();
            std::ptr::copy_nonoverlapping(self.ptr, end, self.len);
            out.set_len(out.len() + self.len);
        }
    }

    /// A copy of the bytes.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.append_to(&mut bytes);
        bytes
    }
}

impl fmt::Debug for RawSlice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawSlice({:p}, {} bytes)", self.ptr, self.len)
    }
}

#[cfg(test)]
mod tests {
    use crate::Buffer;

    #[test]
    fn bytes_go_in_and_come_out() {
        let buffer = Buffer::zeroed(16);
        let all = buffer.raw();
        all.sub(4, 3).write_from(b"abc");
        let mut out = [0; 5];
        all.sub(3, 5).read_into(&mut out);
        assert_eq!(&out, b"\0abc\0");
        assert_eq!(all.sub(4, 3).to_vec(), b"abc");
    }

    #[test]
    fn slices_that_adjoin_are_one() {
        let buffer = Buffer::from_vec(b"0123456789".to_vec());
        let part = |from, len| buffer.raw().sub(from, len);
        let joined = part(2, 3).joined(part(5, 4)).expect("they adjoin");
        assert_eq!(joined.to_vec(), b"2345678");
        for (from, len) in [(4, 4), (6, 4), (0, 2)] {
            assert!(part(2, 3).joined(part(from, len)).is_none(), "{len} from {from}");
        }
    }

    #[test]
    fn a_copy_may_overlap_itself() {
        let buffer = Buffer::from_vec(b"0123456789".to_vec());
        buffer.raw().sub(0, 8).copy_to(buffer.raw().sub(2, 8));
        assert_eq!(buffer.as_slice(), b"0101234567");
    }

    #[test]
    #[should_panic(expected = "3 bytes from 6 do not lie within a slice of 8 bytes")]
    fn a_part_beyond_the_end_panics() {
        let _ = Buffer::zeroed(8).raw().sub(6, 3);
    }

    #[test]
    #[should_panic(expected = "do not lie within")]
    fn a_part_whose_end_overflows_panics() {
        let _ = Buffer::zeroed(8).raw().sub(usize::MAX, 2);
    }

    #[test]
    #[should_panic(expected = "different lengths")]
    fn a_copy_between_different_lengths_panics() {
        let buffer = Buffer::zeroed(8);
        buffer.raw().sub(0, 4).copy_to(buffer.raw().sub(0, 5));
    }
}
