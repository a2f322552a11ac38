//! Memory that callers name by address.

use std::ffi::c_void;

use mooncake_binding::{PoolClient, log, placed, placed_list};
use mooncake_client::{ErrorCode, ShownKey, SliceList};

use crate::array::{check_count, items};
use crate::guard::refuse;

/// `mooncake_slice_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Slice {
    buffer: *mut c_void,
    size: usize,
}

/// Memory of the caller, of one operation for one key.
#[derive(Clone, Copy)]
pub(crate) struct CallerMemory<'a> {
    pub(crate) operation: &'a str,
    pub(crate) key: &'a str,
}

impl CallerMemory<'_> {
    /// The `size` bytes at `buffer`.
    ///
    /// # Errors
    /// `InvalidParams` if they are none, or are no memory of the host and not registered.
    ///
    /// # Safety
    /// The memory stays mapped, and writable if it is read into, as long as the result is used.
    pub(crate) unsafe fn at<'m>(
        self,
        client: &PoolClient,
        buffer: *const c_void,
        size: usize,
    ) -> Result<SliceList<'m>, ErrorCode> {
        self.check(buffer, size)?;
        let range = placed(client, buffer.expose_provenance() as u64, size as u64)?;
        // SAFETY: the caller upholds the terms, and `placed` has looked at what is registered there.
        Ok(SliceList::from(unsafe { range.slice() }))
    }

    /// The memory of several slices, in order. Empty slices are left out.
    ///
    /// # Errors
    /// As [`CallerMemory::at`]; also `InvalidParams` if the list is null or too long.
    ///
    /// # Safety
    /// `slices` is null or has `count` readable items; their memory is as for [`CallerMemory::at`].
    pub(crate) unsafe fn of_slices<'m>(
        self,
        client: &PoolClient,
        slices: *const Slice,
        count: usize,
    ) -> Result<SliceList<'m>, ErrorCode> {
        check_count(self.operation, "count", count)?;
        // SAFETY: the caller upholds the terms.
        let slices = unsafe { items(self.operation, "slices", slices, count)? };
        for slice in &slices {
            self.check_size(slice.size)?;
            if slice.size > 0 && slice.buffer.is_null() {
                return Err(refuse(self.operation, "a slice", "has a null buffer"));
            }
        }
        let addresses: Vec<_> =
            slices.iter().map(|slice| slice.buffer.expose_provenance() as u64).collect();
        let sizes: Vec<_> = slices.iter().map(|slice| slice.size as u64).collect();
        let ranges = placed_list(client, &addresses, &sizes)?;
        // SAFETY: as in `at`.
        Ok(ranges.into_iter().map(|range| unsafe { range.slice() }).collect())
    }

    fn check(self, buffer: *const c_void, size: usize) -> Result<(), ErrorCode> {
        if size == 0 {
            let text = format_args!("the value of {} is empty", ShownKey(self.key));
            log::warn(self.operation, "empty", text);
            return Err(ErrorCode::InvalidParams);
        }
        if buffer.is_null() {
            return Err(refuse(self.operation, "the buffer", "is null"));
        }
        self.check_size(size)
    }

    fn check_size(self, size: usize) -> Result<(), ErrorCode> {
        match isize::try_from(size) {
            Ok(_) => Ok(()),
            Err(_) => {
                Err(refuse(self.operation, "size", "is more than any memory, or was negative"))
            }
        }
    }
}
