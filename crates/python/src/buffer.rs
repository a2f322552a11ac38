//! Python's memory as slices for transfers, and Rust's memory lent to Python.

#![allow(unsafe_code, reason = "Python's buffer protocol is pointers")]

use std::ffi::c_int;

use mooncake_binding::{PoolClient, placed, placed_list};
use mooncake_client::{ErrorCode, ObjectBytes, PlacedSlice, RawSlice, SliceList};
use mooncake_memory::PlacedRange;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView};

/// The memory of a bytes-like object. Until this is dropped, the exporter neither moves nor resizes it.
pub(crate) struct LentBuffer(PyUntypedBuffer);

impl LentBuffer {
    /// The memory of `value`. `None` if it is not bytes-like or not contiguous.
    pub(crate) fn of(value: &Bound<'_, PyAny>) -> Option<Self> {
        // A memory view fills in the strides that some exporters, like arrays of ctypes, leave out.
        let through_view =
            |_| PyMemoryView::from(value).and_then(|view| PyUntypedBuffer::get(&view));
        let buffer = PyUntypedBuffer::get(value).or_else(through_view).ok()?;
        buffer.is_c_contiguous().then_some(Self(buffer))
    }

    /// The length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.0.len_bytes()
    }

    /// Whether the exporter describes one dimension with items of one byte.
    pub(crate) fn is_row_of_bytes(&self) -> bool {
        self.0.dimensions() == 1 && self.0.item_size() == 1
    }

    /// The lengths of its dimensions.
    pub(crate) fn shape(&self) -> &[usize] {
        self.0.shape()
    }

    /// Whether the exporter describes integers of 64 bits, and whether these have a sign.
    pub(crate) fn integer_sign(&self) -> Option<bool> {
        let format = self.0.format().to_bytes();
        let kind = format.strip_prefix(b"@").or_else(|| format.strip_prefix(b"=")).or_else(|| {
            let of_this_machine: &[u8] = if cfg!(target_endian = "little") { b"<" } else { b">" };
            format.strip_prefix(of_this_machine)
        });
        match (kind.unwrap_or(format), self.0.item_size()) {
            (b"l" | b"q" | b"n", 8) => Some(true),
            (b"L" | b"Q" | b"N", 8) => Some(false),
            _ => None,
        }
    }

    /// The memory, for as long as `self` is borrowed. Python code may write to it at any time.
    pub(crate) fn slice(&self) -> RawSlice<'_> {
        // SAFETY: the exporter keeps `len_bytes` bytes at `buf_ptr` readable until the buffer is released on drop.
        // `of` checked that they are contiguous. The slice borrows `self`.
        unsafe { RawSlice::new(self.0.buf_ptr().cast(), self.len()) }
    }
}

/// Makes a bytes object of `len` uninitialized bytes. Returns it and its memory, which the caller fills before any
/// other code gets the object. `None` if the interpreter has no memory for it.
pub(crate) fn unfilled_bytes(py: Python<'_>, len: u64) -> Option<(Py<PyBytes>, RawSlice<'static>)> {
    let size = isize::try_from(len).ok()?;
    // SAFETY: with a null source the interpreter makes an object of that size and gives us its only reference, or
    // raises.
    let made = unsafe {
        let made = ffi::PyBytes_FromStringAndSize(std::ptr::null(), size);
        Bound::from_owned_ptr_or_err(py, made)
    };
    let bytes = made.ok()?.cast_into::<PyBytes>().ok()?;
    // SAFETY: `cast_into` has checked the type. The memory does not move while the object lives, and may be written
    // while no other code has the object. The caller keeps the object until the last use of the slice.
    let memory =
        unsafe { RawSlice::new(ffi::PyBytes_AsString(bytes.as_ptr()).cast(), len as usize) };
    Some((bytes.unbind(), memory))
}

