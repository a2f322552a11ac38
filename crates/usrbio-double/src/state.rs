//! The state of the simulated library.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// A call that is to fail.
pub(crate) struct Fault {
    pub(crate) call: &'static str,
    pub(crate) before: u64,
    pub(crate) error: i32,
}

pub(crate) struct Buffer {
    pub(crate) address: usize,
    pub(crate) len: usize,
    /// A file that exists as long as the buffer lives.
    pub(crate) link: PathBuf,
}

#[derive(Clone, Copy)]
pub(crate) struct Request {
    pub(crate) index: i32,
    pub(crate) is_read: bool,
    pub(crate) address: usize,
    pub(crate) file: i32,
    pub(crate) at: i64,
    pub(crate) len: usize,
    pub(crate) user_data: usize,
}

/// The result of a request that was carried out.
#[derive(Clone, Copy)]
pub(crate) struct Done {
    pub(crate) index: i32,
    pub(crate) result: i64,
    pub(crate) user_data: usize,
}

pub(crate) struct Ring {
    pub(crate) is_for_read: bool,
    pub(crate) entries: usize,
    pub(crate) prepared: VecDeque<Request>,
    pub(crate) submitted: VecDeque<Request>,
    pub(crate) done: VecDeque<Done>,
    pub(crate) link: PathBuf,
}

pub(crate) struct RingState {
    pub(crate) faults: Vec<Fault>,
    pub(crate) calls: BTreeMap<String, u64>,
    pub(crate) most_bytes: usize,
    pub(crate) unanswered: u64,
    /// Unanswered requests, with the handles of their rings.
    pub(crate) late: Vec<(usize, Request)>,
    /// All buffers, by handle.
    pub(crate) buffers: BTreeMap<usize, Buffer>,
    pub(crate) rings: BTreeMap<usize, Ring>,
    pub(crate) files: BTreeSet<i32>,
    pub(crate) next: usize,
}

static STATE: LazyLock<Mutex<RingState>> = LazyLock::new(|| {
    Mutex::new(RingState {
        faults: Vec::new(),
        calls: BTreeMap::new(),
        most_bytes: usize::MAX,
        unanswered: 0,
        late: Vec::new(),
        buffers: BTreeMap::new(),
        rings: BTreeMap::new(),
        files: BTreeSet::new(),
        next: 1,
    })
});

pub(crate) fn state() -> MutexGuard<'static, RingState> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RingState {
    /// Counts a call. Returns an error if a test wants the call to fail.
    pub(crate) fn enter(&mut self, call: &str) -> Result<(), i32> {
        *self.calls.entry(call.to_owned()).or_default() += 1;
        let Some(at) = self.faults.iter().position(|fault| fault.call == call) else {
            return Ok(());
        };
        if self.faults[at].before == 0 {
            return Err(self.faults.remove(at).error);
        }
        self.faults[at].before -= 1;
        Ok(())
    }

    pub(crate) fn next(&mut self) -> usize {
        self.next += 1;
        self.next
    }

    /// Carries out a request. Returns the number of bytes, or a negative error number.
    pub(crate) fn carry_out(&mut self, request: &Request) -> i64 {
        if let Err(error) = self.enter(if request.is_read { "read" } else { "write" }) {
            return -i64::from(error);
        }
        let len = request.len.min(self.most_bytes);
        let memory = std::ptr::with_exposed_provenance_mut(request.address);
        // SAFETY: `hf3fs_prep_io` checked that the memory lies in a buffer, and buffers are never unmapped.
        let moved = unsafe {
            if request.is_read {
                libc::pread(request.file, memory, len, request.at)
            } else {
                libc::pwrite(request.file, memory, len, request.at)
            }
        };
        if moved < 0 {
            let error = std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
            return -i64::from(error);
        }
        moved as i64
    }

    /// Carries out the requests that were submitted to a ring.
    pub(crate) fn turn(&mut self, handle: usize) {
        while let Some(request) =
            self.rings.get_mut(&handle).and_then(|ring| ring.submitted.pop_front())
        {
            if self.unanswered > 0 {
                self.unanswered -= 1;
                self.late.push((handle, request));
                continue;
            }
            self.complete(handle, &request);
        }
    }

    pub(crate) fn answer_late(&mut self) {
        for (handle, request) in std::mem::take(&mut self.late) {
            self.complete(handle, &request);
        }
    }

    fn complete(&mut self, handle: usize, request: &Request) {
        let result = self.carry_out(request);
        let done = Done { index: request.index, result, user_data: request.user_data };
        if let Some(ring) = self.rings.get_mut(&handle) {
            ring.done.push_back(done);
        }
    }
}
