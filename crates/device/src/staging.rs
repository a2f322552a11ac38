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
/// are too many: who has one asks for no second.
pub struct Staging {
    region: Option<Arc<Region>>,
    lock: Option<PageLock>,
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
    idle: Vec<Arc<Region>>,
    in_use: usize,
}

static POOL: Mutex<Pool> = Mutex::new(Pool { idle: Vec::new(), in_use: 0 });
static RETURNED: Condvar = Condvar::new();

fn pool() -> MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Staging {
    /// Two buffers for copies of a device. They are used without page-locks where the driver grants none.
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
        let idle = pool.idle.pop();
        drop(pool);
        // From here on a drop counts it as returned.
        let mut staging = Staging { region: idle, lock: None };
        let region = match &staging.region {
            Some(region) => Arc::clone(region),
            None => Arc::new(
                Region::anonymous(2 * STAGING_BYTES as u64).map_err(std::io::Error::other)?,
            ),
        };
        staging.lock = lock(&device, &region, region.whole());
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

impl Drop for Staging {
    fn drop(&mut self) {
        drop(self.lock.take());
        let mut pool = pool();
        pool.in_use -= 1;
        let surplus = match self.region.take() {
            Some(region) if pool.idle.len() < MAX_IDLE_PAIRS => {
                pool.idle.push(region);
                None
            }
            region => region,
        };
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
