//! The methods that put objects. A key that exists keeps its value.

use mooncake_binding::Verb;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::argument::argument;
use crate::codes::Codes;
use crate::store::MooncakeDistributedStore;
use crate::write::Method;

const fn put(name: &'static str) -> Method {
    Method { name, verb: Verb::Put }
}

#[pymethods]
impl MooncakeDistributedStore {
    /// Stores a copy of `value`, a bytes-like object, under `key`. If the key exists, it keeps its value.
    ///
    /// `config` is a `ReplicateConfig`, or None for the defaults.
    ///
    /// Returns 0 if the value is stored or the key existed; otherwise a negative code:
    ///
    /// - -600 if the value is empty, `config` is invalid, the store is not set up, or it has no local buffer;
    /// - -200 if the pool is full;
    /// - -400 if the key is empty or longer than 4096 bytes;
    /// - -800 if no node took the bytes;
    /// - -900 or -901 if the master cannot be reached or does not answer in time.
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

    /// Stores the concatenation of `parts` under `key`. Parts are bytes-like, one-dimensional, with items of one byte.
    ///
    /// Returns as `put`; also 0 if all parts are empty, and then nothing is stored. Raises RuntimeError for a part of
    /// another shape.
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

    /// Stores copies of `values`, bytes-like objects, under `keys`, as `put`: one value per key.
    ///
    /// Returns 0, or the first negative code of a key; -600 if the lists differ in length. Keys without an error are
    /// stored.
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

    /// Stores `size` bytes at the address `buffer_ptr` under `key`, without a copy in this process. The memory must
    /// stay mapped during the call.
    ///
    /// Returns as `put`, but needs no local buffer. Also -600 if `size` is 0, or the bytes run past the end of the
    /// registered buffer that they start in.
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

    /// Stores one object: `metadata_size` bytes at `metadata_buffer_ptr`, followed by `size` bytes at `buffer_ptr`.
    ///
    /// Returns as `put_from`, with -600 if both sizes are 0.
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
        let settings = argument(NAME, "config").settings(config)?;
        Ok(self.write_gathered(py, put(NAME), key, (&addresses, &sizes), &settings))
    }

    /// Stores several objects, as `put_from`: for each key, `sizes[k]` bytes at the address `buffer_ptrs[k]`.
    ///
    /// Returns a list with 0 or a negative code per key; -600 for all if the lists differ in length.
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

    /// Stores several objects, each gathered from several ranges: object k is the concatenation of the
    /// `all_sizes[k][i]` bytes at `all_buffer_ptrs[k][i]`. Empty ranges are skipped.
    ///
    /// Returns a list with 0 or a negative code per key, as `put_from`; -600 for all if the outer lists differ in
    /// length.
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
