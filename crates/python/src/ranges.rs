//! Reading parts of objects.

use std::sync::{Arc, Weak};

use mooncake_binding::{INVALID_PARAMS, PoolClient, batch, log};
use mooncake_client::{ErrorCode, Fragment, Ranged, RangedReadSnapshot as ReadSnapshot};
use pyo3::exceptions::{PyNotImplementedError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::argument::argument;
use crate::buffer::memory_at;
use crate::rows::Rows;
use crate::store::MooncakeDistributedStore;
use crate::texts::Texts;

/// Numbers, indexed by destination buffer, key and fragment.
type Grid = Vec<Rows>;
/// Results, indexed in the same way.
type FragmentResults = Vec<Vec<Vec<i64>>>;

/// The arguments of one call. `is_of_one_shape` checks that their shapes match.
struct RangeRequest<'a> {
    addresses: Vec<u64>,
    keys: Vec<Vec<&'a str>>,
    dst_offsets: Grid,
    src_offsets: Grid,
    sizes: Grid,
}

/// The arguments as Python has them: addresses, keys, destination offsets, source offsets and sizes.
type RangeArguments<'a, 'py> = [&'a Bound<'py, PyAny>; 5];

/// Where objects lie, for repeated reads of their parts: see
/// `MooncakeDistributedStore.prepare_get_into_ranges_snapshot`.
#[pyclass(frozen, weakref, module = "mooncake.store")]
pub(crate) struct RangedReadSnapshot {
    /// The client that made it.
    client: Weak<PoolClient>,
    /// `None` for a dummy, whose host process keeps the routes.
    routes: Option<ReadSnapshot>,
}

#[pymethods]
impl MooncakeDistributedStore {
    /// Reads fragments of objects into several buffers. The indices are b for a buffer, k for a key of that buffer,
    /// and f for a fragment of that key. Each fragment has `all_sizes[b][k][f]` bytes, and is copied
    ///
    /// - from the object `all_keys[b][k]`, from byte `all_src_offsets[b][k][f]` on;
    /// - to the address `buffer_ptrs[b] + all_dst_offsets[b][k][f]`.
    ///
    /// All fragments of one `[b][k]` come from one version of the object.
    ///
    /// Returns, in the shape of `all_dst_offsets`, the fragment's size in bytes or a negative code:
    ///
    /// - -600 for a fragment that is empty or runs past the end of the object;
    /// - -600 for a fragment that runs past the end of the registered buffer that it starts in;
    /// - -600 for all fragments if the shapes differ or the store is not set up;
    /// - otherwise the code that `get_into` would return for the object.
    #[allow(clippy::too_many_arguments, reason = "the signature is the C++ package's")]
    fn get_into_ranges(
        &self,
        buffer_ptrs: &Bound<'_, PyAny>,
        all_keys: &Bound<'_, PyAny>,
        all_dst_offsets: &Bound<'_, PyAny>,
        all_src_offsets: &Bound<'_, PyAny>,
        all_sizes: &Bound<'_, PyAny>,
    ) -> PyResult<FragmentResults> {
        let arguments = [buffer_ptrs, all_keys, all_dst_offsets, all_src_offsets, all_sizes];
        self.read_ranges("get_into_ranges", None, arguments)
    }

    /// Looks objects up and leases them, for `get_into_ranges_from_snapshot`. A key that is not there is looked up
    /// again when it is read.
    ///
    /// Raises RuntimeError if the store is not set up.
    fn prepare_get_into_ranges_snapshot(
        &self,
        keys: &Bound<'_, PyAny>,
    ) -> PyResult<RangedReadSnapshot> {
        const NAME: &str = "prepare_get_into_ranges_snapshot";
        let keys_list = argument(NAME, "keys").texts(keys)?;
        let wanted = keys_list.strs()?;
        let closed = || PyRuntimeError::new_err(format!("{NAME}(): the store is not set up"));
        let client = self.store().ok_or_else(closed)?;
        let routes = match client.own() {
            Some(store) => {
                Some(keys.py().detach(|| store.prepare_get_ranges(&wanted)).map_err(|_| closed())?)
            }
            None => None,
        };
        Ok(RangedReadSnapshot { client: Arc::downgrade(&client), routes })
    }

    /// As `get_into_ranges`, by the replica lists of a snapshot, so that repeated reads need no look-ups. Once half of
    /// an object's lease is over, its list is asked for again before any byte moves. If no replica can be read, or the
    /// object was replaced, it is looked up as without a snapshot.
    ///
    /// Returns as `get_into_ranges`. Raises ValueError if the snapshot was made by another store, or by this one before
    /// it was closed.
    #[allow(clippy::too_many_arguments, reason = "the signature is the C++ package's")]
    fn get_into_ranges_from_snapshot(
        &self,
        snapshot: &Bound<'_, PyAny>,
        buffer_ptrs: &Bound<'_, PyAny>,
        all_keys: &Bound<'_, PyAny>,
        all_dst_offsets: &Bound<'_, PyAny>,
        all_src_offsets: &Bound<'_, PyAny>,
        all_sizes: &Bound<'_, PyAny>,
    ) -> PyResult<FragmentResults> {
        const NAME: &str = "get_into_ranges_from_snapshot";
        let wanted = || argument(NAME, "snapshot").wrong("a RangedReadSnapshot", snapshot);
        let snapshot = snapshot.cast::<RangedReadSnapshot>().map_err(|_| wanted())?;
        let arguments = [buffer_ptrs, all_keys, all_dst_offsets, all_src_offsets, all_sizes];
        self.read_ranges(NAME, Some(snapshot.get()), arguments)
    }

