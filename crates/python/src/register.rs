//! The methods that tell the store which memory it may read and write.

use mooncake_client::{ErrorCode, KnownMemory, Place};
use pyo3::prelude::*;

use crate::argument::argument;
use crate::batch;
use crate::log;
use crate::store::{INVALID_PARAMS, MooncakeDistributedStore};

/// What `_check_registered` says of memory of a device.
const IN_DEVICE: i32 = 1;

#[pymethods]
impl MooncakeDistributedStore {
    /// Registers `size` bytes at `buffer_ptr` for `put_from`, `get_into` and their batch forms. They must stay mapped
    /// and writable until `unregister_buffer`. Memory of a GPU can be used only once it is registered.
    ///
    /// Returns 0, or -600 if the range is empty, wraps around, overlaps a registered one, or is neither all memory of the host
    /// nor all memory of one GPU.
    fn register_buffer(
        &self,
        py: Python<'_>,
        buffer_ptr: &Bound<'_, PyAny>,
        size: &Bound<'_, PyAny>,
    ) -> PyResult<i32> {
        let address = argument("register_buffer", "buffer_ptr").number(buffer_ptr)?;
        let size = argument("register_buffer", "size").number(size)?;
        let Some(store) = self.store_for("register_buffer") else { return Ok(INVALID_PARAMS) };
        let result = py.detach(|| match (usize::try_from(address), usize::try_from(size)) {
            (Ok(address), Ok(size)) => store.register(address, size),
            _ => Err(ErrorCode::InvalidParams),
        });
        if result.is_err() {
            let text = format_args!(
                "{size} bytes at {address:#x} are empty, wrap around, overlap or are memory neither of the host nor of a GPU"
            );
            log::warn("register_buffer", "range", text);
        }
        Ok(batch::done(result))
    }

    /// Takes back the registration of the range that starts at `buffer_ptr`.
    ///
    /// Returns 0, or -600 if no registered range starts there.
    fn unregister_buffer(&self, py: Python<'_>, buffer_ptr: &Bound<'_, PyAny>) -> PyResult<i32> {
        let address = argument("unregister_buffer", "buffer_ptr").number(buffer_ptr)?;
        let Some(store) = self.store_for("unregister_buffer") else { return Ok(INVALID_PARAMS) };
        let result = py.detach(|| match usize::try_from(address) {
            Ok(address) => store.unregister(address),
            Err(_) => Err(ErrorCode::InvalidParams),
        });
        if result.is_err() {
            let text = format_args!("no registered buffer starts at {address:#x}");
            log::warn("unregister_buffer", "range", text);
        }
        Ok(batch::done(result))
    }

    /// Whether calls take the `size` bytes at `buffer_ptr`, for calls that touch them before any other does.
    ///
    /// Returns 0, or 1 if they lie in a GPU and the processor cannot touch them; -600 if there are none, if they start in a
    /// registered buffer and run past its end, or outside of all and not in host memory.
    fn _check_registered(&self, buffer_ptr: usize, size: usize) -> i32 {
        let Some(store) = self.store_for("_check_registered") else { return INVALID_PARAMS };
        let checked = match store.check_registered(buffer_ptr, size) {
            Ok(KnownMemory { place: Place::Device(_), .. }) => return IN_DEVICE,
            checked => checked.map(|_| ()),
        };
        batch::done(checked)
    }
}
