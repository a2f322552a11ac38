//! Memory by address: that of the process, and that of the store's local buffer.

use std::ffi::c_void;
use std::sync::Arc;

use mooncake_client::{HostMemory, bind_to_numa_node as bind};
use pyo3::prelude::*;

use crate::argument::argument;
use crate::pool_client::PoolClient;
use crate::store::MooncakeDistributedStore;

/// Allocates memory that a store can hand to another process of this host, so that it travels without a copy.
#[pyclass(frozen, module = "mooncake.store")]
pub(crate) struct MooncakeHostMemAllocator;

#[pymethods]
impl MooncakeHostMemAllocator {
    #[new]
    fn new() -> Self {
        Self
    }

    /// Allocates `size` zero bytes, page by page. Returns the address of the first, or 0 if there are none to be had.
    fn alloc(&self, py: Python<'_>, size: &Bound<'_, PyAny>) -> PyResult<usize> {
        let size = argument("alloc", "size").number(size)?;
        Ok(py.detach(|| HostMemory::of_process().alloc(size)).unwrap_or(0))
    }

    /// Gives back the memory that starts at `ptr`. Returns 0, or -1 if none was allocated there.
    fn free(&self, py: Python<'_>, ptr: &Bound<'_, PyAny>) -> PyResult<i32> {
        let address = argument("free", "ptr").number(ptr)?;
        Ok(if py.detach(|| free(address)) { 0 } else { -1 })
    }
}

#[pymethods]
impl MooncakeDistributedStore {
    /// Takes `size` bytes of the store's local buffer, which the store reads and writes without a copy. They are the
    /// caller's until the store is closed.
    ///
    /// Returns the address of the first, or 0 if there is no room.
    fn alloc_from_mem_pool(&self, py: Python<'_>, size: &Bound<'_, PyAny>) -> PyResult<usize> {
        let size = argument("alloc_from_mem_pool", "size").number(size)?;
        let Some(store) = self.store_for("alloc_from_mem_pool") else { return Ok(0) };
        Ok(py.detach(|| store.alloc_from_mem_pool(size)).unwrap_or(0))
    }

    /// Takes `size` bytes of the local buffer, which stay mapped until what is returned is collected, also when the
    /// store is closed before. None if there is no room.
    fn _lend_from_mem_pool(&self, py: Python<'_>, size: u64) -> Option<LocalMemory> {
        let store = self.store_for("_lend_from_mem_pool")?;
        let address = py.detach(|| store.alloc_from_mem_pool(size))?;
        Some(LocalMemory { store, address })
    }

    /// The length of the local buffer in bytes; zero while the store is not set up.
    fn _local_buffer_size(&self) -> u64 {
        self.store().map_or(0, |store| store.local_buffer_bytes())
    }
}

/// Memory of a store's local buffer, given back when this is collected.
#[pyclass(frozen, name = "_LocalMemory", module = "mooncake._native")]
pub(crate) struct LocalMemory {
    /// Keeps the buffer mapped. A store that was set up again in the meantime is another one.
    store: Arc<PoolClient>,
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
        self.store.free_to_mem_pool(self.address);
    }
}

/// Runs this thread on the processors of a NUMA node from now on, and has its memory allocated there while there is
/// room. A node that is not there changes nothing but the log.
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

/// The address of a C function `void *(size_t)` that allocates as `MooncakeHostMemAllocator.alloc`.
#[pyfunction]
pub(crate) fn get_alloc_func_addr() -> usize {
    allocate_for_c as *const () as usize
}

/// The address of a C function `void (void *)` that gives back what the other one allocated.
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
