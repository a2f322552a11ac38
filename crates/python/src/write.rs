//! The code that the put and the upsert methods share: arguments, checks and results.

use mooncake_binding::{INVALID_PARAMS, PoolClient, ReplicateSettings, Verb, Write, log};
use mooncake_client::{ErrorCode, SliceList};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::argument::argument;
use crate::buffer::{LentBuffer, memory_at, memory_list_at};
use crate::codes::{Codes, lengths_differ};
use crate::store::MooncakeDistributedStore;

/// A method that writes objects.
#[derive(Clone, Copy)]
pub(crate) struct Method {
    /// The method's name, for errors.
    pub(crate) name: &'static str,
    /// Whether the method puts or upserts.
    pub(crate) verb: Verb,
}

impl Method {
    /// A call of the method on this store.
    fn on<'a>(self, client: &'a PoolClient, settings: &'a ReplicateSettings) -> Write<'a> {
        Write { operation: self.name, verb: self.verb, client, settings }
    }
}

type Value<'a, 'py> = &'a Bound<'py, PyAny>;
type Config<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

impl MooncakeDistributedStore {
    /// Writes a copy of a bytes-like value.
    pub(crate) fn write_value(
        &self,
        py: Python<'_>,
        method: Method,
        (key, value, config): (Value<'_, '_>, Value<'_, '_>, Config<'_, '_>),
    ) -> PyResult<i32> {
        let key = argument(method.name, "key").text(key)?;
        let value = argument(method.name, "value").buffer(value)?;
        let settings = argument(method.name, "config").settings(config)?;
        let Some(store) = self.copying_store(method.name) else { return Ok(INVALID_PARAMS) };
        let call = method.on(&store, &settings);
        Ok(py.detach(|| call.one(key, SliceList::from(value.slice()))))
    }

