//! The methods that upsert objects: they put an object, or replace the object that the key has.
//!
//! A reader gets the old value until the new value is complete, and never a mix of both. If the writer fails or dies,
//! the old value stays.

use mooncake_binding::Verb;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::codes::Codes;
use crate::store::MooncakeDistributedStore;
use crate::write::Method;

const fn upsert(name: &'static str) -> Method {
    Method { name, verb: Verb::Upsert }
}

#[pymethods]
impl MooncakeDistributedStore {
    /// Stores a copy of `value`, a bytes-like object, under `key`, and replaces the value that the key has. Readers
    /// get the whole old value or the whole new value. If the call fails, the old value stays.
    ///
    /// Returns 0, or a negative code as `put` does; also:
    ///
    /// - -200 if the pool has no room for the new value beside the old one;
    /// - -708 while the object is being copied or moved;
    /// - -600 if `group_ids` of `config` names another group than the object has.
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

    /// Stores the concatenation of `parts`, as `upsert` and `put_parts`. If all parts are empty, nothing changes and
    /// the result is 0.
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

    /// Stores copies of `values`, bytes-like objects, under `keys`, as `upsert`. If a key appears twice, its last
    /// value is stored.
    ///
    /// Returns 0, or the first negative code of a key; -600 if the lists differ in length.
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

    /// Stores `size` bytes at the address `buffer_ptr` under `key`, as `upsert`, without a copy in this process. The
    /// memory must stay mapped during the call. Returns as `upsert` and `put_from`.
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

    /// Stores several objects, each as `upsert_from`: for each key, `sizes[k]` bytes at the address `buffer_ptrs[k]`.
    ///
    /// Returns a list with 0 or a negative code per key; -600 for all if the lists differ in length.
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

    /// Stores several objects, as `upsert_from`, each gathered from several ranges: object k is the concatenation of
    /// the `all_sizes[k][i]` bytes at `all_buffer_ptrs[k][i]`.
    ///
    /// Returns a list with 0 or a negative code per key; -600 for all if the outer lists differ in length.
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
