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

/// A count of things done that streams of a device wait for, without a thread of the processor that waits for each.
///
/// A stream waits for a limited time: if the count does not move for that long, or nothing is there any more to move it, all
/// streams go on, and whoever moves the count then learns that it is too late. So a stream never hangs, even where the driver
/// runs what would move the count behind the very stream that waits for it.
pub struct StreamCounter {
    shared: Arc<Shared>,
}

struct Shared {
    device: Arc<Device>,
    /// Its first word has the count. Never freed: streams may read it yet when everything else is gone.
    memory: &'static Region,
    /// Where the device reads it.
    address: u64,
    limit: Duration,
    progress: Mutex<Progress>,
    awaited: Condvar,
}

struct Progress {
    count: u64,
    /// The highest count that a stream waits for.
    wanted: u64,
    /// When the count moved, or a stream began to wait for it.
    since: Instant,
    /// The count up to which streams went on without it.
    given_up: Option<u64>,
    /// Streams wait no more: the driver refuses it, or they waited too long.
    is_off: bool,
    is_closed: bool,
}

impl StreamCounter {
    /// A count of zero. Streams of this device that wait for it go on after `limit` without any progress.
    ///
    /// # Errors
    /// The driver cannot do it, or the system has no memory or no thread.
    pub fn new(ordinal: u32, limit: Duration) -> Result<StreamCounter, CopyError> {
        let device = Device::of(ordinal)?;
        device.driver().check_wait()?;
        // Before a stream waits: to load it, a driver may wait for all that the device does.
        device.kernel();
        let memory = Region::anonymous(page_bytes()).map_err(io::Error::other)?;
        let address = device.within(|| device.driver().host_map(memory.whole()))?;
        let since = Instant::now();
        let progress = Progress {
            count: 0,
            wanted: 0,
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
            // What the driver says changes nothing any more.
            let _ = shared
                .device
                .within(|| shared.device.driver().host_unregister(shared.memory.whole()));
            return Err(error.into());
        }
        Ok(StreamCounter { shared })
    }

    /// What is put on a stream of the device from now on runs once the count is `count`. The stream is given by the driver's
    /// handle, and must be there. False if it does not wait: then the processor has to.
    pub fn wait(&self, stream: usize, count: u64) -> bool {
        if driver().is_none() {
            return false;
        }
        let shared = &*self.shared;
        let before = {
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
            let before = progress.wanted;
            progress.wanted = before.max(count);
            before
        };
        // Without the lock: a stream that is full takes no more before it has gone on.
        let driver = shared.device.driver();
        let enqueued =
            shared.device.within(|| driver.wait_value(stream, shared.address, count as u32));
        let Err(error) = enqueued else { return true };
        tracing::warn!(%error, "streams of a GPU cannot wait for loads: the processor does");
        let mut progress = shared.progress();
        (progress.wanted, progress.is_off) = (before, true);
        false
    }

    /// The count is at least `count` from now on. False if streams went on without it.
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
        // A child has neither the streams nor the thread, and perhaps a lock that nobody opens.
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
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, progress: &mut Progress, count: u64) {
        if count > progress.count {
            (progress.count, progress.since) = (count, Instant::now());
            // The device reads the lower half, and compares it as a difference.
            self.memory.word(0).store(count.to_le(), Ordering::Release);
        }
    }

    /// Lets streams go on that wait too long.
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
