use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::state::{CONTEXT_IS_DESTROYED, Context, ILLEGAL_ADDRESS, Status, state};

/// How often a stream that waits looks.
const POLL: Duration = Duration::from_micros(20);

/// Work that is done in order, by a thread of its own, and not at once.
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
    /// What went wrong first.
    error: Option<Status>,
}

/// What a stream does as one.
pub(crate) enum Job {
    /// Copies, which come behind that many waits if all streams are one queue.
    Copies { works: Vec<Work>, waits: u64 },
    /// Until the word at this address of the host is at least this.
    Wait { word: usize, value: u32, number: u64 },
}

/// One copy.
pub(crate) struct Work {
    pub(crate) device: u64,
    pub(crate) host: usize,
    pub(crate) len: usize,
    pub(crate) to_host: bool,
}

impl Stream {
    /// A stream, as the driver hands it out.
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
    /// The handle is from `create`, and was not given to `destroy`.
    pub(crate) unsafe fn of(handle: *mut c_void) -> Option<Arc<Stream>> {
        let stream: *const Stream = handle.cast();
        if stream.is_null() {
            return None;
        }
        // SAFETY: the handle holds a reference, and gets another one for the one that is given away.
        unsafe {
            Arc::increment_strong_count(stream);
            Some(Arc::from_raw(stream))
        }
    }

    /// Takes a stream back.
    ///
    /// # Safety
    /// As [`Stream::of`].
    pub(crate) unsafe fn destroy(handle: *mut c_void) {
        // SAFETY: as the caller promises; the handle's own reference goes with this.
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

    /// Waits until all is done.
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
                    thread::sleep(state().delay);
                    while is_held_up(waits) {
                        thread::sleep(POLL);
                    }
                    works.iter().try_for_each(|work| self.execute(work))
                }
                Job::Wait { word, value, number } => {
                    self.wait(word, value);
                    state().waits.remove(&number);
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
        // SAFETY: locked memory of the host, which stays while streams wait for it.
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
        // SAFETY: who began the copy keeps the memory of the host until the stream is done.
        let is_there = unsafe { state.copy(work.device, host, work.len, work.to_host) };
        if is_there { Ok(()) } else { Err(ILLEGAL_ADDRESS) }
    }
}

/// Whether all streams are one queue of the device, and one of the first so many waits is not over.
fn is_held_up(waits: u64) -> bool {
    let state = state();
    state.has_one_queue && state.waits.first().is_some_and(|&first| first < waits)
}
