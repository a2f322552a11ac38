//! Reading parts of objects.

use mooncake_binding::{INVALID_PARAMS, PoolClient, batch, log};
use mooncake_client::{ErrorCode, Fragment, Ranged};
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
        py: Python<'_>,
        buffer_ptrs: &Bound<'_, PyAny>,
        all_keys: &Bound<'_, PyAny>,
        all_dst_offsets: &Bound<'_, PyAny>,
        all_src_offsets: &Bound<'_, PyAny>,
        all_sizes: &Bound<'_, PyAny>,
    ) -> PyResult<FragmentResults> {
        const NAME: &str = "get_into_ranges";
        let addresses = argument(NAME, "buffer_ptrs").numbers(buffer_ptrs)?;
        let lists = argument(NAME, "all_keys").text_lists(all_keys)?;
        let wanted = RangeRequest {
            addresses,
            keys: lists.iter().map(Texts::strs).collect::<PyResult<_>>()?,
            dst_offsets: argument(NAME, "all_dst_offsets").number_grids(all_dst_offsets)?,
            src_offsets: argument(NAME, "all_src_offsets").number_grids(all_src_offsets)?,
            sizes: argument(NAME, "all_sizes").number_grids(all_sizes)?,
        };
        let Some(store) = self.store_for(NAME) else { return Ok(wanted.refused()) };
        if !wanted.is_of_one_shape() {
            log::warn(NAME, "lengths", format_args!("the lists differ in shape"));
            return Ok(wanted.refused());
        }
        Ok(py.detach(|| wanted.read(&store)))
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

    fn read(&self, store: &PoolClient) -> FragmentResults {
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
        for ((buffer, position, fit), results) in places.into_iter().zip(store.get_ranges(&items)) {
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
