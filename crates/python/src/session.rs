//! Sessions: objects that are written or read part by part, without asking the master for each.

use mooncake_client::{ErrorCode, Fragment, PutItem, Ranged, Store};
use pyo3::prelude::*;

use crate::argument::argument;
use crate::batch;
use crate::buffer::memory_at;
use crate::codes::Codes;
use crate::log;
use crate::pool_client::PoolClient;
use crate::store::{INVALID_PARAMS, MooncakeDistributedStore};

type Value<'a, 'py> = &'a Bound<'py, PyAny>;
/// What moves the parts of a batch of objects.
type Move = fn(&Store, &[Ranged<'_>]) -> Vec<Result<u64, ErrorCode>>;
/// What ends the sessions of a batch of objects.
type Close = fn(&Store, &[&str]) -> Vec<Result<(), ErrorCode>>;

#[pymethods]
impl MooncakeDistributedStore {
    /// Takes room for objects of these sizes, to be written by `batch_put_from_multi_buffer_ranges`. Nobody sees them
    /// before `batch_put_session_end`.
    ///
    /// Returns a list of 0 or a negative code per key: -705 if the key is taken.
    #[pyo3(signature = (keys, sizes, config=None))]
    fn batch_put_session_start(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        sizes: &Bound<'_, PyAny>,
        config: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Codes<i32>> {
        const NAME: &str = "batch_put_session_start";
        let held = argument(NAME, "keys").texts(keys)?;
        let keys = held.strs()?;
        let sizes = argument(NAME, "sizes").numbers(sizes)?;
        let rules = argument(NAME, "config").rules(config)?;
        let refused = || Codes::same(INVALID_PARAMS, keys.len());
        let Some(store) = self.own_store_for(NAME) else { return Ok(refused()) };
        if keys.len() != sizes.len() {
            let text = format_args!("{} keys, but {} sizes", keys.len(), sizes.len());
            log::warn(NAME, "lengths", text);
            return Ok(refused());
        }
        let Ok(config) = rules.for_many(NAME, keys.len()) else { return Ok(refused()) };
        Ok(py.detach(|| {
            let items = keys
                .iter()
                .zip(&sizes)
                .enumerate()
                .map(|(position, (&key, &len))| PutItem { key, len, group: rules.group(position) });
            let items: Vec<_> = items.collect();
            store.put_session_start(&items, &config).into_iter().map(batch::done).collect()
        }))
    }

    /// Writes parts of objects whose sessions are open: of each the `all_sizes[k][p]` bytes at `all_buffer_ptrs[k][p]`,
    /// to `all_dst_offsets[k][p]` bytes from its start.
    ///
    /// Returns a list, per key, of the bytes written or a negative code: -600 if there is no such session or a part runs
    /// past the end of the object.
    fn batch_put_from_multi_buffer_ranges(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        all_buffer_ptrs: &Bound<'_, PyAny>,
        all_sizes: &Bound<'_, PyAny>,
        all_dst_offsets: &Bound<'_, PyAny>,
    ) -> PyResult<Codes<i64>> {
        const NAME: &str = "batch_put_from_multi_buffer_ranges";
        let offsets = (all_dst_offsets, "all_dst_offsets");
        self.move_parts(
            py,
            NAME,
            (keys, all_buffer_ptrs, all_sizes),
            offsets,
            Store::put_session_write,
        )
    }

    /// Makes objects visible whose bytes have all been written. An object with bytes missing is dropped.
    ///
    /// Returns a list of 0 or a negative code per key: -700 if bytes are missing, -600 if there is no such session.
    fn batch_put_session_end(&self, py: Python<'_>, keys: Value<'_, '_>) -> PyResult<Codes<i32>> {
        self.close_sessions(py, "batch_put_session_end", keys, Store::put_session_end)
    }

    /// Drops objects whose sessions are open.
    ///
    /// Returns a list of 0 or a negative code per key: -600 if there is no such session.
    fn batch_put_session_revoke(
        &self,
        py: Python<'_>,
        keys: Value<'_, '_>,
    ) -> PyResult<Codes<i32>> {
        self.close_sessions(py, "batch_put_session_revoke", keys, Store::put_session_revoke)
    }

    /// Looks objects up, to be read by `batch_get_into_multi_buffer_ranges`, and leases them. Starting again renews the
    /// lease.
    ///
    /// Returns a list of 0 or a negative code per key: -704 if there is no such object.
    fn batch_get_session_start(&self, py: Python<'_>, keys: Value<'_, '_>) -> PyResult<Codes<i32>> {
        const NAME: &str = "batch_get_session_start";
        let held = argument(NAME, "keys").texts(keys)?;
        let keys = held.strs()?;
        let Some(store) = self.own_store_for(NAME) else {
            return Ok(Codes::same(INVALID_PARAMS, keys.len()));
        };
        Ok(py.detach(|| {
            let found = store.get_session_start(&keys);
            found.into_iter().map(|found| batch::done(found.map(|_| ()))).collect()
        }))
    }

    /// Reads parts of objects whose sessions are open: of each the `all_sizes[k][p]` bytes from `all_src_offsets[k][p]`
    /// on, to `all_buffer_ptrs[k][p]`. All that one session reads of an object is of one version.
    ///
    /// Returns a list, per key, of the bytes read or a negative code: -707 if the lease is over, -600 if there is no such
    /// session or a part runs past the end of the object.
    fn batch_get_into_multi_buffer_ranges(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        all_buffer_ptrs: &Bound<'_, PyAny>,
        all_sizes: &Bound<'_, PyAny>,
        all_src_offsets: &Bound<'_, PyAny>,
    ) -> PyResult<Codes<i64>> {
        const NAME: &str = "batch_get_into_multi_buffer_ranges";
        let offsets = (all_src_offsets, "all_src_offsets");
        self.move_parts(
            py,
            NAME,
            (keys, all_buffer_ptrs, all_sizes),
            offsets,
            Store::get_session_read,
        )
    }

    /// Ends sessions of `batch_get_session_start`. Returns 0, also for keys that have none; -600 if the store is not
    /// set up.
    fn batch_get_session_end(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<i32> {
        let held = argument("batch_get_session_end", "keys").texts(keys)?;
        let keys = held.strs()?;
        let Some(store) = self.own_store_for("batch_get_session_end") else {
            return Ok(INVALID_PARAMS);
        };
        py.detach(|| store.get_session_end(&keys));
        Ok(0)
    }
}

impl MooncakeDistributedStore {
    fn move_parts(
        &self,
        py: Python<'_>,
        name: &'static str,
        (keys, all_buffer_ptrs, all_sizes): (Value<'_, '_>, Value<'_, '_>, Value<'_, '_>),
        (all_offsets, offsets_name): (Value<'_, '_>, &'static str),
        move_all: Move,
    ) -> PyResult<Codes<i64>> {
        let held = argument(name, "keys").texts(keys)?;
        let keys = held.strs()?;
        let addresses = argument(name, "all_buffer_ptrs").number_lists(all_buffer_ptrs)?;
        let sizes = argument(name, "all_sizes").number_lists(all_sizes)?;
        let offsets = argument(name, offsets_name).number_lists(all_offsets)?;
        let refused = || Codes::same(i64::from(INVALID_PARAMS), keys.len());
        let Some(store) = self.own_store_for(name) else { return Ok(refused()) };
        if [addresses.len(), sizes.len(), offsets.len()] != [keys.len(); 3] {
            log::warn(name, "lengths", format_args!("the lists differ in length"));
            return Ok(refused());
        }
        Ok(py.detach(|| {
            let items = keys.iter().enumerate().map(|(at, &key)| {
                let fragments =
                    parts(store.client(), addresses.row(at), sizes.row(at), offsets.row(at))?;
                Ok(Ranged { key, fragments })
            });
            let results = batch::run(items, |items| move_all(&store, items));
            results.into_iter().map(batch::counted).collect()
        }))
    }

    fn close_sessions(
        &self,
        py: Python<'_>,
        name: &'static str,
        keys: Value<'_, '_>,
        close: Close,
    ) -> PyResult<Codes<i32>> {
        let held = argument(name, "keys").texts(keys)?;
        let keys = held.strs()?;
        let Some(store) = self.own_store_for(name) else {
            return Ok(Codes::same(INVALID_PARAMS, keys.len()));
        };
        Ok(py.detach(|| close(&store, &keys).into_iter().map(batch::stored).collect()))
    }
}

/// The parts of one object. Empty ones count for nothing.
fn parts(
    store: &PoolClient,
    addresses: &[u64],
    sizes: &[u64],
    offsets: &[u64],
) -> Result<Vec<Fragment>, ErrorCode> {
    if [addresses.len(), offsets.len()] != [sizes.len(); 2] {
        return Err(ErrorCode::InvalidParams);
    }
    let part = |((&address, &size), &object_offset)| {
        Ok(Fragment { object_offset, slice: memory_at(store, address, size)? })
    };
    let parts = addresses.iter().zip(sizes).zip(offsets);
    parts.filter(|((_, size), _)| **size > 0).map(part).collect()
}
