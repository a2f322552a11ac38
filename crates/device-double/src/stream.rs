use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::api::is_locked;
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
    /// The kernel that copies pieces: a list in memory of the host, which it reads late, and its length.
    Kernel { list: usize, count: usize, waits: u64 },
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

/// Nothing happens at once, and nothing before what it stands behind.
fn delay(waits: u64) {
    thread::sleep(state().delay);
    while is_held_up(waits) {
        thread::sleep(POLL);
    }
}

/// One line of the list of a kernel: where to, where from, and how many bytes. The kernel cannot touch other memory of the host
/// than locked one, and nothing that is not aligned.
fn piece(list: usize, index: usize) -> Result<Work, Status> {
    let state = state();
    let at = list + index * 24;
    if !is_locked(&state, at, 24) {
        return Err(ILLEGAL_ADDRESS);
    }
    let line: *const u64 = std::ptr::with_exposed_provenance(at);
    // SAFETY: locked memory is there, and who launched the kernel keeps the list until the stream is done.
    let (to, from, len) = unsafe { (*line, *line.add(1), *line.add(2) as usize) };
    let to_host = state.find(from).is_some();
    let (device, host) = if to_host { (from, to as usize) } else { (to, from as usize) };
    if !(to | from | len as u64).is_multiple_of(16) || !is_locked(&state, host, len) {
        return Err(ILLEGAL_ADDRESS);
    }
    Ok(Work { device, host, len, to_host })
}

/// Whether all streams are one queue of the device, and one of the first so many waits is not over.
fn is_held_up(waits: u64) -> bool {
    let state = state();
    state.has_one_queue && state.waits.first().is_some_and(|&first| first < waits)
}
