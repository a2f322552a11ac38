//! Sessions write or read objects in parts: the master is asked at the start and at the end, not for each part.

use mooncake_binding::{INVALID_PARAMS, PoolClient, batch, log};
use mooncake_client::{ErrorCode, Fragment, PutItem, Ranged, Store};
use pyo3::prelude::*;

use crate::argument::argument;
use crate::buffer::memory_at;
use crate::codes::Codes;
use crate::store::MooncakeDistributedStore;

type Value<'a, 'py> = &'a Bound<'py, PyAny>;
/// A method of [`Store`] that moves the parts of a batch of objects.
type Move = fn(&Store, &[Ranged<'_>]) -> Vec<Result<u64, ErrorCode>>;
/// A method of [`Store`] that ends the sessions of a batch of objects.
type Close = fn(&Store, &[&str]) -> Vec<Result<(), ErrorCode>>;

#[pymethods]
impl MooncakeDistributedStore {
    /// Starts put sessions: reserves room for objects of `sizes[k]` bytes. `batch_put_from_multi_buffer_ranges` writes
    /// them. They stay invisible until `batch_put_session_end`.
    ///
    /// Returns a list with 0 or a negative code per key:
    ///
    /// - -705 if the key exists;
    /// - -200 if the pool is full, or this store has 65536 put sessions open;
    /// - -600 if this store has a put session for the key already, or the size is 0;
    /// - -600 for all if the lists differ in length, or the store is not set up or is a dummy.
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
        let settings = argument(NAME, "config").settings(config)?;
        let refused = || Codes::same(INVALID_PARAMS, keys.len());
        let Some(store) = self.own_store_for(NAME) else { return Ok(refused()) };
        if keys.len() != sizes.len() {
            let text = format_args!("{} keys, but {} sizes", keys.len(), sizes.len());
            log::warn(NAME, "lengths", text);
            return Ok(refused());
        }
        let Ok(config) = settings.for_many(NAME, keys.len()) else { return Ok(refused()) };
        Ok(py.detach(|| {
            let items =
                keys.iter().zip(&sizes).enumerate().map(|(position, (&key, &len))| PutItem {
                    group: settings.group(position),
                    session: settings.session(position),
                    ..PutItem::new(key, len)
                });
            let items: Vec<_> = items.collect();
            store.put_session_start(&items, &config).into_iter().map(batch::done).collect()
        }))
    }

    /// Writes parts of objects in put sessions. For object k and part p, copies the `all_sizes[k][p]` bytes at the
    /// address `all_buffer_ptrs[k][p]` to byte `all_dst_offsets[k][p]` of the object. Empty parts are skipped. Several
    /// threads may write different parts of one object.
    ///
    /// Returns a list with the bytes written or a negative code per key:
    ///
    /// - -600 if the key has no put session, or a part runs past the end of the object: no part of this object is
    ///   written;
    /// - -714 while another call writes the same bytes;
    /// - -707 if the session has expired;
    /// - -800 if no replica took the bytes: then revoke the session.
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

    /// Ends put sessions: publishes the objects whose bytes have all been written. Drops an object with missing bytes.
    ///
    /// Returns a list with 0 or a negative code per key:
    ///
    /// - -700 if bytes are missing, -800 if no replica has all bytes;
    /// - -600 if the key has no put session;
    /// - -704 if the master has given up the put meanwhile;
    /// - -900 or -901 if the master did not answer: the session is still open, and may be ended again.
    ///
    /// A key that an upsert has written meanwhile counts as stored: 0.
    fn batch_put_session_end(&self, py: Python<'_>, keys: Value<'_, '_>) -> PyResult<Codes<i32>> {
        self.close_sessions(py, "batch_put_session_end", keys, Store::put_session_end)
    }

    /// Ends put sessions and drops their objects.
    ///
    /// Returns a list with 0 or a negative code per key: -600 if the key has no put session. After -900 or -901 the
    /// session is still open, and may be revoked again.
    fn batch_put_session_revoke(
        &self,
        py: Python<'_>,
        keys: Value<'_, '_>,
    ) -> PyResult<Codes<i32>> {
        self.close_sessions(py, "batch_put_session_revoke", keys, Store::put_session_revoke)
    }

    /// Starts get sessions: looks the objects up and grants them leases. `batch_get_into_multi_buffer_ranges` reads
    /// them. A second start for a key renews its lease, and finds a newer version if there is one.
    ///
    /// Returns a list with 0 or a negative code per key: -704 if there is no such object, -200 if this store has
    /// 131072 get sessions open.
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

    /// Reads parts of objects in get sessions. For object k and part p, copies `all_sizes[k][p]` bytes to the address
    /// `all_buffer_ptrs[k][p]`, from byte `all_src_offsets[k][p]` of the object on. Empty parts are skipped. All reads
    /// in one session are from one version of the object.
    ///
    /// Returns a list with the bytes read or a negative code per key:
    ///
    /// - -600 if the key has no get session, or a part runs past the end of the object;
    /// - -707 if the lease has expired, which ends the session;
    /// - -704 if the object was removed by force or replaced since the session started;
    /// - -800 if no replica could be read.
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

    /// Ends get sessions.
    ///
    /// Returns 0, also for keys without a get session; -600 if the store is not set up or is a dummy.
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

/// The parts of one object. Empty parts are skipped.
fn parts(
    store: &PoolClient,
    addresses: &[u64],
    sizes: &[u64],
    offsets: &[u64],
) -> Result<Vec<Fragment<'static>>, ErrorCode> {
    if [addresses.len(), offsets.len()] != [sizes.len(); 2] {
        return Err(ErrorCode::InvalidParams);
    }
    let part = |((&address, &size), &object_offset)| {
        Ok(Fragment { object_offset, slice: memory_at(store, address, size)? })
    };
    let parts = addresses.iter().zip(sizes).zip(offsets);
    parts.filter(|((_, size), _)| **size > 0).map(part).collect()
}
