//! The methods that write objects under keys that are free.

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::argument::argument;
use crate::codes::Codes;
use crate::store::MooncakeDistributedStore;
use crate::write::{Method, Verb};

const fn put(name: &'static str) -> Method {
    Method { name, verb: Verb::Put }
}

#[pymethods]
impl MooncakeDistributedStore {
    /// Stores a copy of a bytes-like value. A key that exists keeps its value.
    ///
    /// Returns 0; -600 if the value is empty or there is no local buffer; -200 if the pool is full; or another
    /// negative code.
    #[pyo3(signature = (key, value, config=None))]
    fn put(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        config: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<i32> {
        self.write_value(py, put("put"), (key, value, config))
    }

    /// Stores the concatenation of bytes-like parts, each one-dimensional with items of one byte.
    ///
    /// Returns as `put`, but 0 if all parts are empty: nothing is stored then.
    #[pyo3(signature = (key, *parts, config=None))]
    fn put_parts(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        parts: &Bound<'_, PyTuple>,
        config: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<i32> {
        self.write_parts(py, put("put_parts"), (key, parts, config))
    }

    /// Stores copies of several bytes-like values.
    ///
    /// Returns 0 or the first error.
    #[pyo3(signature = (keys, values, config=None))]
    fn put_batch(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
        config: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<i32> {
        self.write_values(py, put("put_batch"), (keys, values, config))
    }

    /// Stores `size` bytes at `buffer_ptr`, which must stay mapped during the call. Nothing is copied on the way.
    ///
    /// Returns 0; -600 if there are no bytes or they run past the end of the registered buffer that they start in; or
    /// another negative code.
    #[pyo3(signature = (key, buffer_ptr, size, config=None))]
    fn put_from(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        buffer_ptr: &Bound<'_, PyAny>,
        size: &Bound<'_, PyAny>,
        config: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<i32> {
        self.write_from(py, put("put_from"), (key, buffer_ptr, size), config)
    }

    /// Stores an object made of the `metadata_size` bytes at `metadata_buffer_ptr` and the `size` bytes at
    /// `buffer_ptr`, in this order.
    ///
    /// Returns as `put_from`.
    #[pyo3(signature = (key, buffer_ptr, metadata_buffer_ptr, size, metadata_size, config=None))]
    #[allow(clippy::too_many_arguments, reason = "the signature is the C++ package's")]
    fn put_from_with_metadata(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        buffer_ptr: &Bound<'_, PyAny>,
        metadata_buffer_ptr: &Bound<'_, PyAny>,
        size: &Bound<'_, PyAny>,
        metadata_size: &Bound<'_, PyAny>,
        config: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<i32> {
        const NAME: &str = "put_from_with_metadata";
        let key = argument(NAME, "key").text(key)?;
        let addresses = [
            argument(NAME, "metadata_buffer_ptr").number(metadata_buffer_ptr)?,
            argument(NAME, "buffer_ptr").number(buffer_ptr)?,
        ];
        let sizes = [
            argument(NAME, "metadata_size").number(metadata_size)?,
            argument(NAME, "size").number(size)?,
        ];
        let rules = argument(NAME, "config").rules(config)?;
        Ok(self.write_gathered(py, put(NAME), key, (&addresses, &sizes), &rules))
    }

    /// Stores several objects, each from one range of memory, as `put_from`.
    ///
    /// Returns a list of 0 or a negative code per key.
    #[pyo3(signature = (keys, buffer_ptrs, sizes, config=None))]
    fn batch_put_from(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        buffer_ptrs: &Bound<'_, PyAny>,
        sizes: &Bound<'_, PyAny>,
        config: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Codes<i32>> {
        self.write_many_from(py, put("batch_put_from"), (keys, buffer_ptrs, sizes), config)
    }

    /// Stores several objects, each gathered from several ranges of memory.
    ///
    /// Returns a list of 0 or a negative code per key.
    #[pyo3(signature = (keys, all_buffer_ptrs, all_sizes, config=None))]
    fn batch_put_from_multi_buffers(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        all_buffer_ptrs: &Bound<'_, PyAny>,
        all_sizes: &Bound<'_, PyAny>,
        config: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Codes<i32>> {
        let method = put("batch_put_from_multi_buffers");
        self.write_many_gathered(py, method, (keys, all_buffer_ptrs, all_sizes), config)
    }
}
