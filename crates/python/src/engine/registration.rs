//! The methods about memory of this process.

use mooncake_engine::{Engine, RegisterError};
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
    /// Lets peers read and write `capacity` bytes at `buffer_addr`, and transfers of this engine use them. They must stay
    /// mapped until `unregister_memory` has returned 0. Memory that the process itself cannot write is only read.
    ///
    /// Memory of a GPU is found out by its address; `location` is accepted and changes nothing.
    ///
    /// Returns 0; -7 if some of it is registered already; -302 if the process has no such memory; or another negative
    /// number.
    #[pyo3(signature = (buffer_addr, capacity, location=None))]
    #[pyo3(text_signature = "($self, buffer_addr, capacity, location='*')")]
    fn register_memory(
        &self,
        py: Python<'_>,
        buffer_addr: &Bound<'_, PyAny>,
        capacity: &Bound<'_, PyAny>,
        location: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<i32> {
        const NAME: &str = "register_memory";
        let start = argument(NAME, "buffer_addr").number(buffer_addr)?;
        let len = argument(NAME, "capacity").number(capacity)?;
        location.map(|location| argument(NAME, "location").text(location)).transpose()?;
        let Some(engine) = self.engine_for(NAME) else { return Ok(FAILED) };
        Ok(code::of(NAME, py.detach(|| register(&engine, &[start], &[len]))))
    }

    /// Takes back the registration of the memory that starts at `buffer_addr`, and waits until no transfer uses it.
    ///
    /// Returns 0; -3 if no registered memory starts there; -4 if a transfer goes on for too long: then it is still
    /// registered and must not be freed.
    fn unregister_memory(&self, py: Python<'_>, buffer_addr: &Bound<'_, PyAny>) -> PyResult<i32> {
        const NAME: &str = "unregister_memory";
        let start = argument(NAME, "buffer_addr").number(buffer_addr)?;
        let Some(engine) = self.engine_for(NAME) else { return Ok(FAILED) };
        Ok(code::of(NAME, py.detach(|| engine.unregister(start))))
    }

    /// Registers several ranges, all of them or none, as `register_memory`.
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
        Ok(code::of(NAME, py.detach(|| register(&engine, &starts, &lens))))
    }

    /// Takes back several registrations, as `unregister_memory`. All are tried.
    ///
    /// Returns 0, or the negative number of the first that failed.
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

    /// `length` zeroed bytes of the engine's own, registered.
    ///
    /// Returns their address, or 0 if there are none.
    fn allocate_managed_buffer(&self, py: Python<'_>, length: &Bound<'_, PyAny>) -> PyResult<u64> {
        const NAME: &str = "allocate_managed_buffer";
        let len = argument(NAME, "length").number(length)?;
        let Some(engine) = self.engine_for(NAME) else { return Ok(0) };
        Ok(py.detach(|| engine.allocate(len)).unwrap_or_else(|error| {
            tracing::error!("{NAME}: {error}");
            0
        }))
    }

    /// Gives back what `allocate_managed_buffer` has given, when no transfer uses it any more.
    ///
    /// Returns 0; -3 if there is no such buffer of this length; -4 if a transfer goes on for too long.
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

    /// Copies the first `length` bytes of `src_ptr` to an address in registered memory. A str is taken as UTF-8.
    ///
    /// Returns 0, or -1 if there are not as many, or the memory is not registered.
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

    /// A copy of `length` bytes at an address in registered memory. Raises ValueError if it is not registered.
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

fn register(engine: &Engine, starts: &[u64], lens: &[u64]) -> Result<(), RegisterError> {
    let ranges = starts.iter().zip(lens).map(|(&start, &len)| memory_at(start, len));
    engine.register_all(&ranges.collect::<Result<Vec<_>, _>>()?)
}
