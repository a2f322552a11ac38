//! Copies and functions of the host on a stream of the application, in order.

use mooncake_memory::{HeldSlice, PlacedSlice};

use crate::direction::Direction;
use crate::driver::{Driver, OneCopy, Stream};
use crate::error::CopyError;
use crate::load::driver;

/// The greatest handle that names no stream of its own: the default streams are 0, 1 and 2.
const LAST_DEFAULT_STREAM: usize = 2;

/// One step of a stream.
pub enum StreamStep {
    /// Copies memory of the stream's device to as much memory of the host.
    ToHost(PlacedSlice<'static>, HeldSlice),
    /// Copies memory of the host to as much memory of the stream's device.
    ToDevice(HeldSlice, PlacedSlice<'static>),
    /// Runs on a thread of the driver. What is put on the stream later waits until it returns. It must not use a device,
    /// nor drop memory that is locked for one.
    Run(Box<dyn FnOnce() + Send>),
}

/// Puts the steps on a stream, behind what it has to do. `stream` is the handle of a live stream. The handle 0 is the
/// default stream of the calling thread's current device.
///
/// The caller keeps all memory that the steps name until the last step has run: the last one is a
/// [`StreamStep::Run`] that owns it.
///
/// # Errors
/// There is no driver, or it refuses a step. Steps before that one run nevertheless. The others are leaked with what
/// they own, since copies may be in flight; if it was the first step, they are dropped.
pub fn put_on_stream(stream: usize, steps: Vec<StreamStep>) -> Result<(), CopyError> {
    let driver = driver().ok_or(CopyError::NoDriver)?;
    driver.check_launch_host()?;
    let handle = stream;
    let stream = Stream::of_caller(stream);
    if handle <= LAST_DEFAULT_STREAM {
        return put_all(driver, &stream, steps);
    }
    let context = driver.context_of_stream(&stream)?;
    let mut result = Ok(());
    driver.within(context, || {
        result = put_all(driver, &stream, steps);
        Ok(())
    })?;
    result
}

fn put_all(driver: &Driver, stream: &Stream, steps: Vec<StreamStep>) -> Result<(), CopyError> {
    let mut steps = steps.into_iter();
    let mut is_first = true;
    while let Some(step) = steps.next() {
        if let Err((error, step)) = put(driver, stream, step) {
            if !is_first {
                std::mem::forget((step, steps));
            }
            return Err(error.into());
        }
        is_first = false;
    }
    Ok(())
}

/// Puts one step on the stream. Returns it if the driver refuses it.
fn put(
    driver: &Driver,
    stream: &Stream,
    step: StreamStep,
) -> Result<(), (crate::DriverError, StreamStep)> {
    let copy = |device: &PlacedSlice<'static>, host: &HeldSlice, direction| {
        let address = device.addr() as u64;
        driver.copy(direction, OneCopy { device: address, host: host.raw() }, stream)
    };
    match step {
        StreamStep::ToHost(device, host) => copy(&device, &host, Direction::ToHost)
            .map_err(|error| (error, StreamStep::ToHost(device, host))),
        StreamStep::ToDevice(host, device) => copy(&device, &host, Direction::ToDevice)
            .map_err(|error| (error, StreamStep::ToDevice(host, device))),
        StreamStep::Run(work) => {
            driver.launch_host(stream, work).map_err(|(error, work)| (error, StreamStep::Run(work)))
        }
    }
}