    /// Not in this build: raises NotImplementedError. The C++ package's writer of model weights needs its
    /// `mooncake.reshard`.
    fn begin_weight_snapshot(
        &self,
        snapshot: &Bound<'_, PyAny>,
        adapter: &Bound<'_, PyAny>,
    ) -> PyResult<Py<PyAny>> {
        let _ = (snapshot, adapter);
        Err(PyNotImplementedError::new_err(
            "begin_weight_snapshot() is not supported in this build: it writes through the C++ package's \
             mooncake.reshard, which this package does not have; put the tensors one by one instead, with \
             batch_put_from() or put_tensor()",
        ))
    }
}

impl MooncakeDistributedStore {
    fn read_ranges(
        &self,
        function: &'static str,
        snapshot: Option<&RangedReadSnapshot>,
        [buffer_ptrs, all_keys, all_dst_offsets, all_src_offsets, all_sizes]: RangeArguments<
            '_,
            '_,
        >,
    ) -> PyResult<FragmentResults> {
        let addresses = argument(function, "buffer_ptrs").numbers(buffer_ptrs)?;
        let lists = argument(function, "all_keys").text_lists(all_keys)?;
        let wanted = RangeRequest {
            addresses,
            keys: lists.iter().map(Texts::strs).collect::<PyResult<_>>()?,
            dst_offsets: argument(function, "all_dst_offsets").number_grids(all_dst_offsets)?,
            src_offsets: argument(function, "all_src_offsets").number_grids(all_src_offsets)?,
            sizes: argument(function, "all_sizes").number_grids(all_sizes)?,
        };
        let Some(store) = self.store_for(function) else { return Ok(wanted.refused()) };
        if snapshot.is_some_and(|it| !std::ptr::eq(it.client.as_ptr(), Arc::as_ptr(&store))) {
            let text = format!("{function}(): the snapshot belongs to another store");
            return Err(PyValueError::new_err(text));
        }
        if !wanted.is_of_one_shape() {
            log::warn(function, "lengths", format_args!("the lists differ in shape"));
            return Ok(wanted.refused());
        }
        let routes = snapshot.and_then(|snapshot| snapshot.routes.as_ref());
        Ok(buffer_ptrs.py().detach(|| wanted.read(&store, routes)))
    }
}

impl RangeRequest<'_> {
    fn is_of_one_shape(&self) -> bool {
        let buffers = self.addresses.len();
        let as_long = |grid: &Grid| {
            let as_keys = |(rows, keys): (&Rows, &Vec<&str>)| rows.len() == keys.len();
            grid.len() == buffers && grid.iter().zip(&self.keys).all(as_keys)
        };
        let grids = [&self.dst_offsets, &self.src_offsets, &self.sizes];
        self.keys.len() == buffers
            && grids.into_iter().all(as_long)
            && rows(&self.dst_offsets).zip(rows(&self.sizes)).all(same_len)
            && rows(&self.src_offsets).zip(rows(&self.sizes)).all(same_len)
    }

    fn refused(&self) -> FragmentResults {
        let row = |fragments: &[u64]| vec![i64::from(INVALID_PARAMS); fragments.len()];
        self.dst_offsets.iter().map(|rows| rows.iter().map(row).collect()).collect()
    }

    fn read(&self, store: &PoolClient, routes: Option<&ReadSnapshot>) -> FragmentResults {
        let mut codes = self.refused();
        let (mut items, mut places) = (Vec::new(), Vec::new());
        for (buffer, keys) in self.keys.iter().enumerate() {
            for (position, &key) in keys.iter().enumerate() {
                let (fragments, fit) = self.fragments(store, buffer, position);
                if !fragments.is_empty() {
                    items.push(Ranged { key, fragments });
                    places.push((buffer, position, fit));
                }
            }
        }
        let results = match (routes, store.own()) {
            (Some(routes), Some(own)) => own.get_ranges_by(routes, &items),
            _ => store.get_ranges(&items),
        };
        for ((buffer, position, fit), results) in places.into_iter().zip(results) {
            for (fragment, result) in fit.into_iter().zip(results) {
                codes[buffer][position][fragment] = batch::counted(result);
            }
        }
        codes
    }

    /// The fragments of one key whose memory the store may use, and their positions.
    fn fragments(
        &self,
        store: &PoolClient,
        buffer: usize,
        key: usize,
    ) -> (Vec<Fragment<'static>>, Vec<usize>) {
        let offsets = self.dst_offsets[buffer].row(key);
        let sizes = self.sizes[buffer].row(key);
        let fragment = |(position, (&offset, &size)): (usize, (&u64, &u64))| {
            let address = self.addresses[buffer].checked_add(offset);
            let slice = memory_at(store, address.ok_or(ErrorCode::InvalidParams)?, size)?;
            let object_offset = self.src_offsets[buffer].row(key)[position];
            Ok::<_, ErrorCode>((Fragment { object_offset, slice }, position))
        };
        let fragments = offsets.iter().zip(sizes).enumerate().map(fragment);
        fragments.filter_map(Result::ok).unzip()
    }
}

fn rows(grid: &Grid) -> impl Iterator<Item = &[u64]> {
    grid.iter().flat_map(Rows::iter)
}

fn same_len((one, other): (&[u64], &[u64])) -> bool {
    one.len() == other.len()
}
