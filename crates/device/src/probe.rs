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

/// Copies in each direction. The fastest counts.
const ROUNDS: usize = 5;

/// Results of [`probe`]: how bytes move between a device and segments that this process has mapped.
#[derive(Debug)]
pub struct DeviceProbe {
    /// The path of the bytes.
    pub way: DeviceWay,
    /// How many short pieces are copied.
    pub pieces: PieceCopyMethod,
    /// The measured speed, or why it could not be measured.
    pub speed: Result<DeviceSpeed, CopyError>,
}

/// The path of bytes between a device and a segment's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceWay {
    /// The device accesses the segment's page-locked memory directly.
    OneCopy,
    /// Bytes pass through page-locked buffers.
    Staged {
        /// Why segments' memory is not page-locked.
        reason: String,
    },
}

/// How many short pieces are copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceCopyMethod {
    /// By a kernel on the device.
    Kernel,
    /// By the copy engines, with one call of the driver.
    Batch,
    /// By the copy engines, with one call for each piece.
    Each,
}

/// Throughput in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceSpeed {
    /// From the device.
    pub to_host: f64,
    /// To the device.
    pub to_device: f64,
}

/// Probes a device with 64 MiB of its memory and as much host memory.
///
/// # Errors
/// The device is unusable, or there is no host memory.
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
        Some(_) => PieceCopyMethod::Kernel,
        None if device.driver().has_batch_copy() => PieceCopyMethod::Batch,
        None => PieceCopyMethod::Each,
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
