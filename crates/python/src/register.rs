//! The methods that register memory which the store may read and write.

#![allow(unsafe_code, reason = "Python code names memory by address")]

use mooncake_binding::{INVALID_PARAMS, PoolClient, batch, log};
use mooncake_client::{ErrorCode, KnownMemory, Place};
use mooncake_memory::PlacedRange;
use pyo3::prelude::*;

use crate::argument::argument;
use crate::store::MooncakeDistributedStore;

/// The number that `_check_registered` returns for memory of a device.
const IN_DEVICE: i32 = 1;

/// Lets transfers use a buffer of the host in place that was just registered.
fn use_in_place(client: &PoolClient, address: usize, len: usize) {
    let Some(store) = client.own() else { return };
    let range = PlacedRange { place: Place::Host, address, len };
    let is_host = client.check_registered(address, len).is_ok_and(|it| it.place == Place::Host);
    // SAFETY: the caller of `register_buffer` promises that the memory stays mapped and writable until
    // `unregister_buffer`, which makes the store forget it.
    let memory = is_host.then(|| unsafe { range.slice() }).and_then(|memory| memory.host());
    if let Some(memory) = memory {
        store.use_in_place(memory);
    }
}

#[pymethods]
impl MooncakeDistributedStore {
    /// Registers `size` bytes at the address `buffer_ptr` for `put_from`, `get_into` and their batch forms. The memory
    /// must stay mapped and writable until `unregister_buffer`. GPU memory can be used only while it is registered, and must
    /// not be freed before: network cards may know it;
    /// host memory can also be used without, though one-sided transfers then copy it. A call may use bytes of several registered ranges that adjoin.
    ///
    /// Returns 0, or -600 if the range
    ///
    /// - is empty, wraps around, or overlaps a registered range;
    /// - does not lie entirely in host memory or entirely on one GPU.
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
            (Ok(address), Ok(size)) => {
                store.register(address, size).inspect(|()| use_in_place(&store, address, size))
            }
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

    /// Unregisters the range that starts at the address `buffer_ptr`.
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

    /// Checks whether code of this package may touch the `size` bytes at `buffer_ptr` itself. A transfer may also run past
    /// the end of a buffer, because it checks each page that it touches.
    ///
    /// Returns 0; 1 if they lie on a GPU, where the processor cannot touch them; or -600 if the range
    ///
    /// - is empty;
    /// - lies in registered buffers in part only;
    /// - starts outside of all registered buffers and not in host memory.
    fn _check_registered(&self, buffer_ptr: usize, size: usize) -> i32 {
        let Some(store) = self.store_for("_check_registered") else { return INVALID_PARAMS };
        let checked = match store.check_registered(buffer_ptr, size) {
            Ok(KnownMemory { place: Place::Device(_), .. }) => return IN_DEVICE,
            Ok(KnownMemory { is_mixed: true, .. }) => Err(ErrorCode::InvalidParams),
            checked => checked.map(|_| ()),
        };
        batch::done(checked)
    }
}
