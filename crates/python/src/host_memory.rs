//! Memory by address: memory of this process, and ranges of the store's local buffer.

use std::ffi::c_void;
use std::sync::Arc;

use mooncake_binding::PoolClient;
use mooncake_client::{HostMemory, bind_to_numa_node as bind};
use pyo3::prelude::*;

use crate::argument::argument;
use crate::drop_detached::drop_detached;
use crate::store::MooncakeDistributedStore;

/// Allocates memory that a dummy store can share with the `mooncake_client` process of its host, so that objects move
/// without a copy.
#[pyclass(frozen, module = "mooncake.store")]
pub(crate) struct MooncakeHostMemAllocator;

#[pymethods]
impl MooncakeHostMemAllocator {
    #[new]
    fn new() -> Self {
        Self
    }

    /// Allocates `size` zeroed bytes or more, a whole number of pages.
    ///
    /// Returns the address of the first byte, or 0 for no bytes, without memory, or past 1024 allocations.
    fn alloc(&self, py: Python<'_>, size: &Bound<'_, PyAny>) -> PyResult<usize> {
        let size = argument("alloc", "size").number(size)?;
        Ok(py.detach(|| HostMemory::of_process().alloc(size)).unwrap_or(0))
    }

    /// Frees the memory that `alloc` returned as `ptr`. Returns 0, or -1 if no allocation starts there.
    fn free(&self, py: Python<'_>, ptr: &Bound<'_, PyAny>) -> PyResult<i32> {
        let address = argument("free", "ptr").number(ptr)?;
        Ok(if py.detach(|| free(address)) { 0 } else { -1 })
    }
}

#[pymethods]
impl MooncakeDistributedStore {
    /// Reserves `size` bytes of the store's local buffer for the caller, until the store is closed. The store reads
    /// and writes them without a copy.
    ///
    /// Returns the address of the first byte. Returns 0 if the buffer has no free range of that size, or the store is
    /// not set up.
    fn alloc_from_mem_pool(&self, py: Python<'_>, size: &Bound<'_, PyAny>) -> PyResult<usize> {
        let size = argument("alloc_from_mem_pool", "size").number(size)?;
        let Some(store) = self.store_for("alloc_from_mem_pool") else { return Ok(0) };
        Ok(py.detach(|| store.alloc_from_mem_pool(size)).unwrap_or(0))
    }

    /// Reserves `size` bytes of the local buffer. They stay mapped until the result is collected, even after `close`.
    /// Returns None if the buffer has no free range of that size.
    fn _lend_from_mem_pool(&self, py: Python<'_>, size: u64) -> Option<LocalMemory> {
        let store = self.store_for("_lend_from_mem_pool")?;
        let address = py.detach(|| store.alloc_from_mem_pool(size))?;
        Some(LocalMemory { store: Some(store), address })
    }

    /// The size of the local buffer in bytes; 0 while the store is not set up.
    fn _local_buffer_size(&self) -> u64 {
        self.store().map_or(0, |store| store.local_buffer_bytes())
    }
}

/// A range of a store's local buffer. It returns to the buffer when this object is collected.
#[pyclass(frozen, name = "_LocalMemory", module = "mooncake._native")]
pub(crate) struct LocalMemory {
    /// Keeps the buffer mapped, and is the buffer that gets the range back: after `close`, another `setup` opens a new
    /// client with a new buffer.
    store: Option<Arc<PoolClient>>,
    address: usize,
}

#[pymethods]
impl LocalMemory {
    /// The address of the first byte.
    #[getter]
    fn ptr(&self) -> usize {
        self.address
    }
}

impl Drop for LocalMemory {
    fn drop(&mut self) {
        if let Some(store) = &self.store {
            store.free_to_mem_pool(self.address);
        }
        drop_detached(self.store.take());
    }
}

/// Binds this thread to the processors of NUMA node `node`, and makes the system prefer that node for the thread's
/// memory. If there is no such node, the call only logs a warning.
#[pyfunction]
pub(crate) fn bind_to_numa_node(py: Python<'_>, node: &Bound<'_, PyAny>) -> PyResult<()> {
    let wanted = || argument("bind_to_numa_node", "node").wrong("an integer", node);
    let number: i64 = node.extract().map_err(|_| wanted())?;
    let bound = py.detach(|| match u32::try_from(number) {
        Ok(number) => bind(number),
        Err(_) => Err(std::io::ErrorKind::NotFound.into()),
    });
    if let Err(error) = bound {
        tracing::warn!("bind_to_numa_node: node {number}: {error}");
    }
    Ok(())
}

/// The address of a C function `void *(size_t)` that allocates as `MooncakeHostMemAllocator.alloc` does.
#[pyfunction]
pub(crate) fn get_alloc_func_addr() -> usize {
    allocate_for_c as *const () as usize
}

/// The address of a C function `void (void *)` that frees memory of the function at `get_alloc_func_addr`.
#[pyfunction]
pub(crate) fn get_free_func_addr() -> usize {
    free_for_c as *const () as usize
}

extern "C" fn allocate_for_c(size: usize) -> *mut c_void {
    let address = HostMemory::of_process().alloc(size as u64).unwrap_or(0);
    std::ptr::with_exposed_provenance_mut(address)
}

extern "C" fn free_for_c(memory: *mut c_void) {
    free(memory.addr() as u64);
}

fn free(address: u64) -> bool {
    usize::try_from(address).is_ok_and(|address| HostMemory::of_process().free(address))
}
