//! Page-locked memory that bytes pass through, where a device cannot reach the memory that they are for or from.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use mooncake_memory::{RawSlice, Region};

use crate::device::Device;
use crate::error::CopyError;
use crate::page_locks::{PageLock, lock};

/// Length of one buffer.
pub const STAGING_BYTES: usize = 4 << 20;

/// Most pairs of buffers of a process that are in use at a time. Further calls wait.
const MAX_PAIRS: usize = 8;

/// Pairs that are kept for the next call.
const MAX_IDLE_PAIRS: usize = 2;

/// Two buffers: bytes are copied to or from one while those of the other are on their way. Others wait for the pair if there
/// are too many: a call that has one asks for no second.
pub struct Staging {
    region: Option<Arc<Region>>,
    lock: Option<PageLock>,
    numa_node: Option<u32>,
}

/// One of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StagingBuffer {
    /// The first.
    Front,
    /// The second.
    Back,
}

impl StagingBuffer {
    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Front => Self::Back,
            Self::Back => Self::Front,
        }
    }
}

#[derive(Default)]
struct Pool {
    /// With the NUMA nodes that they prefer.
    idle: Vec<(Option<u32>, Arc<Region>)>,
    in_use: usize,
}

static POOL: Mutex<Pool> = Mutex::new(Pool { idle: Vec::new(), in_use: 0 });
static RETURNED: Condvar = Condvar::new();

fn pool() -> MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Staging {
    /// Two buffers for copies of a device, on its own NUMA node if that has room. They are used without page-locks where the driver grants none.
    ///
    /// # Errors
    /// If the device cannot be used, or there is no memory.
    pub fn of_device(ordinal: u32) -> Result<Staging, CopyError> {
        let device = Device::of(ordinal)?;
        let mut pool = pool();
        while pool.in_use >= MAX_PAIRS {
            pool = RETURNED.wait(pool).unwrap_or_else(PoisonError::into_inner);
        }
        pool.in_use += 1;
        let numa_node = device.numa_node();
        let idle = pool.idle.iter().rposition(|&(node, _)| node == numa_node);
        let idle = idle.map(|at| pool.idle.remove(at).1);
        drop(pool);
        // From here on a drop counts it as returned.
        let mut staging = Staging { region: idle, lock: None, numa_node };
        let region = match &staging.region {
            Some(region) => Arc::clone(region),
            None => Arc::new(new_region(numa_node)?),
        };
        staging.lock = lock(&device, &region, region.whole()).ok();
        staging.region = Some(region);
        Ok(staging)
    }

    /// The memory of a buffer.
    #[must_use]
    pub fn memory(&self, buffer: StagingBuffer) -> RawSlice {
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
    // Nothing has touched it.
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
        pool.in_use -= 1;
        pool.idle.extend(self.region.take().map(|region| (self.numa_node, region)));
        // Those that were used last are kept.
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
