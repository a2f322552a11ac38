//! The methods that register, allocate and copy memory of this process.

use mooncake_engine::{Engine, RegisterError, RemoteAccess};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use super::TransferEngine;
use super::code::{self, FAILED};
use super::memory::memory_at;
use crate::argument::argument;
use crate::buffer::LentBuffer;

#[pymethods]
impl TransferEngine {
    /// Registers `capacity` bytes at the address `buffer_addr`: peers may read and write them, and transfers of this
    /// engine may use them. They must stay mapped until `unregister_memory` has returned 0. Peers can only read memory
    /// that this process cannot write.
    ///
    /// With `remote_accessible=False`, peers can neither read nor write them. The engine recognizes GPU memory by its
    /// address. `location` is accepted and changes nothing.
    ///
    /// Returns 0, or a negative number:
    ///
    /// - -7 if a part of the range is registered already;
    /// - -302 if the process has no such memory;
    /// - -2 if there are too many registrations;
    /// - -1 if the range is empty or the engine is not initialized.
    #[pyo3(signature = (buffer_addr, capacity, location=None, remote_accessible=None))]
    #[pyo3(text_signature = "($self, buffer_addr, capacity, location='*', remote_accessible=True)")]
    fn register_memory(
        &self,
        py: Python<'_>,
        buffer_addr: &Bound<'_, PyAny>,
        capacity: &Bound<'_, PyAny>,
        location: Option<&Bound<'_, PyAny>>,
        remote_accessible: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<i32> {
        const NAME: &str = "register_memory";
        let start = argument(NAME, "buffer_addr").number(buffer_addr)?;
        let len = argument(NAME, "capacity").number(capacity)?;
        location.map(|location| argument(NAME, "location").text(location)).transpose()?;
        let remote = match remote_accessible {
            Some(flag) if !argument(NAME, "remote_accessible").flag(flag)? => RemoteAccess::Refused,
            _ => RemoteAccess::Allowed,
        };
        let Some(engine) = self.engine_for(NAME) else { return Ok(FAILED) };
        Ok(code::of(NAME, py.detach(|| register(&engine, &[start], &[len], remote))))
    }

    /// Unregisters the memory that starts at `buffer_addr`, after it has waited for transfers that use it.
    ///
    /// Returns 0; -3 if no registered range starts there; -4 if a transfer did not end in time: the memory is then
    /// still registered and must not be freed; -1 if the engine is not initialized.
    fn unregister_memory(&self, py: Python<'_>, buffer_addr: &Bound<'_, PyAny>) -> PyResult<i32> {
        const NAME: &str = "unregister_memory";
        let start = argument(NAME, "buffer_addr").number(buffer_addr)?;
        let Some(engine) = self.engine_for(NAME) else { return Ok(FAILED) };
        Ok(code::of(NAME, py.detach(|| engine.unregister(start))))
    }

    /// Registers several ranges, as `register_memory`: either all of them or none.
    ///
    /// Returns as `register_memory`; -1 if the lists differ in length.
    #[pyo3(signature = (buffer_addresses, capacities, location=None))]
    #[pyo3(text_signature = "($self, buffer_addresses, capacities, location='*')")]
    fn batch_register_memory(
        &self,
        py: Python<'_>,
        buffer_addresses: &Bound<'_, PyAny>,
        capacities: &Bound<'_, PyAny>,
        location: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<i32> {
        const NAME: &str = "batch_register_memory";
        let starts = argument(NAME, "buffer_addresses").numbers(buffer_addresses)?;
        let lens = argument(NAME, "capacities").numbers(capacities)?;
        location.map(|location| argument(NAME, "location").text(location)).transpose()?;
        let Some(engine) = self.engine_for(NAME) else { return Ok(FAILED) };
        if starts.len() != lens.len() {
            tracing::error!("{NAME}: {} addresses, but {} capacities", starts.len(), lens.len());
            return Ok(FAILED);
        }
        let remote = RemoteAccess::Allowed;
        Ok(code::of(NAME, py.detach(|| register(&engine, &starts, &lens, remote))))
    }

    /// Unregisters several ranges, as `unregister_memory`. Goes on after an error.
    ///
    /// Returns 0, or the negative number of the first range that failed.
    fn batch_unregister_memory(
        &self,
        py: Python<'_>,
        buffer_addresses: &Bound<'_, PyAny>,
    ) -> PyResult<i32> {
        const NAME: &str = "batch_unregister_memory";
        let starts = argument(NAME, "buffer_addresses").numbers(buffer_addresses)?;
        let Some(engine) = self.engine_for(NAME) else { return Ok(FAILED) };
        Ok(py.detach(|| {
            let results = starts.iter().map(|&start| code::of(NAME, engine.unregister(start)));
            results.fold(0, |first, code| if first == 0 { code } else { first })
        }))
    }

    /// Allocates `length` zeroed bytes and registers them.
    ///
    /// Returns their address, or 0 if the system has no memory or there are too many registrations. Free them with
    /// `free_managed_buffer`.
    fn allocate_managed_buffer(&self, py: Python<'_>, length: &Bound<'_, PyAny>) -> PyResult<u64> {
        const NAME: &str = "allocate_managed_buffer";
        let len = argument(NAME, "length").number(length)?;
        let Some(engine) = self.engine_for(NAME) else { return Ok(0) };
        Ok(py.detach(|| engine.allocate(len)).unwrap_or_else(|error| {
            tracing::error!("{NAME}: {error}");
            0
        }))
    }

    /// Frees a buffer of `allocate_managed_buffer`, after it has waited for transfers that use it.
    ///
    /// Returns 0; -3 if no managed buffer of this length starts at `buffer_addr`; -4 if a transfer did not end in
    /// time; -1 if the engine is not initialized.
    fn free_managed_buffer(
        &self,
        py: Python<'_>,
        buffer_addr: &Bound<'_, PyAny>,
        length: &Bound<'_, PyAny>,
    ) -> PyResult<i32> {
        const NAME: &str = "free_managed_buffer";
        let start = argument(NAME, "buffer_addr").number(buffer_addr)?;
        let len = argument(NAME, "length").number(length)?;
        let Some(engine) = self.engine_for(NAME) else { return Ok(FAILED) };
        Ok(code::of(NAME, py.detach(|| engine.free(start, len))))
    }

    /// Copies the first `length` bytes of `src_ptr` to `dest_address`, in registered memory. `src_ptr` is a bytes-like
    /// object, or a str, which is encoded as UTF-8.
    ///
    /// Returns 0, or -1 if the source is shorter than `length`, or the destination is not registered or not writable.
    fn write_bytes_to_buffer(
        &self,
        py: Python<'_>,
        dest_address: &Bound<'_, PyAny>,
        src_ptr: &Bound<'_, PyAny>,
        length: &Bound<'_, PyAny>,
    ) -> PyResult<i32> {
        const NAME: &str = "write_bytes_to_buffer";
        let start = argument(NAME, "dest_address").number(dest_address)?;
        let source = match src_ptr.cast::<PyString>() {
            Ok(text) => LentBuffer::of(text.encode_utf8()?.as_any()),
            Err(_) => Some(argument(NAME, "src_ptr").buffer(src_ptr)?),
        };
        let len = argument(NAME, "length").number(length)?;
        let Some(engine) = self.engine_for(NAME) else { return Ok(FAILED) };
        let fits =
            |source: &LentBuffer| usize::try_from(len).ok().filter(|&len| len <= source.len());
        let Some((source, len)) = source.and_then(|source| fits(&source).map(|len| (source, len)))
        else {
            tracing::error!("{NAME}: the source has not {len} bytes");
            return Ok(FAILED);
        };
        Ok(py.detach(|| match engine.fill(start, source.slice().sub(0, len)) {
            Ok(()) => 0,
            Err(error) => {
                tracing::error!("{NAME}: {error}");
                FAILED
            }
        }))
    }

    /// Copies `length` bytes at `source_address`, in registered memory, to a bytes object.
    ///
    /// Raises ValueError if the memory is not registered or cannot be read, or the engine is not initialized.
    fn read_bytes_from_buffer<'py>(
        &self,
        py: Python<'py>,
        source_address: &Bound<'py, PyAny>,
        length: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        const NAME: &str = "read_bytes_from_buffer";
        let start = argument(NAME, "source_address").number(source_address)?;
        let len = argument(NAME, "length").number(length)?;
        let refused =
            |reason: &dyn std::fmt::Display| PyValueError::new_err(format!("{NAME}(): {reason}"));
        let engine =
            self.engine_for(NAME).ok_or_else(|| refused(&"the engine is not initialized"))?;
        let bytes = py.detach(|| engine.peek(start, len)).map_err(|error| refused(&error))?;
        Ok(PyBytes::new(py, &bytes))
    }
}

fn register(
    engine: &Engine,
    starts: &[u64],
    lens: &[u64],
    remote: RemoteAccess,
) -> Result<(), RegisterError> {
    let ranges = starts.iter().zip(lens).map(|(&start, &len)| memory_at(start, len));
    engine.register_all(&ranges.collect::<Result<Vec<_>, _>>()?, remote)
}
