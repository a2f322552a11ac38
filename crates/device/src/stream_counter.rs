use std::fmt;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use mooncake_memory::{Region, page_bytes, spawn_unpinned};

use crate::device::Device;
use crate::error::CopyError;
use crate::load::driver;

/// A counter of completed work for which streams of a device wait, without a waiting thread for each stream.
///
/// A stream waits for a limited time. If the counter does not move for that long, or is dropped, all streams continue.
/// A later [`StreamCounter::advance`] then returns false. So no stream hangs, even if the driver queues the awaited
/// work behind the waiting stream.
pub struct StreamCounter {
    shared: Arc<Shared>,
}

struct Shared {
    device: Arc<Device>,
    /// The memory whose first word holds the count. It is never freed, because streams may read it after everything
    /// else is gone.
    memory: &'static Region,
    /// The address at which the device reads it.
    address: u64,
    limit: Duration,
    progress: Mutex<StreamProgress>,
    awaited: Condvar,
}

struct StreamProgress {
    count: u64,
    /// The highest count for which a stream waits, or may be about to.
    wanted: u64,
    /// The highest count for which the driver has accepted a wait.
    accepted: u64,
    /// Calls to the driver that are under way.
    enqueuing: u32,
    /// When the count last moved, or a stream began to wait for it.
    since: Instant,
    /// The count up to which streams continued without waiting for the work.
    given_up: Option<u64>,
    /// Set once streams cannot wait any more: the driver refuses it, or they waited too long.
    is_off: bool,
    is_closed: bool,
}

impl StreamCounter {
    /// A counter at zero. Streams of this device that wait for it continue after `limit` without progress.
    ///
    /// # Errors
    /// The driver does not support it, or there is no memory or no thread.
    pub fn new(ordinal: u32, limit: Duration) -> Result<StreamCounter, CopyError> {
        let device = Device::of(ordinal)?;
        device.driver().check_wait()?;
        // Load the kernel before any stream waits: the driver may wait for all work of the device in order to load it.
        device.kernel();
        let memory = Region::anonymous(page_bytes()).map_err(io::Error::other)?;
        let address = device.within(|| device.driver().host_map(memory.whole()))?;
        let since = Instant::now();
        let progress = StreamProgress {
            count: 0,
            wanted: 0,
            accepted: 0,
            enqueuing: 0,
            since,
            given_up: None,
            is_off: false,
            is_closed: false,
        };
        let (progress, awaited) = (Mutex::new(progress), Condvar::new());
        let memory = Box::leak(Box::new(memory));
        let shared = Arc::new(Shared { device, memory, address, limit, progress, awaited });
        let watching = Arc::clone(&shared);
        let thread = Builder::new().name("mooncake-streams".to_owned());
        if let Err(error) = spawn_unpinned(thread, move || watching.watch()) {
            // The result does not matter: the call fails anyway.
            let _ = shared.device.within(|| {
                shared.device.driver().host_unregister(shared.memory.whole().as_ptr().addr())
            });
            return Err(error.into());
        }
        Ok(StreamCounter { shared })
    }

    /// Makes later work on a stream wait until the count reaches `count`. `stream` is a live stream's handle in the
    /// driver. Returns false if the stream does not wait: then the caller's thread has to.
    pub fn wait(&self, stream: usize, count: u64) -> bool {
        if driver().is_none() {
            return false;
        }
        let shared = &*self.shared;
        {
            let mut progress = shared.progress();
            if progress.count >= count {
                return progress.given_up.is_none_or(|late| count > late);
            }
            if progress.is_off {
                return false;
            }
            if progress.count >= progress.wanted {
                progress.since = Instant::now();
                shared.awaited.notify_all();
            }
            progress.wanted = progress.wanted.max(count);
            progress.enqueuing += 1;
        }
        // Without the lock: if the stream's queue is full, the call blocks until the stream continues.
        let driver = shared.device.driver();
        let enqueued =
            shared.device.within(|| driver.wait_value(stream, shared.address, count as u32));
        let mut progress = shared.progress();
        progress.enqueuing -= 1;
        let Err(error) = enqueued else {
            progress.accepted = progress.accepted.max(count);
            return true;
        };
        progress.is_off = true;
        if progress.enqueuing == 0 {
            progress.wanted = progress.accepted;
        }
        drop(progress);
        tracing::warn!(%error, "streams of a GPU cannot wait for loads: the processor does");
        false
    }

    /// Raises the count to at least `count`. Returns false if streams have continued without waiting for it.
    pub fn advance(&self, count: u64) -> bool {
        if driver().is_none() {
            return true;
        }
        let mut progress = self.shared.progress();
        self.shared.set(&mut progress, count);
        progress.given_up.is_none_or(|late| count > late)
    }
}

impl Drop for StreamCounter {
    fn drop(&mut self) {
        // A forked child has no streams and no watching thread, and its lock may be held forever.
        if driver().is_none() {
            return;
        }
        let mut progress = self.shared.progress();
        let wanted = progress.wanted;
        self.shared.set(&mut progress, wanted);
        progress.is_closed = true;
        self.shared.awaited.notify_all();
    }
}

impl Shared {
    fn progress(&self) -> MutexGuard<'_, StreamProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, progress: &mut StreamProgress, count: u64) {
        if count > progress.count {
            (progress.count, progress.since) = (count, Instant::now());
            // The device reads the lower half, and compares by signed difference.
            self.memory.word(0).store(count.to_le(), Ordering::Release);
        }
    }

    /// The loop of the watching thread: it releases streams that wait too long.
    fn watch(&self) {
        let mut progress = self.progress();
        while !progress.is_closed {
            if progress.count >= progress.wanted {
                progress = self.awaited.wait(progress).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let spent = progress.since.elapsed();
            if spent < self.limit {
                let waited = self.awaited.wait_timeout(progress, self.limit - spent);
                progress = waited.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            let wanted = progress.wanted;
            (progress.given_up, progress.is_off) = (Some(wanted), true);
            self.set(&mut progress, wanted);
            let seconds = self.limit.as_secs_f64();
            tracing::warn!(
                seconds,
                "a stream of a GPU waited too long for a load, which counts as failed: the processor waits from now on"
            );
        }
    }
}

impl fmt::Debug for StreamCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ordinal = self.shared.device.ordinal();
        f.debug_struct("StreamCounter").field("ordinal", &ordinal).finish_non_exhaustive()
    }
}
