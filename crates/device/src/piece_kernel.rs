//! Copies many short pieces at once with a kernel, because the device's copy engines take a microsecond for each
//! piece.

use std::ffi::CStr;
use std::io;
use std::sync::Arc;

use mooncake_memory::{RawSlice, Region};

use crate::device::Device;
use crate::direction::Direction;
use crate::driver::{Driver, Kernel, OneCopy, Stream};
use crate::error::{CopyError, DriverError};
use crate::page_locks::{PageLock, lock};

const TEXT: &str = concat!(include_str!("copy_pieces.ptx"), "\0");
const NAME: &str = "mooncake_copy_pieces\0";

/// Addresses and lengths must be multiples of this.
const ALIGNMENT: usize = 16;

/// Longest piece for the kernel. The copy engines copy longer ones.
const MOST_PIECE_BYTES: usize = 256 << 10;

/// Pieces are cut into entries of at most this length, so that all threads have work.
const ENTRY_BYTES: usize = 16 << 10;

/// Most blocks: enough to fill the bus, and few of the multiprocessors that a model needs.
const MAX_BLOCKS: usize = 16;
const THREADS: usize = 256;
const WARP_THREADS: usize = 32;

/// Length of a list of entries, in bytes. It holds a window of pieces of 4 KiB, and some longer ones.
const LIST_BYTES: u64 = 256 << 10;

/// One entry of the list: destination, source, length.
type PieceEntry = [u64; 3];
const ENTRY_LEN: usize = size_of::<PieceEntry>();

/// The kernel, loaded in the context of a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PieceKernel(Kernel);

/// Page-locked memory for the list of one stream.
pub(crate) struct PieceList {
    // Dropped before the region that it locks.
    _lock: PageLock,
    region: Region,
}

impl PieceKernel {
    /// Loads the kernel.
    pub(crate) fn load(driver: &Driver, ordinal: u32) -> Result<PieceKernel, DriverError> {
        if !driver.has_host_addresses(ordinal)? {
            return Err(DriverError::unsupported("cuLaunchKernel"));
        }
        let text = |text: &'static str| {
            CStr::from_bytes_with_nul(text.as_bytes()).expect("it ends with a zero")
        };
        let kernel = driver.load_kernel(text(TEXT), text(NAME))?;
        // A first launch: a driver that loads lazily would otherwise load during a copy, and wait for streams of the
        // application.
        let stream = driver.create_stream()?;
        let launched = driver.launch(kernel, (1, THREADS as u32), (RawSlice::EMPTY, 0), &stream);
        let launched = launched.and_then(|()| driver.synchronize(&stream));
        driver.destroy_stream(stream)?;
        launched.map(|()| PieceKernel(kernel))
    }

    /// Whether the kernel copies this at least as fast as the copy engines.
    pub(crate) fn takes(OneCopy { device, host }: &OneCopy) -> bool {
        let numbers = *device as usize | host.as_ptr().addr() | host.len();
        numbers.is_multiple_of(ALIGNMENT) && host.len() <= MOST_PIECE_BYTES
    }

    /// Starts the first of these copies, as many as the list holds, and returns their number. The host memory must be
    /// page-locked, and the device memory allocated.
    pub(crate) fn begin(
        self,
        driver: &Driver,
        direction: Direction,
        copies: &[OneCopy],
        (list, stream): (&PieceList, &Stream),
    ) -> Result<usize, DriverError> {
        let (begun, entries) = list.fill(direction, copies);
        let blocks = entries.div_ceil(THREADS / WARP_THREADS).clamp(1, MAX_BLOCKS);
        let grid = (blocks as u32, THREADS as u32);
        driver.launch(self.0, grid, (list.region.whole(), entries as u32), stream)?;
        Ok(begun)
    }
}

impl PieceList {
    pub(crate) fn new(device: &Arc<Device>) -> Result<PieceList, CopyError> {
        let region = Region::anonymous(LIST_BYTES).map_err(io::Error::other)?;
        let lock = lock(device, &region, region.whole()).map_err(io::Error::other)?;
        Ok(PieceList { _lock: lock, region })
    }

    /// Writes the first of these copies to the list, as far as they fit. Returns the numbers of copies and of entries.
    fn fill(&self, direction: Direction, copies: &[OneCopy]) -> (usize, usize) {
        let (whole, mut bytes) =
            (self.region.whole(), Vec::with_capacity(copies.len() * ENTRY_LEN));
        let mut begun = 0;
        for &OneCopy { device, host } in copies {
            let entries = host.len().div_ceil(ENTRY_BYTES);
            if bytes.len() + entries * ENTRY_LEN > whole.len() {
                break;
            }
            for from in (0..host.len()).step_by(ENTRY_BYTES) {
                let part = host.sub(from, ENTRY_BYTES.min(host.len() - from));
                let here = part.as_ptr().expose_provenance() as u64;
                let there = device + from as u64;
                let (to, from) = match direction {
                    Direction::ToHost => (here, there),
                    Direction::ToDevice => (there, here),
                };
                let entry: PieceEntry = [to, from, part.len() as u64];
                entry.iter().for_each(|number| bytes.extend_from_slice(&number.to_ne_bytes()));
            }
            begun += 1;
        }
        whole.sub(0, bytes.len()).write_from(&bytes);
        (begun, bytes.len() / ENTRY_LEN)
    }
}
