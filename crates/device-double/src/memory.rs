//! Device memory: reserved addresses that the processor cannot access, and the bytes elsewhere.

use crate::state::{Context, DriverState};

/// An allocation of device memory.
pub(crate) struct Allocation {
    pub(crate) context: Context,
    pub(crate) len: usize,
    /// The bytes of the allocation.
    bytes: Box<[u8]>,
    /// The reserved addresses and their length. Of several adjacent allocations only the first has it.
    reserved: Option<(usize, usize)>,
}

const PAGE: usize = 4096;

/// Reserves addresses that the processor cannot access, and a page behind them that is never allocated.
fn reserve(len: usize) -> Option<usize> {
    let len = reserved_len(len);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_NONE, flags, -1, 0) };
    (start != libc::MAP_FAILED).then(|| start.addr())
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
        let start = reserve(total)?;
        for index in 0..count {
            let reserved = (index == 0).then(|| (start, reserved_len(total)));
            // The kernel provides these pages when they are touched.
            let bytes = vec![0; len].into_boxed_slice();
            let allocation = Allocation { context, len, bytes, reserved };
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
        &mut self,
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
            let Some((start, allocation)) = self.allocations.range_mut(..=at).next_back() else {
                return false;
            };
            let from = (at - start) as usize;
            let here = (allocation.len - from).min(len - done);
            let bytes = &mut allocation.bytes[from..from + here];
            // SAFETY: the caller promises `len` bytes at `host`; `bytes` has `here` bytes on the heap, so the two do
            // not overlap.
            unsafe {
                let host = host.add(done);
                if to_host {
                    std::ptr::copy_nonoverlapping(bytes.as_ptr(), host, here);
                } else {
                    std::ptr::copy_nonoverlapping(host, bytes.as_mut_ptr(), here);
                }
            }
            done += here;
        }
        true
    }
}
