//! The methods that write objects whether their keys are free or not.
//!
//! A reader of a key that is taken gets the old value until the new one is complete, and never a mix. A writer that
//! fails or dies leaves the old one.

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::codes::Codes;
use crate::store::MooncakeDistributedStore;
use crate::write::{Method, Verb};

const fn upsert(name: &'static str) -> Method {
    Method { name, verb: Verb::Upsert }
}

#[pymethods]
impl MooncakeDistributedStore {
    /// Stores a copy of a bytes-like value, in the place of the value that the key has.
    ///
    /// Returns 0; -600 if the value is empty or there is no local buffer; -200 if the pool has no room for both values;
    /// -708 if the object is being copied or moved; or another negative code.
    #[pyo3(signature = (key, value, config=None))]
    fn upsert(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        config: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<i32> {
        self.write_value(py, upsert("upsert"), (key, value, config))
    }

    /// Stores the concatenation of bytes-like parts, as `upsert`. Nothing changes if all parts are empty.
    #[pyo3(signature = (key, *parts, config=None))]
    fn upsert_parts(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        parts: &Bound<'_, PyTuple>,
        config: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<i32> {
        self.write_parts(py, upsert("upsert_parts"), (key, parts, config))
    }

    /// Stores copies of several bytes-like values, as `upsert`. Of a key that stands twice the last value stays.
    ///
    /// Returns 0 or the first error.
    #[pyo3(signature = (keys, values, config=None))]
    fn upsert_batch(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
        config: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<i32> {
        self.write_values(py, upsert("upsert_batch"), (keys, values, config))
    }

    /// Stores `size` bytes at `buffer_ptr`, as `upsert`. Nothing is copied on the way.
    #[pyo3(signature = (key, buffer_ptr, size, config=None))]
    fn upsert_from(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        buffer_ptr: &Bound<'_, PyAny>,
        size: &Bound<'_, PyAny>,
        config: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<i32> {
        self.write_from(py, upsert("upsert_from"), (key, buffer_ptr, size), config)
    }

    /// Stores several objects, each from one range of memory, as `upsert_from`.
    ///
    /// Returns a list of 0 or a negative code per key.
    #[pyo3(signature = (keys, buffer_ptrs, sizes, config=None))]
    fn batch_upsert_from(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        buffer_ptrs: &Bound<'_, PyAny>,
        sizes: &Bound<'_, PyAny>,
        config: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Codes<i32>> {
        self.write_many_from(py, upsert("batch_upsert_from"), (keys, buffer_ptrs, sizes), config)
    }

    /// Stores several objects, each gathered from several ranges of memory, as `upsert_from`.
    ///
    /// Returns a list of 0 or a negative code per key.
    #[pyo3(signature = (keys, all_buffer_ptrs, all_sizes, config=None))]
    fn batch_upsert_from_multi_buffers(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        all_buffer_ptrs: &Bound<'_, PyAny>,
        all_sizes: &Bound<'_, PyAny>,
        config: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Codes<i32>> {
        let method = upsert("batch_upsert_from_multi_buffers");
        self.write_many_gathered(py, method, (keys, all_buffer_ptrs, all_sizes), config)
    }
}
