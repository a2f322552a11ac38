use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use mooncake_types::LogLimiter;

use crate::direction::Direction;
use crate::driver::{Context, Driver, OneCopy, Stream};
use crate::error::{CopyError, DriverError};
use crate::load::driver;
use crate::numa::{has_several_nodes, node_next_to};
use crate::piece_kernel::{PieceKernel, PieceList};

/// Most idle streams of a device that are kept for reuse.
const MAX_IDLE_STREAMS: usize = 32;

/// A device that was used, with its primary context.
pub(crate) struct Device {
    driver: &'static Driver,
    ordinal: u32,
    context: Context,
    idle: Mutex<Vec<OwnStream>>,
    is_lost: AtomicBool,
    /// The copy kernel; `None` inside where it cannot be loaded.
    kernel: OnceLock<Option<PieceKernel>>,
    /// The NUMA node on which staging memory should lie, if the host has several.
    numa_node: Option<u32>,
}

/// A stream of this crate. It gets a list for its kernel with its first use of the kernel.
struct OwnStream {
    stream: Stream,
    list: Option<PieceList>,
}

/// A stream that one copy uses exclusively. Dropping this returns it.
pub(crate) struct LeasedStream {
    device: Arc<Device>,
    own: Option<OwnStream>,
}

/// How many contexts were lost in this process.
static LOST: AtomicU64 = AtomicU64::new(0);

static DEVICES: Mutex<Option<HashMap<u32, Arc<Device>>>> = Mutex::new(None);

fn used_devices() -> MutexGuard<'static, Option<HashMap<u32, Arc<Device>>>> {
    DEVICES.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn lost_contexts() -> u64 {
    LOST.load(Ordering::Acquire)
}

impl Device {
    /// The device with this ordinal. Its context is retained.
    pub(crate) fn of(ordinal: u32) -> Result<Arc<Device>, CopyError> {
        let driver = driver().ok_or(CopyError::NoDriver)?;
        if let Some(device) = used_devices().as_ref().and_then(|devices| devices.get(&ordinal)) {
            return Ok(Arc::clone(device));
        }
        // Without the lock, because the first use of a device takes long. If two threads race, one of them releases
        // its context again.
        let context = driver.retain_context(ordinal)?;
        let (idle, is_lost) = (Mutex::default(), AtomicBool::new(false));
        let numa_node = has_several_nodes().then(|| node_next_to(driver, ordinal)).flatten();
        let kernel = OnceLock::new();
        let device =
            Arc::new(Device { driver, ordinal, context, idle, is_lost, kernel, numa_node });
        let mut devices = used_devices();
        let known = devices.get_or_insert_default().entry(ordinal);
        Ok(Arc::clone(known.or_insert(device)))
    }

