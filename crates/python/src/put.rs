//! The methods that write objects.

use mooncake_client::{ErrorCode, PutSource, SliceList, Store};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::PyTuple;

use crate::argument::argument;
use crate::batch;
use crate::buffer::{LentBuffer, memory_at, memory_list_at};
use crate::replicate_config::Rules;
use crate::store::{INVALID_PARAMS, MooncakeDistributedStore};

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
        let key = argument("put", "key").text(key)?;
        let value = argument("put", "value").buffer(value)?;
        let rules = argument("put", "config").rules(config)?;
        let Some(store) = self.copying_store("put") else { return Ok(INVALID_PARAMS) };
        Ok(py.detach(|| put_one(&store, "put", &key, &rules, SliceList::from(value.slice()))))
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
        let key = argument("put_parts", "key").text(key)?;
        let parts = argument("put_parts", "parts").buffers(parts)?;
        if let Some(position) = parts.iter().position(|part| !part.is_row_of_bytes()) {
            return Err(PyRuntimeError::new_err(format!(
                "put_parts(): part {position} must be one-dimensional with items of one byte"
            )));
        }
        let rules = argument("put_parts", "config").rules(config)?;
        let Some(store) = self.copying_store("put_parts") else { return Ok(INVALID_PARAMS) };
        let slices: Vec<_> =
            parts.iter().filter(|part| part.len() > 0).map(LentBuffer::slice).collect();
        if slices.is_empty() {
            return Ok(0);
        }
        Ok(py.detach(|| put_one(&store, "put_parts", &key, &rules, SliceList::from(slices))))
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
        let keys = argument("put_batch", "keys").texts(keys)?;
        let values = argument("put_batch", "values").buffers(values)?;
        let rules = argument("put_batch", "config").rules(config)?;
        let Some(store) = self.copying_store("put_batch") else { return Ok(INVALID_PARAMS) };
        if keys.len() != values.len() {
            tracing::warn!("put_batch: {} keys, but {} values", keys.len(), values.len());
            return Ok(INVALID_PARAMS);
        }
        let codes = py.detach(|| {
            let slices = values.iter().map(|value| match value.len() {
                0 => Err(ErrorCode::InvalidParams),
                _ => Ok(SliceList::from(value.slice())),
            });
            put_many(&store, "put_batch", &keys, &rules, slices)
        });
        Ok(codes.into_iter().find(|&code| code != 0).unwrap_or(0))
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
        let key = argument("put_from", "key").text(key)?;
        let address = argument("put_from", "buffer_ptr").number(buffer_ptr)?;
        let size = argument("put_from", "size").number(size)?;
        let rules = argument("put_from", "config").rules(config)?;
        let Some(store) = self.store_for("put_from") else { return Ok(INVALID_PARAMS) };
        Ok(py.detach(|| match memory_at(&store, address, size) {
            Ok(slice) => put_one(&store, "put_from", &key, &rules, SliceList::from(slice)),
            Err(code) => code.number(),
        }))
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
    ) -> PyResult<Vec<i32>> {
        const NAME: &str = "batch_put_from";
        let keys = argument(NAME, "keys").texts(keys)?;
        let addresses = argument(NAME, "buffer_ptrs").numbers(buffer_ptrs)?;
        let sizes = argument(NAME, "sizes").numbers(sizes)?;
        let rules = argument(NAME, "config").rules(config)?;
        let Some(store) = self.store_for(NAME) else {
            return Ok(vec![INVALID_PARAMS; keys.len()]);
        };
        if let Some(refused) = batch::lengths_differ(NAME, keys.len(), addresses.len(), sizes.len())
        {
            return Ok(refused);
        }
        Ok(py.detach(|| {
            let ranges = addresses.iter().zip(&sizes);
            let slices = ranges
                .map(|(&address, &size)| memory_at(&store, address, size).map(SliceList::from));
            put_many(&store, NAME, &keys, &rules, slices)
        }))
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
    ) -> PyResult<Vec<i32>> {
        const NAME: &str = "batch_put_from_multi_buffers";
        let keys = argument(NAME, "keys").texts(keys)?;
        let addresses = argument(NAME, "all_buffer_ptrs").number_lists(all_buffer_ptrs)?;
        let sizes = argument(NAME, "all_sizes").number_lists(all_sizes)?;
        let rules = argument(NAME, "config").rules(config)?;
        let Some(store) = self.store_for(NAME) else {
            return Ok(vec![INVALID_PARAMS; keys.len()]);
        };
        if let Some(refused) = batch::lengths_differ(NAME, keys.len(), addresses.len(), sizes.len())
        {
            return Ok(refused);
        }
        Ok(py.detach(|| {
            let ranges = addresses.iter().zip(&sizes);
            let slices = ranges.map(|(addresses, sizes)| memory_list_at(&store, addresses, sizes));
            put_many(&store, NAME, &keys, &rules, slices)
        }))
    }
}

fn put_one(store: &Store, operation: &str, key: &str, rules: &Rules, src: SliceList) -> i32 {
    if src.total_len() == 0 {
        tracing::warn!("{operation}: the value of {key:?} is empty");
        return INVALID_PARAMS;
    }
    let config = match rules.for_one(operation) {
        Ok(config) => config,
        Err(code) => return code.number(),
    };
    let results = store.put(&[PutSource { key, src }], &config);
    results.into_iter().next().map_or(INVALID_PARAMS, batch::stored)
}

fn put_many(
    store: &Store,
    operation: &str,
    keys: &[PyBackedStr],
    rules: &Rules,
    slices: impl Iterator<Item = Result<SliceList, ErrorCode>>,
) -> Vec<i32> {
    let config = match rules.for_many(operation, keys.len()) {
        Ok(config) => config,
        Err(code) => return vec![code.number(); keys.len()],
    };
    let sources = keys.iter().zip(slices).map(|(key, src)| {
        let src = src?;
        if src.total_len() == 0 {
            tracing::warn!("{operation}: the value of {:?} is empty", key.as_str());
            return Err(ErrorCode::InvalidParams);
        }
        Ok(PutSource { key, src })
    });
    let results = batch::run(sources.collect(), |sources| store.put(sources, &config));
    results.into_iter().map(batch::stored).collect()
}