    /// Writes the concatenation of bytes-like parts. Writes nothing if all are empty.
    pub(crate) fn write_parts(
        &self,
        py: Python<'_>,
        method: Method,
        (key, parts, config): (Value<'_, '_>, &Bound<'_, PyTuple>, Config<'_, '_>),
    ) -> PyResult<i32> {
        let key = argument(method.name, "key").text(key)?;
        let parts = argument(method.name, "parts").buffers(parts)?;
        if let Some(position) = parts.iter().position(|part| !part.is_row_of_bytes()) {
            return Err(PyRuntimeError::new_err(format!(
                "{}(): part {position} must be one-dimensional with items of one byte",
                method.name
            )));
        }
        let settings = argument(method.name, "config").settings(config)?;
        let Some(store) = self.copying_store(method.name) else { return Ok(INVALID_PARAMS) };
        let slices: Vec<_> =
            parts.iter().filter(|part| part.len() > 0).map(LentBuffer::slice).collect();
        if slices.is_empty() {
            return Ok(0);
        }
        let call = method.on(&store, &settings);
        Ok(py.detach(|| call.one(key, SliceList::from(slices))))
    }

    /// Writes copies of several bytes-like values. Returns 0 or the first error.
    pub(crate) fn write_values(
        &self,
        py: Python<'_>,
        method: Method,
        (keys, values, config): (Value<'_, '_>, Value<'_, '_>, Config<'_, '_>),
    ) -> PyResult<i32> {
        let held = argument(method.name, "keys").texts(keys)?;
        let keys = held.strs()?;
        let values = argument(method.name, "values").buffers(values)?;
        let settings = argument(method.name, "config").settings(config)?;
        let Some(store) = self.copying_store(method.name) else { return Ok(INVALID_PARAMS) };
        if keys.len() != values.len() {
            let text = format_args!("{} keys, but {} values", keys.len(), values.len());
            log::warn(method.name, "lengths", text);
            return Ok(INVALID_PARAMS);
        }
        let call = method.on(&store, &settings);
        let codes = py.detach(|| {
            let slices = values.iter().map(|value| match value.len() {
                0 => Err(ErrorCode::InvalidParams),
                _ => Ok(SliceList::from(value.slice())),
            });
            call.many(&keys, slices)
        });
        Ok(codes.into_iter().find(|&code| code != 0).unwrap_or(0))
    }

    /// Writes the `size` bytes at `buffer_ptr`.
    pub(crate) fn write_from(
        &self,
        py: Python<'_>,
        method: Method,
        (key, buffer_ptr, size): (Value<'_, '_>, Value<'_, '_>, Value<'_, '_>),
        config: Config<'_, '_>,
    ) -> PyResult<i32> {
        let key = argument(method.name, "key").text(key)?;
        let address = argument(method.name, "buffer_ptr").number(buffer_ptr)?;
        let size = argument(method.name, "size").number(size)?;
        let settings = argument(method.name, "config").settings(config)?;
        let Some(store) = self.store_for(method.name) else { return Ok(INVALID_PARAMS) };
        let call = method.on(&store, &settings);
        Ok(py.detach(|| match memory_at(&store, address, size) {
            Ok(slice) => call.one(key, SliceList::from(slice)),
            Err(code) => code.number(),
        }))
    }

    /// Writes one object, gathered from several ranges of memory.
    pub(crate) fn write_gathered(
        &self,
        py: Python<'_>,
        method: Method,
        key: &str,
        (addresses, sizes): (&[u64], &[u64]),
        settings: &ReplicateSettings,
    ) -> i32 {
        let Some(store) = self.store_for(method.name) else { return INVALID_PARAMS };
        let call = method.on(&store, settings);
        py.detach(|| match memory_list_at(&store, addresses, sizes) {
            Ok(slices) => call.one(key, slices),
            Err(code) => code.number(),
        })
    }

    /// Writes several objects, each from one range of memory.
    pub(crate) fn write_many_from(
        &self,
        py: Python<'_>,
        method: Method,
        (keys, buffer_ptrs, sizes): (Value<'_, '_>, Value<'_, '_>, Value<'_, '_>),
        config: Config<'_, '_>,
    ) -> PyResult<Codes<i32>> {
        let held = argument(method.name, "keys").texts(keys)?;
        let keys = held.strs()?;
        let addresses = argument(method.name, "buffer_ptrs").numbers(buffer_ptrs)?;
        let sizes = argument(method.name, "sizes").numbers(sizes)?;
        let settings = argument(method.name, "config").settings(config)?;
        let Some(store) = self.store_for(method.name) else { return Ok(refused(&keys)) };
        let (addressed, sized) = (addresses.len(), sizes.len());
        if let Some(refused) = lengths_differ(method.name, keys.len(), addressed, sized) {
            return Ok(refused);
        }
        let call = method.on(&store, &settings);
        Ok(py.detach(|| {
            let ranges = addresses.iter().zip(&sizes);
            let slices = ranges
                .map(|(&address, &size)| memory_at(&store, address, size).map(SliceList::from));
            Codes::from(call.many(&keys, slices))
        }))
    }

    /// Writes several objects, each gathered from several ranges of memory.
    pub(crate) fn write_many_gathered(
        &self,
        py: Python<'_>,
        method: Method,
        (keys, all_buffer_ptrs, all_sizes): (Value<'_, '_>, Value<'_, '_>, Value<'_, '_>),
        config: Config<'_, '_>,
    ) -> PyResult<Codes<i32>> {
        let held = argument(method.name, "keys").texts(keys)?;
        let keys = held.strs()?;
        let addresses = argument(method.name, "all_buffer_ptrs").number_lists(all_buffer_ptrs)?;
        let sizes = argument(method.name, "all_sizes").number_lists(all_sizes)?;
        let settings = argument(method.name, "config").settings(config)?;
        let Some(store) = self.store_for(method.name) else { return Ok(refused(&keys)) };
        let (addressed, sized) = (addresses.len(), sizes.len());
        if let Some(refused) = lengths_differ(method.name, keys.len(), addressed, sized) {
            return Ok(refused);
        }
        let call = method.on(&store, &settings);
        Ok(py.detach(|| {
            let ranges = addresses.iter().zip(sizes.iter());
            let slices = ranges.map(|(addresses, sizes)| memory_list_at(&store, addresses, sizes));
            Codes::from(call.many(&keys, slices))
        }))
    }
}

fn refused(keys: &[&str]) -> Codes<i32> {
    Codes::same(INVALID_PARAMS, keys.len())
}