    pub(crate) fn driver(&self) -> &'static Driver {
        self.driver
    }

    pub(crate) fn ordinal(&self) -> u32 {
        self.ordinal
    }

    /// The nearest NUMA node. `None` if that is unknown, or if this host has one node only.
    pub(crate) fn numa_node(&self) -> Option<u32> {
        self.numa_node
    }

    /// Runs `work` in the device's context. If the context is lost, this forgets the device, and the next call of
    /// [`Device::of`] retains a new context.
    pub(crate) fn within<T>(
        &self,
        work: impl FnOnce() -> Result<T, DriverError>,
    ) -> Result<T, DriverError> {
        self.driver.within(self.context, work).inspect_err(|error| self.look_at(error))
    }

    fn look_at(&self, error: &DriverError) {
        if !error.is_context_lost() {
            return;
        }
        static REPORTED: LogLimiter<u32> = LogLimiter::new();
        if let Some(kept_back) = REPORTED.admit(self.ordinal, Instant::now()) {
            let ordinal = self.ordinal;
            tracing::warn!(%error, ordinal, kept_back, "the context of a GPU is lost");
        }
        self.is_lost.store(true, Ordering::Release);
        // Without the lock, because dropping the streams calls the driver.
        let idle = std::mem::take(&mut *self.idle());
        drop(idle);
        let mut devices = used_devices();
        let Some(devices) = devices.as_mut() else { return };
        let is_this = |known: &Arc<Device>| std::ptr::eq(&raw const **known, self);
        if devices.get(&self.ordinal).is_some_and(is_this) {
            devices.remove(&self.ordinal);
            LOST.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<OwnStream>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the context is lost. The driver has then released all resources in it.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// Leases a stream for one copy.
    pub(crate) fn stream(self: &Arc<Self>) -> Result<LeasedStream, DriverError> {
        let idle = self.idle().pop();
        let own = match idle {
            Some(own) => own,
            None => {
                let stream = self.within(|| self.driver.create_stream())?;
                OwnStream { stream, list: None }
            }
        };
        Ok(LeasedStream { device: Arc::clone(self), own: Some(own) })
    }

    /// The kernel that copies short pieces. Loads it if necessary.
    pub(crate) fn kernel(&self) -> Option<PieceKernel> {
        let load = || {
            let loaded = self.within(|| PieceKernel::load(self.driver, self.ordinal));
            let why = |error: &DriverError| {
                let ordinal = self.ordinal;
                tracing::info!(%error, ordinal, "short pieces are copied by the copy engines of a GPU");
            };
            loaded.inspect_err(why).ok()
        };
        *self.kernel.get_or_init(load)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // The streams of a lost context are gone. Releasing now would release its successor.
        if driver().is_none() || self.is_lost() {
            return;
        }
        if let Err(error) = self.driver.release_context(self.ordinal) {
            tracing::debug!(%error, "the context of a device was not released");
        }
    }
}

impl LeasedStream {
    fn own(&self) -> &OwnStream {
        self.own.as_ref().expect("it is there until it is dropped")
    }

    pub(crate) fn stream(&self) -> &Stream {
        &self.own().stream
    }

    /// Starts a kernel for the first of these copies, and returns their number. That is zero where there is no kernel,
    /// or no memory for its list. Call it once for each lease: the kernel uses the list until the stream is
    /// synchronized.
    pub(crate) fn begin_pieces(
        &mut self,
        direction: Direction,
        copies: &[OneCopy],
    ) -> Result<usize, DriverError> {
        let Some(kernel) = self.device.kernel() else { return Ok(0) };
        let own = self.own.as_mut().expect("it is there until it is dropped");
        if own.list.is_none() {
            let made = PieceList::new(&self.device);
            let why = |error: &CopyError| tracing::debug!(%error, "no list for a kernel");
            own.list = made.inspect_err(why).ok();
        }
        let Some(list) = &own.list else { return Ok(0) };
        let stream = &own.stream;
        let driver = self.device.driver;
        self.device.within(|| kernel.begin(driver, direction, copies, (list, stream)))
    }

    /// Waits until all work of the stream has ended.
    pub(crate) fn synchronize(&self) -> Result<(), DriverError> {
        let driver = self.device.driver;
        let waited = self.device.within(|| driver.synchronize(self.stream()));
        if waited.is_err() {
            // After a failed wait the driver may still be working in memory that is about to be reused. So wait again,
            // and report the first error.
            let _ = driver.synchronize(self.stream());
        }
        waited
    }
}

impl Drop for LeasedStream {
    fn drop(&mut self) {
        let Some(own) = self.own.take().filter(|_| driver().is_some()) else { return };
        let mut idle = self.device.idle();
        if idle.len() < MAX_IDLE_STREAMS && !self.device.is_lost() {
            idle.push(own);
            return;
        }
        drop(idle);
        let destroyed = self.device.within(|| self.device.driver.destroy_stream(own.stream));
        if let Err(error) = destroyed {
            tracing::debug!(%error, "a stream was not destroyed");
        }
    }
}

impl fmt::Debug for LeasedStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeasedStream")
            .field("ordinal", &self.device.ordinal)
            .finish_non_exhaustive()
    }
}

/// A description of a device, for operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceDescription {
    /// Its ordinal in this process.
    pub ordinal: u32,
    /// The name that the driver gives.
    pub name: String,
    /// Size of its memory, in bytes.
    pub bytes: u64,
    /// The CUDA version that the driver supports: 1000 times the major number plus 10 times the minor.
    pub driver_version: i32,
    /// The nearest NUMA node of the host, if known.
    pub numa_node: Option<u32>,
    /// Its address on PCI, for example `0000:3B:00.0`; empty if the driver does not tell.
    pub bus_address: String,
}

/// The devices of this process. Empty if the process has not loaded a driver.
///
/// # Errors
/// The driver's error.
pub fn devices() -> Result<Vec<DeviceDescription>, DriverError> {
    let Some(driver) = driver() else { return Ok(Vec::new()) };
    let driver_version = driver.version()?;
    let describe = |ordinal| {
        let (name, bytes) = driver.describe(ordinal)?;
        let numa_node = node_next_to(driver, ordinal);
        let bus_address = driver.bus_address(ordinal).unwrap_or_default();
        Ok(DeviceDescription { ordinal, name, bytes, driver_version, numa_node, bus_address })
    };
    (0..driver.device_count()?).map(describe).collect()
}
