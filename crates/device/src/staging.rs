//! Page-locked buffers between a device and memory that the device cannot access.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use mooncake_memory::{HeldSlice, RawSlice, Region};

use crate::device::Device;
use crate::error::CopyError;
use crate::page_locks::{PageLock, lock};

/// Length of one buffer, in bytes.
pub const STAGING_BYTES: usize = 4 << 20;

/// Most pairs of buffers in use at a time in this process. Further calls wait for one.
const MAX_PAIRS: usize = 8;

/// Most unused pairs that are kept for reuse.
const MAX_IDLE_PAIRS: usize = 2;

/// A pair of buffers: bytes are copied to or from one while a device or a socket transfers the other. Only eight pairs
/// are in use at a time, and further calls wait. So a call that holds a pair must not ask for a second one.
pub struct Staging {
    region: Option<Arc<Region>>,
    lock: Option<PageLock>,
    numa_node: Option<u32>,
    /// Whether it is one of the eight.
    is_counted: bool,
}

/// Selects one of the two buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StagingBuffer {
    /// The first buffer.
    Front,
    /// The second buffer.
    Back,
}

impl StagingBuffer {
    /// The other buffer of the pair.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Front => Self::Back,
            Self::Back => Self::Front,
        }
    }
}

#[derive(Default)]
struct StagingPool {
    /// Unused pairs, with the NUMA nodes that they prefer.
    idle: Vec<(Option<u32>, Arc<Region>)>,
    in_use: usize,
}

static POOL: Mutex<StagingPool> = Mutex::new(StagingPool { idle: Vec::new(), in_use: 0 });
static RETURNED: Condvar = Condvar::new();

fn pool() -> MutexGuard<'static, StagingPool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Staging {
    /// A pair of buffers for copies of a device, preferably on its NUMA node. If the driver refuses to lock the pages,
    /// the buffers are used unlocked.
    ///
    /// # Errors
    /// The device is unusable, or there is no memory.
    pub fn of_device(ordinal: u32) -> Result<Staging, CopyError> {
        Self::new(ordinal, true)
    }

    /// As [`Staging::of_device`], beyond the eight pairs, and without a wait. For copies that wait for a stream of the
    /// application: the eight must not wait for those. The caller limits how many it has.
    ///
    /// # Errors
    /// As [`Staging::of_device`].
    pub fn beyond_the_limit(ordinal: u32) -> Result<Staging, CopyError> {
        Self::new(ordinal, false)
    }

    fn new(ordinal: u32, is_counted: bool) -> Result<Staging, CopyError> {
        let device = Device::of(ordinal)?;
        let mut pool = pool();
        while is_counted && pool.in_use >= MAX_PAIRS {
            pool = RETURNED.wait(pool).unwrap_or_else(PoisonError::into_inner);
        }
        pool.in_use += usize::from(is_counted);
        let numa_node = device.numa_node();
        let idle = pool.idle.iter().rposition(|&(node, _)| node == numa_node);
        let idle = idle.map(|at| pool.idle.remove(at).1);
        drop(pool);
        // From here on the drop of `staging` returns the pair.
        let mut staging = Staging { region: idle, lock: None, numa_node, is_counted };
        let region = match &staging.region {
            Some(region) => Arc::clone(region),
            None => Arc::new(new_region(numa_node)?),
        };
        staging.lock = lock(&device, &region, region.whole()).ok();
        staging.region = Some(region);
        Ok(staging)
    }

    /// The memory of both buffers, which adjoin.
    #[must_use]
    pub fn held(&self) -> HeldSlice {
        let region = self.region.as_ref().expect("only a drop takes it");
        HeldSlice::whole(Arc::clone(region))
    }

    /// The memory of a buffer.
    #[must_use]
    pub fn memory(&self, buffer: StagingBuffer) -> RawSlice<'_> {
        let whole = self.region.as_ref().map_or(RawSlice::EMPTY, |region| region.whole());
        match buffer {
            StagingBuffer::Front => whole.sub(0, STAGING_BYTES),
            StagingBuffer::Back => whole.sub(STAGING_BYTES, STAGING_BYTES),
        }
    }

    /// Whether the driver has locked the pages.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.lock.is_some()
    }
}

fn new_region(numa_node: Option<u32>) -> Result<Region, CopyError> {
    let region = Region::anonymous(2 * STAGING_BYTES as u64).map_err(std::io::Error::other)?;
    // The pages are not allocated yet, so the preference takes effect.
    let preferred = numa_node.map_or(Ok(()), |node| region.prefer_numa_node(node));
    if let Err(error) = preferred {
        tracing::debug!(%error, numa_node, "staging memory lies where the system puts it");
    }
    Ok(region)
}

impl Drop for Staging {
    fn drop(&mut self) {
        drop(self.lock.take());
        let mut pool = pool();
        pool.in_use -= usize::from(self.is_counted);
        pool.idle.extend(self.region.take().map(|region| (self.numa_node, region)));
        // The most recently used pairs are kept.
        let surplus = (pool.idle.len() > MAX_IDLE_PAIRS).then(|| pool.idle.remove(0));
        drop(pool);
        RETURNED.notify_one();
        drop(surplus);
    }
}

impl fmt::Debug for Staging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Staging").field("is_locked", &self.is_locked()).finish_non_exhaustive()
    }
}
