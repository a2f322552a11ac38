//! The methods that read objects, and that ask whether they exist.

use std::num::NonZeroUsize;

use mooncake_binding::{INVALID_PARAMS, PoolClient, batch, get_many, log};
use mooncake_client::{Buffer, ErrorCode, ProbeLeases, RawSlice, Rooms, ShownKey, SliceList};
use mooncake_types::Prefetch;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::argument::argument;
use crate::buffer::{BufferHandle, memory_at, memory_list_at, unfilled_bytes};
use crate::codes::{Codes, lengths_differ};
use crate::exist_options::ExistOptions;
use crate::store::MooncakeDistributedStore;

#[pymethods]
impl MooncakeDistributedStore {
    /// A copy of the object's bytes.
    ///
    /// Returns empty bytes if the object does not exist, and for every other failure. The log has a line for failures
    /// other than a missing object.
    fn get<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        let key = argument("get", "key").text(key)?;
        let values = self.values(py, "get", std::slice::from_ref(&key));
        Ok(values.into_iter().next().unwrap_or_else(|| PyBytes::new(py, &[])))
    }

    /// Copies of the bytes of several objects, in the order of `keys`; each as from `get`.
    fn get_batch<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let held = argument("get_batch", "keys").texts(keys)?;
        let keys = held.strs()?;
        Ok(self.values(py, "get_batch", &keys))
    }

    /// A handle of the object's bytes. They stay valid and unchanged while the handle lives, even if the object is
    /// removed. A large object on this host is not copied.
    ///
    /// Returns None if the object does not exist, and for every other failure.
    fn get_buffer(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Option<BufferHandle>> {
        let key = argument("get_buffer", "key").text(key)?;
        let handles = self.handles(py, "get_buffer", std::slice::from_ref(&key));
        Ok(handles.into_iter().next().flatten())
    }

    /// Handles of several objects, in the order of `keys`; each as from `get_buffer`.
    fn batch_get_buffer(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
    ) -> PyResult<Vec<Option<BufferHandle>>> {
        let held = argument("batch_get_buffer", "keys").texts(keys)?;
        let keys = held.strs()?;
        Ok(self.handles(py, "batch_get_buffer", &keys))
    }

    /// Reads the object into the `size` bytes at the address `buffer_ptr`, without a copy in this process. The memory
    /// must stay mapped and writable during the call. After an error it may hold anything.
    ///
    /// Returns the object's length in bytes, or a negative code:
    ///
    /// - -704 if there is no such object;
    /// - -703 if its put has not ended;
    /// - -600 if it is longer than `size`, or the range runs past the end of the registered buffer that it starts in;
    /// - -707 if leases are too short for the read;
    /// - -800 if no replica could be read.
    fn get_into(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        buffer_ptr: &Bound<'_, PyAny>,
        size: &Bound<'_, PyAny>,
    ) -> PyResult<i64> {
        let key = argument("get_into", "key").text(key)?;
        let address = argument("get_into", "buffer_ptr").number(buffer_ptr)?;
        let size = argument("get_into", "size").number(size)?;
        let Some(store) = self.store_for("get_into") else {
            return Ok(i64::from(INVALID_PARAMS));
        };
        let codes = py.detach(|| {
            let target = memory_at(&store, address, size).map(SliceList::from);
            get_many(&store, std::slice::from_ref(&key), std::iter::once(target))
        });
        Ok(codes.first().copied().unwrap_or(i64::from(INVALID_PARAMS)))
    }

    /// Reads several objects, each as `get_into`: object k into the `sizes[k]` bytes at `buffer_ptrs[k]`.
    ///
    /// Returns a list with the object's length in bytes or a negative code per key; -600 for all if the lists differ
    /// in length.
    fn batch_get_into(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        buffer_ptrs: &Bound<'_, PyAny>,
        sizes: &Bound<'_, PyAny>,
    ) -> PyResult<Codes<i64>> {
        const NAME: &str = "batch_get_into";
        let held = argument(NAME, "keys").texts(keys)?;
        let keys = held.strs()?;
        let addresses = argument(NAME, "buffer_ptrs").numbers(buffer_ptrs)?;
        let sizes = argument(NAME, "sizes").numbers(sizes)?;
        let Some(store) = self.store_for(NAME) else {
            return Ok(Codes::same(i64::from(INVALID_PARAMS), keys.len()));
        };
        if let Some(refused) = lengths_differ(NAME, keys.len(), addresses.len(), sizes.len()) {
            return Ok(refused);
        }
        Ok(py.detach(|| {
            let ranges = addresses.iter().zip(&sizes);
            let targets = ranges
                .map(|(&address, &size)| memory_at(&store, address, size).map(SliceList::from));
            Codes::from(get_many(&store, &keys, targets))
        }))
    }

    /// Reads several objects, each scattered over several ranges: object k fills the `all_sizes[k][i]` bytes at
    /// `all_buffer_ptrs[k][i]`, in order. The sizes of an object's ranges must add up to at least its length.
    ///
    /// `prefer_alloc_in_same_node` is accepted and changes nothing: a read goes to the node that holds the object.
    ///
    /// Returns a list with the object's length in bytes or a negative code per key, as `get_into`; -600 for all if the
    /// outer lists differ in length.
    #[pyo3(signature = (keys, all_buffer_ptrs, all_sizes, prefer_alloc_in_same_node=None))]
    #[pyo3(
        text_signature = "($self, keys, all_buffer_ptrs, all_sizes, prefer_alloc_in_same_node=False)"
    )]
    fn batch_get_into_multi_buffers(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        all_buffer_ptrs: &Bound<'_, PyAny>,
        all_sizes: &Bound<'_, PyAny>,
        prefer_alloc_in_same_node: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Codes<i64>> {
        const NAME: &str = "batch_get_into_multi_buffers";
        let held = argument(NAME, "keys").texts(keys)?;
        let keys = held.strs()?;
        let addresses = argument(NAME, "all_buffer_ptrs").number_lists(all_buffer_ptrs)?;
        let sizes = argument(NAME, "all_sizes").number_lists(all_sizes)?;
        if let Some(flag) = prefer_alloc_in_same_node {
            argument(NAME, "prefer_alloc_in_same_node").flag(flag)?;
        }
        let Some(store) = self.store_for(NAME) else {
            return Ok(Codes::same(i64::from(INVALID_PARAMS), keys.len()));
        };
        if let Some(refused) = lengths_differ(NAME, keys.len(), addresses.len(), sizes.len()) {
            return Ok(refused);
        }
        Ok(py.detach(|| {
            let ranges = addresses.iter().zip(sizes.iter());
            let targets = ranges.map(|(addresses, sizes)| memory_list_at(&store, addresses, sizes));
            Codes::from(get_many(&store, &keys, targets))
        }))
    }

    /// Whether the object exists and is complete. If so, the call grants it a lease, as a read does. `options` is an
    /// `ExistOptions`.
    ///
    /// Returns 1 or 0, or a negative code.
    #[pyo3(signature = (key, options = None))]
    fn is_exist(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<i32> {
        let key = argument("is_exist", "key").text(key)?;
        let prefetches = prefetches("is_exist", options)?;
        let Some(store) = self.store_for("is_exist") else { return Ok(INVALID_PARAMS) };
        let results = py.detach(|| exist(&store, &[key], prefetches));
        Ok(results.into_iter().next().map_or(INVALID_PARAMS, batch::found))
    }

    /// Whether several objects exist, each as `is_exist`, in one round trip.
    ///
    /// Returns a list with 1, 0 or a negative code per key.
    #[pyo3(signature = (keys, options = None))]
    fn batch_is_exist(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Codes<i32>> {
        let held = argument("batch_is_exist", "keys").texts(keys)?;
        let keys = held.strs()?;
        let prefetches = prefetches("batch_is_exist", options)?;
        let Some(store) = self.store_for("batch_is_exist") else {
            return Ok(Codes::same(INVALID_PARAMS, keys.len()));
        };
        Ok(py.detach(|| {
            let results = exist(&store, &keys, prefetches);
            results.into_iter().map(batch::found).collect()
        }))
    }

    /// Whether the object exists and is complete. The call grants no lease, and counts as no use.
    ///
    /// Returns 1 or 0, or a negative code.
    fn probe_key(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<i32> {
        let key = argument("probe_key", "key").text(key)?;
        let Some(store) = self.store_for("probe_key") else { return Ok(INVALID_PARAMS) };
        let results = py.detach(|| store.probe(&[key], ProbeLeases::None));
        Ok(results.into_iter().next().map_or(INVALID_PARAMS, batch::found))
    }

    /// Whether several objects exist, each as `probe_key`, in one round trip.
    ///
    /// With policy 'LastHitOnly' the keys are groups of `candidate_size`, and the last group that is there whole gets
    /// leases, as by `is_exist`. The number of keys must then be a multiple of `candidate_size`. With policy 'none' no
    /// object gets one.
    ///
    /// Returns a list with 1, 0 or a negative code per key; -600 for all if the arguments contradict each other.
    #[pyo3(signature = (keys, policy = None, candidate_size = None), text_signature = "($self, keys, policy='none', candidate_size=1)")]
    fn batch_probe_key(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        policy: Option<&Bound<'_, PyAny>>,
        candidate_size: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Codes<i32>> {
        const NAME: &str = "batch_probe_key";
        let held = argument(NAME, "keys").texts(keys)?;
        let keys = held.strs()?;
        let policy = policy.map_or(Ok("none"), |policy| argument(NAME, "policy").text(policy))?;
        let size =
            candidate_size.map_or(Ok(1), |size| argument(NAME, "candidate_size").number(size))?;
        let refused = || Ok(Codes::same(INVALID_PARAMS, keys.len()));
        let Some(leases) = probe_leases(policy, size, keys.len()) else { return refused() };
        let Some(store) = self.store_for(NAME) else { return refused() };
        Ok(py.detach(|| store.probe(&keys, leases).into_iter().map(batch::found).collect()))
    }

    /// Counts the objects that exist from `keys[0]` on, up to the first that is missing; it does not look up later keys.
    /// The call grants leases to the objects that it counts from position `lease_from` on, as a read does. Those before
    /// it become the most recently used, without a lease: the caller has them, and needs only those behind them.
    ///
    /// Returns the count, or a negative code; -400 if any of the keys is invalid.
    #[pyo3(signature = (keys, lease_from = None), text_signature = "($self, keys, lease_from=0)")]
    fn batch_prefix_len(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        lease_from: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<i64> {
        let held = argument("batch_prefix_len", "keys").texts(keys)?;
        let keys = held.strs()?;
        let from = lease_from
            .map_or(Ok(0), |place| argument("batch_prefix_len", "lease_from").number(place))?;
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        let Some(store) = self.store_for("batch_prefix_len") else {
            return Ok(i64::from(INVALID_PARAMS));
        };
        Ok(batch::counted(py.detach(|| store.prefix_len(&keys, from))))
    }

    /// The object's length in bytes, or a negative code: -704 if there is no such object, -703 if its put has not
    /// ended.
    fn get_size(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<i64> {
        let key = argument("get_size", "key").text(key)?;
        let Some(store) = self.store_for("get_size") else {
            return Ok(i64::from(INVALID_PARAMS));
        };
        Ok(batch::counted(py.detach(|| store.size(key))))
    }

    /// Starts to copy objects that lie only on disk to memory, so that later reads are faster. Does not wait for the
    /// copies.
    ///
    /// Returns a list with 1 per object that lies in memory, 0 per object whose copy was requested, or a negative
    /// code; -600 for all if the store is not set up or is a dummy.
    fn prefetch(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<Codes<i32>> {
        let held = argument("prefetch", "keys").texts(keys)?;
        let keys = held.strs()?;
        let Some(store) = self.own_store_for("prefetch") else {
            return Ok(Codes::same(INVALID_PARAMS, keys.len()));
        };
        Ok(py.detach(|| {
            let results = store.prefetch(&keys).into_iter();
            let in_memory = |found| found == Prefetch::InMemory;
            results.map(|result| batch::found(result.map(in_memory))).collect()
        }))
    }

    /// The number of objects that this store has read from disks of nodes, its own node included. 0 if the store is
    /// not set up or is a dummy.
    fn get_offload_rpc_read_count(&self) -> u64 {
        self.own_store_for("get_offload_rpc_read_count").map_or(0, |store| store.disk_reads())
    }
}

/// Whether these options ask for a prefetch.
fn prefetches(operation: &'static str, options: Option<&Bound<'_, PyAny>>) -> PyResult<bool> {
    let Some(options) = options else { return Ok(false) };
    let known = options.cast::<ExistOptions>();
    let known =
        known.map_err(|_| argument(operation, "options").wrong("an ExistOptions", options))?;
    Ok(known.borrow().prefetch_to_memory())
}

fn exist(store: &PoolClient, keys: &[&str], prefetches: bool) -> Vec<Result<bool, ErrorCode>> {
    match prefetches {
        true => store.exist_prefetching(keys),
        false => store.exist(keys),
    }
}

/// The leases of a probe with these arguments; none if they contradict each other.
fn probe_leases(policy: &str, size: u64, keys: usize) -> Option<ProbeLeases> {
    let size = NonZeroUsize::new(usize::try_from(size).ok()?);
    let leases = match (policy, size) {
        ("none", _) => Some(ProbeLeases::None),
        ("LastHitOnly", Some(size)) if keys % size == 0 => Some(ProbeLeases::LastGroup(size)),
        _ => None,
    };
    if leases.is_none() {
        tracing::error!(
            "batch_probe_key: policy {policy:?} with candidate_size {size:?} and {keys} keys: the policy must be 'none' \
             or 'LastHitOnly', and the number of keys a multiple of candidate_size"
        );
    }
    leases
}

impl MooncakeDistributedStore {
    /// The bytes of each key; empty for a miss and for every other failure.
    fn values<'py>(
        &self,
        py: Python<'py>,
        operation: &str,
        keys: &[&str],
    ) -> Vec<Bound<'py, PyBytes>> {
        let mut values = Values(keys.iter().map(|_| None).collect());
        let found = self.found(py, operation, keys, |store| store.get_placed(keys, &mut values));
        let values = values.0.into_iter().zip(found);
        values.map(|(value, found)| bytes(py, value.filter(|_| found.is_some()))).collect()
    }

    /// The handle of each key; `None` for a miss and for every other failure.
    fn handles(&self, py: Python<'_>, operation: &str, keys: &[&str]) -> Vec<Option<BufferHandle>> {
        let found = self.found(py, operation, keys, |store| store.get_bytes(keys));
        found.into_iter().map(|bytes| bytes.map(BufferHandle::new)).collect()
    }

    fn found<T: Send>(
        &self,
        py: Python<'_>,
        operation: &str,
        keys: &[&str],
        get: impl FnOnce(&PoolClient) -> Vec<Result<T, ErrorCode>> + Send,
    ) -> Vec<Option<T>> {
        let Some(store) = self.copying_store(operation) else {
            return keys.iter().map(|_| None).collect();
        };
        py.detach(|| {
            let found = keys.iter().zip(get(&store)).map(|(key, result)| {
                result.inspect_err(|&code| log_failure(operation, key, code)).ok()
            });
            found.collect()
        })
    }
}

/// Logs a failure whose code the caller does not see. A miss is not a failure.
fn log_failure(operation: &str, key: &str, code: ErrorCode) {
    if code != ErrorCode::ObjectNotFound {
        log::warn_of_call(operation, code.name(), format_args!("{}: {code}", ShownKey(key)));
    }
}

/// Objects shorter than this are copied once more. Reading them in place would take the interpreter lock during the
/// call.
const COPIED_BYTES: u64 = 64 << 10;

/// The memory that receives one object's bytes.
enum Value {
    Copied(Buffer),
    /// The object, and its bytes.
    InPlace(Py<PyBytes>, RawSlice<'static>),
}

/// The memory of each object that a call has found.
struct Values(Vec<Option<Value>>);

impl Rooms for Values {
    fn make(&mut self, wanted: &[(usize, u64)]) {
        let is_long = |&(_, len): &(usize, u64)| len >= COPIED_BYTES;
        let mut long = Vec::new().into_iter();
        if wanted.iter().any(is_long) {
            let lens = wanted.iter().filter(|wanted| is_long(wanted)).map(|&(_, len)| len);
            long = Python::attach(|py| {
                let made = lens.map(|len| unfilled_bytes(py, len));
                made.collect::<Vec<_>>()
            })
            .into_iter();
        }
        for wanted in wanted {
            self.0[wanted.0] = if is_long(wanted) {
                long.next().flatten().map(|(bytes, memory)| Value::InPlace(bytes, memory))
            } else {
                let buffer = usize::try_from(wanted.1).ok().and_then(Buffer::try_zeroed);
                buffer.map(Value::Copied)
            };
        }
    }

    fn room(&self, position: usize) -> Option<RawSlice<'_>> {
        self.0[position].as_ref().map(|value| match value {
            Value::Copied(buffer) => buffer.raw(),
            Value::InPlace(_, memory) => *memory,
        })
    }
}

fn bytes(py: Python<'_>, value: Option<Value>) -> Bound<'_, PyBytes> {
    match value {
        None => PyBytes::new(py, &[]),
        Some(Value::Copied(buffer)) => PyBytes::new(py, buffer.as_slice()),
        Some(Value::InPlace(bytes, _)) => bytes.into_bound(py),
    }
}
