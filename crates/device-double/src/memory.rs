//! Device memory: reserved addresses that the processor cannot access, and the bytes elsewhere.

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use crate::state::{Context, DriverState};

/// An allocation of device memory.
pub(crate) struct Allocation {
    pub(crate) context: Context,
    pub(crate) len: usize,
    /// The bytes of the allocation, and of those that adjoin and were made with it.
    bytes: Arc<Bytes>,
    /// Where its own begin there.
    from: usize,
    /// The reserved addresses and their length. Of several adjacent allocations only the first has it.
    reserved: Option<(usize, usize)>,
}

/// Bytes of device memory, at another address than the device's. Parts that were exported are memory files.
struct Bytes {
    start: usize,
    len: usize,
    /// First byte and length of exported parts.
    exported: Mutex<BTreeMap<usize, (usize, OwnedFd)>>,
}

impl Bytes {
    fn new(len: usize) -> Option<Bytes> {
        let len = len.next_multiple_of(PAGE);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let start = map(std::ptr::null_mut(), len, access, (libc::MAP_ANONYMOUS, -1))?;
        Some(Bytes { start, len, exported: Mutex::default() })
    }

    fn at(&self, from: usize) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.start + from)
    }

    /// A memory file of a part, whole pages of it. A part that overlaps another one in part has none.
    fn export(&self, from: usize, len: usize) -> Option<OwnedFd> {
        let mut exported = self.exported.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, file)) = exported.get(&from) {
            return file.try_clone().ok().filter(|_| *known == len);
        }
        let before = exported.range(..from + len).next_back();
        if before.is_some_and(|(&at, (known, _))| at + known > from) || from + len > self.len {
            return None;
        }
        // SAFETY: the name ends with a zero.
        let file = unsafe { libc::memfd_create(c"double-dmabuf".as_ptr(), 0) };
        if file < 0 {
            return None;
        }
        // SAFETY: it was just opened, and belongs to nothing else.
        let file = unsafe { OwnedFd::from_raw_fd(file) };
        let here = self.at(from);
        // SAFETY: the part lies in this mapping, whose users hold the driver's lock.
        unsafe {
            let bytes = libc::pwrite(file.as_raw_fd(), here.cast(), len, 0);
            assert_eq!(usize::try_from(bytes), Ok(len), "a memory file takes all");
        }
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let shared = libc::MAP_SHARED | libc::MAP_FIXED;
        map(here.cast(), len, access, (shared, file.as_raw_fd()))?;
        exported.insert(from, (len, file.try_clone().ok()?));
        Some(file)
    }
}

/// Maps memory: at an address of the kernel's choice, or over a part of a mapping of this file.
fn map(at: *mut libc::c_void, len: usize, access: i32, (flags, file): (i32, i32)) -> Option<usize> {
    let private = if file < 0 { libc::MAP_PRIVATE | libc::MAP_NORESERVE } else { 0 };
    // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use; one at a fixed address is over
    // bytes that its caller owns, and keeps what they hold.
    let start = unsafe { libc::mmap(at, len, access, flags | private, file, 0) };
    (start != libc::MAP_FAILED).then(|| start.expose_provenance())
}

impl Drop for Bytes {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping that was made, with the files over it; its allocations are gone.
        unsafe { libc::munmap(self.at(0).cast(), self.len) };
    }
}

const PAGE: usize = 4096;

/// Reserves addresses that the processor cannot access, and a page behind them that is never allocated.
fn reserve(len: usize) -> Option<usize> {
    let len = reserved_len(len);
    map(std::ptr::null_mut(), len, libc::PROT_NONE, (libc::MAP_ANONYMOUS, -1))
}

fn reserved_len(len: usize) -> usize {
    len.next_multiple_of(PAGE) + PAGE
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if let Some((start, len)) = self.reserved {
            // SAFETY: exactly the mapping that `reserve` made; nothing can access it.
            unsafe { libc::munmap(std::ptr::with_exposed_provenance_mut(start), len) };
        }
    }
}

impl DriverState {
    /// Makes `count` adjacent allocations of `len` bytes. Returns the address of the first.
    pub(crate) fn allocate(&mut self, context: Context, len: usize, count: usize) -> Option<u64> {
        let of_device =
            self.allocations.values().filter(|one| one.context.device == context.device);
        let used: usize = of_device.map(|one| one.len).sum();
        let total = len.checked_mul(count).filter(|&total| total > 0)?;
        if used.checked_add(total)? > self.device_limit {
            return None;
        }
        let (start, bytes) = (reserve(total)?, Arc::new(Bytes::new(total)?));
        for index in 0..count {
            let reserved = (index == 0).then(|| (start, reserved_len(total)));
            let (bytes, from) = (Arc::clone(&bytes), index * len);
            let allocation = Allocation { context, len, bytes, from, reserved };
            self.allocations.insert((start + index * len) as u64, allocation);
        }
        Some(start as u64)
    }

    /// The start of the allocation that contains an address, and the allocation.
    pub(crate) fn find(&self, address: u64) -> Option<(u64, &Allocation)> {
        let (&start, allocation) = self.allocations.range(..=address).next_back()?;
        (address - start < allocation.len as u64).then_some((start, allocation))
    }

    /// Whether all of a range is allocated. It may span several adjacent allocations.
    pub(crate) fn is_allocated(&self, address: u64, len: usize) -> bool {
        let (mut at, end) = (address, address.saturating_add(len as u64));
        while at < end {
            let Some((start, allocation)) = self.find(at) else { return false };
            at = start + allocation.len as u64;
        }
        true
    }

    /// Copies between device memory and host memory. Returns false if a part of the device memory is not allocated.
    ///
    /// # Safety
    /// `host` must have `len` mapped bytes, which are writable if `to_host`.
    pub(crate) unsafe fn copy(
        &self,
        address: u64,
        host: *mut u8,
        len: usize,
        to_host: bool,
    ) -> bool {
        if !self.is_allocated(address, len) {
            return false;
        }
        let mut done = 0;
        while done < len {
            let at = address + done as u64;
            let Some((start, allocation)) = self.allocations.range(..=at).next_back() else {
                return false;
            };
            let from = (at - start) as usize;
            let here = (allocation.len - from).min(len - done);
            let bytes = allocation.bytes.at(allocation.from + from);
            // SAFETY: the caller promises `len` bytes at `host`. The allocation has `here` bytes from there on, in a mapping
            // that nothing else knows, so the two do not overlap.
            unsafe {
                let host = host.add(done);
                if to_host {
                    std::ptr::copy_nonoverlapping(bytes, host, here);
                } else {
                    std::ptr::copy_nonoverlapping(host, bytes, here);
                }
            }
            done += here;
        }
        true
    }

    /// A memory file of whole pages of device memory. They may reach past the end of the last allocation, as far as its last
    /// page does.
    pub(crate) fn export(&self, address: u64, len: usize) -> Option<OwnedFd> {
        let (start, first) = self.find(address)?;
        let is_aligned = (address as usize).is_multiple_of(PAGE) && len.is_multiple_of(PAGE);
        let last_page = address + (len as u64).checked_sub(PAGE as u64)?;
        if !is_aligned || !self.is_allocated(address, (last_page - address) as usize + 1) {
            return None;
        }
        first.bytes.export(first.from + (address - start) as usize, len)
    }
}
