use std::marker::PhantomData;

use mooncake_memory::{
    PlacedSlice, RawSlice, SliceList, copy_from_caller as copy_from_host,
    copy_to_caller as copy_to_host,
};

use crate::device::{Device, LeasedStream};
use crate::direction::Direction;
use crate::driver::{Driver, OneCopy, Stream};
use crate::error::{CopyError, DriverError};
use crate::piece_kernel::PieceKernel;
use crate::place::check_range;

/// From this many pieces on, one kernel or one batched call is faster than one call for each piece.
const MIN_BATCH: usize = 4;

/// Most pieces in one call of the driver.
const MAX_BATCH: usize = 4096;

/// Copies in flight. They use the memory until [`Copying::wait`] returns, or until the drop, which also waits.
#[derive(Debug, Default)]
pub struct Copying<'m> {
    streams: Vec<LeasedStream>,
    error: Option<CopyError>,
    memory: PhantomData<&'m ()>,
}

/// The copies that use memory of one device.
struct OfDevice<'m> {
    ordinal: u32,
    copies: Vec<OneCopy<'m>>,
}

impl<'m> Copying<'m> {
    /// Begins copies between callers' memory and host memory. The callers' memory may lie in devices. Pieces of it
    /// that lie in the host are copied before this returns. With `is_locked`, all of the given host memory is
    /// page-locked.
    ///
    /// # Panics
    /// If the lengths of a pair differ.
    pub fn begin<'a>(
        direction: Direction,
        pairs: impl IntoIterator<Item = (&'a SliceList<'m>, RawSlice<'m>)>,
        is_locked: bool,
    ) -> Copying<'m>
    where
        'm: 'a,
    {
        let mut of_devices: Vec<OfDevice<'_>> = Vec::new();
        let mut copying = Copying::default();
        for (memory, host) in pairs {
            assert_eq!(memory.total_len(), host.len() as u64, "copy between different lengths");
            if let Err(error) = plan(direction, memory, host, &mut of_devices) {
                copying.error = Some(error);
                return copying;
            }
        }
        for of_device in of_devices {
            if let Err(error) = copying.begin_one(direction, of_device, is_locked) {
                copying.error = Some(error);
                break;
            }
        }
        copying
    }

    fn begin_one(
        &mut self,
        direction: Direction,
        OfDevice { ordinal, copies }: OfDevice<'_>,
        is_locked: bool,
    ) -> Result<(), CopyError> {
        let device = Device::of(ordinal)?;
        // Kept even after an error: the copies that have begun on it must end before the memory is released.
        self.streams.push(device.stream()?);
        let leased = self.streams.last_mut().expect("it was just pushed");
        let driver = device.driver();
        if !is_locked || copies.len() < MIN_BATCH {
            device.within(|| enqueue(driver, direction, &copies, leased.stream()))?;
            return Ok(());
        }
        check_all(driver, ordinal, &copies)?;
        let (mut short, mut others): (Vec<OneCopy<'_>>, Vec<OneCopy<'_>>) =
            copies.into_iter().partition(PieceKernel::takes);
        if short.len() >= MIN_BATCH {
            let begun = leased.begin_pieces(direction, &short)?;
            short.drain(..begun);
        }
        others.append(&mut short);
        if !others.is_empty() {
            device.within(|| enqueue_batch(driver, direction, &others, leased.stream()))?;
        }
        Ok(())
    }

    /// Waits until all bytes are in place, or until no copy is in flight any more.
    ///
    /// # Errors
    /// The first error of the copies.
    pub fn wait(mut self) -> Result<(), CopyError> {
        self.settle();
        self.error.take().map_or(Ok(()), Err)
    }

    fn settle(&mut self) {
        for stream in self.streams.drain(..) {
            if let Err(error) = stream.synchronize() {
                self.error.get_or_insert(error.into());
            }
        }
    }
}

impl Drop for Copying<'_> {
    fn drop(&mut self) {
        self.settle();
    }
}

/// Copies the pieces that lie in the host, and groups the others by device.
fn plan<'m>(
    direction: Direction,
    memory: &SliceList<'m>,
    host: RawSlice<'m>,
    of_devices: &mut Vec<OfDevice<'m>>,
) -> Result<(), CopyError> {
    let mut from = 0;
    for piece in memory.pieces().filter(|piece| !piece.is_empty()) {
        let there = host.sub(from, piece.len());
        from += piece.len();
        match piece.host() {
            Some(piece) => copy_here(direction, piece, there)?,
            None => note(piece, there, of_devices),
        }
    }
    Ok(())
}

fn copy_here(direction: Direction, callers: RawSlice, ours: RawSlice) -> Result<(), CopyError> {
    match direction {
        Direction::ToHost => copy_from_host(callers, ours)?,
        Direction::ToDevice => copy_to_host(ours, callers)?,
    }
    Ok(())
}

fn note<'m>(piece: PlacedSlice<'m>, host: RawSlice<'m>, of_devices: &mut Vec<OfDevice<'m>>) {
    let Some((ordinal, address)) = piece.device() else { return };
    let at = of_devices.iter().position(|of_device| of_device.ordinal == ordinal);
    let at = at.unwrap_or_else(|| {
        of_devices.push(OfDevice { ordinal, copies: Vec::new() });
        of_devices.len() - 1
    });
    of_devices[at].copies.push(OneCopy { device: address, host });
}

/// Checks that all ranges of the device are allocated. Asks the driver once for each allocation.
fn check_all(driver: &Driver, ordinal: u32, copies: &[OneCopy<'_>]) -> Result<(), CopyError> {
    let mut known: Vec<(u64, u64)> = Vec::new();
    let mut last = 0;
    for OneCopy { device, host } in copies {
        let end = device.saturating_add(host.len() as u64);
        let holds = |&(from, to): &(u64, u64)| from <= *device && end <= to;
        if known.get(last).is_some_and(holds) {
            continue;
        }
        if let Some(found) = known.iter().position(holds) {
            last = found;
            continue;
        }
        check_range(driver, ordinal, *device..end)?;
        let (start, len) = driver.pointer(*device)?.range;
        last = known.len();
        let whole = start.checked_add(len).filter(|to| start <= *device && to > device);
        // If the driver does not tell the allocation's length, only the checked range is known.
        known.push(whole.map_or((*device, end), |to| (start, to.max(end))));
    }
    Ok(())
}

fn enqueue(
    driver: &Driver,
    direction: Direction,
    copies: &[OneCopy<'_>],
    stream: &Stream,
) -> Result<(), DriverError> {
    copies.iter().try_for_each(|&copy| driver.copy(direction, copy, stream))
}

fn enqueue_batch(
    driver: &Driver,
    direction: Direction,
    copies: &[OneCopy<'_>],
    stream: &Stream,
) -> Result<(), DriverError> {
    for copies in copies.chunks(MAX_BATCH) {
        if !driver.copy_batch(direction, copies, stream)? {
            enqueue(driver, direction, copies, stream)?;
        }
    }
    Ok(())
}