/// The `len` bytes at `address`. Python callers name memory by address, and promise that it stays mapped during the
/// call. The documentation of `register_buffer` and of every method with a `buffer_ptr` asks for that.
///
/// # Errors
/// `InvalidParams` in three cases:
///
/// - the range is empty;
/// - a part of it is registered as memory of a device, and another part is not;
/// - it starts outside of all registered buffers and not in host memory.
pub(crate) fn memory_at(
    store: &PoolClient,
    address: u64,
    len: u64,
) -> Result<PlacedSlice<'static>, ErrorCode> {
    placed(store, address, len).map(slice_at)
}

/// The slice of a range that [`placed`] has accepted.
fn slice_at(range: PlacedRange) -> PlacedSlice<'static> {
    // SAFETY: the Python caller promises that the range stays mapped until the call returns, and writable if the call
    // reads into it. `placed` has refused ranges whose registrations say otherwise. No Rust reference to the memory
    // exists.
    unsafe { range.slice() }
}

/// The ranges that together hold one object, in order. Empty ranges are skipped.
///
/// # Errors
/// As [`memory_at`]; also `InvalidParams` if the lists differ in length, or if the sum of the lengths overflows.
pub(crate) fn memory_list_at(
    store: &PoolClient,
    addresses: &[u64],
    lens: &[u64],
) -> Result<SliceList<'static>, ErrorCode> {
    Ok(placed_list(store, addresses, lens)?.into_iter().map(slice_at).collect())
}

/// The bytes of one object, as a buffer: one dimension, items of one byte, writable.
///
/// The bytes stay valid and unchanged until this handle is collected, even if the object is removed. Writing to them
/// changes neither the object nor other handles.
///
/// A large object on this host is not copied at first: the handle maps it copy-on-write.
#[pyclass(frozen, weakref, module = "mooncake.store")]
pub(crate) struct BufferHandle {
    /// No Rust reference to the bytes may exist: Python code may write them.
    bytes: ObjectBytes,
}

impl BufferHandle {
    /// Takes ownership of `bytes`, without a copy.
    pub(crate) const fn new(bytes: ObjectBytes) -> Self {
        Self { bytes }
    }
}

#[pymethods]
impl BufferHandle {
    /// The address of the first byte.
    fn ptr(&self) -> usize {
        self.bytes.raw().as_ptr().expose_provenance()
    }

    /// The length in bytes.
    fn size(&self) -> usize {
        self.bytes.len()
    }

    fn __len__(&self) -> usize {
        self.bytes.len()
    }

    fn __repr__(&self) -> String {
        format!("<BufferHandle of {} bytes>", self.bytes.len())
    }

    /// # Safety
    /// Only the interpreter calls this, with a `view` that it allocated.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let bytes = slf.get().bytes.raw();
        let (start, len) = (bytes.as_ptr().cast(), isize::try_from(bytes.len())?);
        // SAFETY: the interpreter owns `view`. `start` points to `len` bytes that live as long as this handle, and the
        // view gets its own reference to the handle.
        let filled = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, len, 0, flags) };
        if filled == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}

/// A view of a lease's memory, as a buffer: one dimension, items of one byte, writable. The lease stays valid while
/// the view lives.
#[pyclass(frozen, weakref, module = "mooncake.store")]
pub(crate) struct BufferLeaseView {
    lease: Py<PyAny>,
    address: usize,
    len: usize,
}

#[pymethods]
impl BufferLeaseView {
    /// A view of the `size` bytes at `ptr`. They must stay mapped while `lease` lives.
    #[staticmethod]
    fn _of(lease: Py<PyAny>, ptr: usize, size: usize) -> Self {
        Self { lease, address: ptr, len: size }
    }

    /// A memoryview of the memory. It keeps this view alive.
    #[getter]
    fn buffer<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyMemoryView>> {
        PyMemoryView::from(slf)
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        format!("<BufferLeaseView of {} bytes of {}>", self.len, self.lease.bind(py))
    }

    /// # Safety
    /// Only the interpreter calls this, with a `view` that it allocated.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let this = slf.get();
        let start = std::ptr::with_exposed_provenance_mut(this.address);
        let len = isize::try_from(this.len)?;
        // SAFETY: the interpreter owns `view`. This object holds the lease, which keeps `len` bytes at `start` mapped,
        // and the view gets its own reference to this object.
        let filled = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, len, 0, flags) };
        if filled == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}
