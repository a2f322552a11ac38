use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::api::is_locked;
use crate::state::{
    CONTEXT_IS_DESTROYED, Context, ILLEGAL_ADDRESS, IS_IN_HOST_FUNCTION, Status, state,
};

/// How often a waiting stream checks its condition.
const POLL: Duration = Duration::from_micros(20);

/// A stream: its jobs run in order, late, on a thread of its own.
pub(crate) struct Stream {
    pub(crate) context: Context,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    works: VecDeque<Job>,
    is_busy: bool,
    is_closed: bool,
    /// The first error since the last synchronization.
    error: Option<Status>,
}

/// A unit of work of a stream.
pub(crate) enum Job {
    /// Copies. If all streams share one queue, the copies come behind the first `waits` waits.
    Copies { works: Vec<Work>, waits: u64 },
    /// The kernel that copies pieces: address and length of a list in host memory, which the stream reads late.
    Kernel { list: usize, count: usize, waits: u64 },
    /// Waits until the word at this host address is at least `value`.
    Wait { word: usize, value: u32, number: u64 },
    /// Calls a function of the host, which must not call the driver.
    Host { function: unsafe extern "C" fn(*mut c_void), argument: usize },
}

/// One copy.
pub(crate) struct Work {
    pub(crate) device: u64,
    pub(crate) host: usize,
    pub(crate) len: usize,
    pub(crate) to_host: bool,
}

impl Stream {
    /// Creates a stream, and returns its handle in the driver.
    pub(crate) fn create(context: Context) -> *mut c_void {
        let (queue, changed) = (Mutex::default(), Condvar::new());
        let stream = Arc::new(Self { context, queue, changed });
        let worker = Arc::clone(&stream);
        thread::spawn(move || worker.run());
        Arc::into_raw(stream).cast_mut().cast()
    }

    /// The stream of a handle.
    ///
    /// # Safety
    /// The handle must be null, or come from `create` and not have been passed to `destroy`.
    pub(crate) unsafe fn of(handle: *mut c_void) -> Option<Arc<Stream>> {
        let stream: *const Stream = handle.cast();
        if stream.is_null() {
            return None;
        }
        // SAFETY: the caller promises a live handle, which holds a reference. The count is incremented for the
        // returned one.
        unsafe {
            Arc::increment_strong_count(stream);
            Some(Arc::from_raw(stream))
        }
    }

    /// Destroys a stream. Its thread first finishes the queued jobs.
    ///
    /// # Safety
    /// As [`Stream::of`], and the handle must not be null.
    pub(crate) unsafe fn destroy(handle: *mut c_void) {
        // SAFETY: the caller promises a live handle; this takes over its reference.
        let stream = unsafe { Arc::from_raw(handle.cast::<Stream>().cast_const()) };
        stream.lock().is_closed = true;
        stream.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, job: Job) {
        self.lock().works.push_back(job);
        self.changed.notify_all();
    }

    /// Waits until all jobs are done. Returns the first error.
    pub(crate) fn synchronize(&self) -> Status {
        let mut queue = self.lock();
        while queue.is_busy || !queue.works.is_empty() {
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        queue.error.take().unwrap_or(0)
    }

    fn run(&self) {
        while let Some(job) = self.next() {
            let result = match job {
                Job::Copies { works, waits } => {
                    delay(waits);
                    works.iter().try_for_each(|work| self.execute(work))
                }
                Job::Kernel { list, count, waits } => {
                    delay(waits);
                    (0..count).try_for_each(|index| self.execute(&piece(list, index)?))
                }
                Job::Wait { word, value, number } => {
                    self.wait(word, value);
                    state().waits.remove(&number);
                    Ok(())
                }
                Job::Host { function, argument } => {
                    thread::sleep(state().delay);
                    IS_IN_HOST_FUNCTION.set(true);
                    // SAFETY: who put the function on the stream promises that it may be called so, once.
                    unsafe { function(std::ptr::with_exposed_provenance_mut(argument)) };
                    IS_IN_HOST_FUNCTION.set(false);
                    Ok(())
                }
            };
            let mut queue = self.lock();
            queue.is_busy = false;
            if let Err(code) = result {
                queue.error.get_or_insert(code);
            }
            drop(queue);
            self.changed.notify_all();
        }
    }

    fn wait(&self, word: usize, value: u32) {
        let word = std::ptr::with_exposed_provenance_mut(word);
        // SAFETY: the word is locked host memory, which its owner keeps while streams wait for it.
        let word = unsafe { AtomicU32::from_ptr(word) };
        let is_there = || word.load(Ordering::Acquire).wrapping_sub(value).cast_signed() >= 0;
        while !is_there() && !self.lock().is_closed {
            thread::sleep(POLL);
        }
    }

    fn next(&self) -> Option<Job> {
        let mut queue = self.lock();
        loop {
            if let Some(job) = queue.works.pop_front() {
                queue.is_busy = true;
                return Some(job);
            }
            if queue.is_closed {
                return None;
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn execute(&self, work: &Work) -> Result<(), Status> {
        let mut state = state();
        state.enter("execute")?;
        if !state.is_alive(self.context) {
            return Err(CONTEXT_IS_DESTROYED);
        }
        let host = std::ptr::with_exposed_provenance_mut(work.host);
        // SAFETY: the caller that queued the copy keeps the host memory until the stream is synchronized.
        let is_there = unsafe { state.copy(work.device, host, work.len, work.to_host) };
        if is_there { Ok(()) } else { Err(ILLEGAL_ADDRESS) }
    }
}

/// Delays a job: work on streams happens late, and behind the waits before it.
fn delay(waits: u64) {
    thread::sleep(state().delay);
    while is_held_up(waits) {
        thread::sleep(POLL);
    }
}

/// Reads one entry of a kernel's list: destination, source, length. The kernel can access only locked host memory, and
/// only aligned pieces.
fn piece(list: usize, index: usize) -> Result<Work, Status> {
    let state = state();
    let at = list + index * 24;
    if !is_locked(&state, at, 24) {
        return Err(ILLEGAL_ADDRESS);
    }
    let line: *const u64 = std::ptr::with_exposed_provenance(at);
    // SAFETY: the list is locked, so it is mapped. The caller that launched the kernel keeps it until the stream is
    // synchronized.
    let (to, from, len) = unsafe { (*line, *line.add(1), *line.add(2) as usize) };
    let to_host = state.find(from).is_some();
    let (device, host) = if to_host { (from, to as usize) } else { (to, from as usize) };
    if !(to | from | len as u64).is_multiple_of(16) || !is_locked(&state, host, len) {
        return Err(ILLEGAL_ADDRESS);
    }
    Ok(Work { device, host, len, to_host })
}

/// Whether all streams share one queue, and one of the first `waits` waits is not over.
fn is_held_up(waits: u64) -> bool {
    let state = state();
    state.has_one_queue && state.waits.first().is_some_and(|&first| first < waits)
}
