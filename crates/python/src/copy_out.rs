//! Copies of a caller's memory, so that the caller may change it while a put still runs.

use mooncake_binding::{INVALID_PARAMS, PoolClient, batch, log};
use mooncake_client::{CopyDirection, CopyJob, ErrorCode, SliceList, copy_each};
use pyo3::prelude::*;

use crate::argument::argument;
use crate::buffer::{memory_at, memory_list_at};
use crate::store::MooncakeDistributedStore;

#[pymethods]
impl MooncakeDistributedStore {
    /// Copies the `sizes[p]` bytes at each address `buffer_ptrs[p]`, in the host or in registered memory of GPUs, one
    /// after the other to the host address `target`. Asks neither master nor nodes.
    ///
    /// Returns 0, or -600 if the lists differ in length, the memory is not there, or the store is not set up.
    fn _copy_out(
        &self,
        py: Python<'_>,
        target: u64,
        buffer_ptrs: &Bound<'_, PyAny>,
        sizes: &Bound<'_, PyAny>,
    ) -> PyResult<i32> {
        const NAME: &str = "_copy_out";
        let addresses = argument(NAME, "buffer_ptrs").numbers(buffer_ptrs)?;
        let lens = argument(NAME, "sizes").numbers(sizes)?;
        let Some(store) = self.store_for(NAME) else { return Ok(INVALID_PARAMS) };
        Ok(batch::done(py.detach(|| copy(&store, target, &addresses, &lens))))
    }
}

fn copy(store: &PoolClient, target: u64, addresses: &[u64], lens: &[u64]) -> Result<(), ErrorCode> {
    let memory = memory_list_at(store, addresses, lens)?;
    let target: SliceList<'_> = memory_at(store, target, memory.total_len())?.into();
    if !target.is_host() {
        log::warn("_copy_out", "target", format_args!("the target is memory of a GPU"));
        return Err(ErrorCode::InvalidParams);
    }
    let job = CopyJob { memory: &memory, host: target.slices()[0], region: None };
    copy_each(CopyDirection::ToHost, &[job], &|_| true).remove(0).map_err(|error| {
        log::warn("_copy_out", "copy", format_args!("memory cannot be copied: {error}"));
        ErrorCode::InvalidParams
    })
}
