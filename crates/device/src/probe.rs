use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mooncake_memory::{Region, SliceList};

use crate::allocation::Allocation;
use crate::copy_each::{Job, copy_each};
use crate::device::Device;
use crate::direction::Direction;
use crate::error::CopyError;
use crate::page_locks::{PIECE_BYTES, lock};

/// Copies each way, of which the fastest counts.
const ROUNDS: usize = 5;

/// How bytes get from a device to segments that are mapped in this process, and back: found out by copying some.
#[derive(Debug)]
pub struct DeviceProbe {
    /// The way that they take.
    pub way: DeviceWay,
    /// How many short pieces take it.
    pub pieces: PieceWay,
    /// How fast, or why that could not be measured.
    pub speed: Result<DeviceSpeed, CopyError>,
}

/// Between a device and memory of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceWay {
    /// The device copies to and from the memory itself, whose pages are locked.
    OneCopy,
    /// Bytes pass through page-locked buffers.
    Staged {
        /// Why the memory of segments is not locked.
        reason: String,
    },
}

/// How many short pieces are copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceWay {
    /// A program that the device runs.
    Kernel,
    /// The copy engines, by one call of the driver.
    Batch,
    /// The copy engines, by a call for each.
    Each,
}

/// Bytes in a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceSpeed {
    /// From the device.
    pub to_host: f64,
    /// To the device.
    pub to_device: f64,
}

/// Tries a device, with 64 MiB of its memory and as much of the host's.
///
/// # Errors
/// The device cannot be used at all, or the host has no memory.
pub fn probe(ordinal: u32) -> Result<DeviceProbe, CopyError> {
    let device = Device::of(ordinal)?;
    let region = Region::anonymous(PIECE_BYTES as u64).map_err(io::Error::other)?;
    let way = way_of(&device, &region);
    let speed = Allocation::new(ordinal, PIECE_BYTES).and_then(|allocation| {
        let memory = SliceList::from(allocation.whole());
        let to_host = speed(Direction::ToHost, &memory, &region)?;
        Ok(DeviceSpeed { to_host, to_device: speed(Direction::ToDevice, &memory, &region)? })
    });
    let pieces = match device.kernel() {
        Some(_) => PieceWay::Kernel,
        None if device.driver().has_batch_copy() => PieceWay::Batch,
        None => PieceWay::Each,
    };
    Ok(DeviceProbe { way, pieces, speed })
}

fn way_of(device: &Arc<Device>, region: &Region) -> DeviceWay {
    match lock(device, region, region.whole()) {
        Ok(_) => DeviceWay::OneCopy,
        Err(reason) => DeviceWay::Staged { reason: reason.to_string() },
    }
}

fn speed(direction: Direction, memory: &SliceList, region: &Region) -> Result<f64, CopyError> {
    let mut fastest = Duration::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let job = Job { memory, host: region.whole(), region: Some(region) };
        copy_each(direction, &[job], &|_| true).into_iter().collect::<Result<(), _>>()?;
        fastest = fastest.min(start.elapsed());
    }
    Ok(PIECE_BYTES as f64 / fastest.as_secs_f64())
}
