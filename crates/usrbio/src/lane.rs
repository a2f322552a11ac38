//! A lane: a part of the shared buffer, and the rings for its requests.

use std::ffi::{CStr, c_int};
use std::io;
use std::ptr;
use std::time::{Duration, Instant, SystemTime};

use mooncake_memory::RawSlice;

use crate::symbols::{Completion, Functions, Ior, Iov};

/// Capacity of a ring, in requests. Only one is in flight at a time.
const ENTRIES: c_int = 16;
/// Lets the library choose the NUMA node of this process.
const OWN_NODE: c_int = -1;

/// Direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}

/// Memory that is registered with the daemon until this is dropped.
pub(crate) struct SharedBuffer {
    functions: &'static Functions,
    iov: Box<Iov>,
    len: usize,
    process: u32,
}

// SAFETY: the library allows any thread to use its structures; their pointers refer to memory of the process.
unsafe impl Send for SharedBuffer {}
// SAFETY: nothing changes the structure while it lives.
unsafe impl Sync for SharedBuffer {}

impl SharedBuffer {
    pub(crate) fn new(
        functions: &'static Functions,
        mount_point: &CStr,
        len: usize,
    ) -> io::Result<SharedBuffer> {
        let mut iov = Box::new(Iov::EMPTY);
        // SAFETY: `iov` has the library's layout, and the path ends with a zero.
        let status = unsafe {
            (functions.iov_create)(&raw mut *iov, mount_point.as_ptr(), len, 0, OWN_NODE)
        };
        check(status)?;
        Ok(SharedBuffer { functions, iov, len, process: std::process::id() })
    }

    /// All bytes of the buffer.
    pub(crate) fn whole(&self) -> RawSlice<'static> {
        // SAFETY: the library mapped `len` bytes here, until this is dropped. Only lanes use the slice, and `Mount`
        // drops them before the buffer.
        unsafe { RawSlice::new(self.iov.base, self.len) }
    }
}

impl Drop for SharedBuffer {
    fn drop(&mut self) {
        // A forked child must not unregister memory that its parent uses.
        if self.process == std::process::id() {
            // SAFETY: the library made the structure, and only this drop returns it.
            unsafe { (self.functions.iov_destroy)(&raw mut *self.iov) }
        }
    }
}

struct Ring {
    functions: &'static Functions,
    ior: Box<Ior>,
    process: u32,
}

impl Ring {
    fn new(
        functions: &'static Functions,
        mount_point: &CStr,
        direction: Direction,
    ) -> io::Result<Ring> {
        let mut ior = Box::new(Ior::EMPTY);
        let for_read = direction == Direction::Read;
        // SAFETY: `ior` has the library's layout, and the path ends with a zero.
        let status = unsafe {
            let path = mount_point.as_ptr();
            (functions.ior_create)(&raw mut *ior, path, ENTRIES, for_read, 0, OWN_NODE)
        };
        check(status)?;
        Ok(Ring { functions, ior, process: std::process::id() })
    }

    /// Waits for the completion of the request with this number.
    fn wait(&self, number: usize, limit: Duration) -> io::Result<i64> {
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "3FS does not answer"));
            }
            let mut completion =
                Completion { index: 0, reserved: 0, result: 0, user_data: ptr::null() };
            let until = timespec_in(left);
            // SAFETY: the ring lives, and `completion` has room for one entry.
            let count = unsafe {
                (self.functions.wait_for_ios)(&raw const *self.ior, &mut completion, 1, 1, &until)
            };
            check(count)?;
            match count {
                0 => {}
                1 if completion.user_data.addr() == number => return Ok(completion.result),
                _ => return Err(io::Error::other("3FS completed a request that is not there")),
            }
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            // SAFETY: the library made the structure, and only this drop returns it.
            unsafe { (self.functions.ior_destroy)(&raw mut *self.ior) }
        }
    }
}

/// A buffer with a ring for reads and one for writes. One thread uses it at a time.
pub(crate) struct Lane {
    pub(crate) buffer: RawSlice<'static>,
    read: Ring,
    write: Ring,
    /// Number of the last request.
    last: usize,
    /// Whether a request may still be in flight for which no thread waits.
    pub(crate) is_lost: bool,
}

// SAFETY: the library allows threads to use each other's rings, one at a time; `&mut Lane` ensures that.
unsafe impl Send for Lane {}

impl Lane {
    pub(crate) fn new(
        functions: &'static Functions,
        mount_point: &CStr,
        buffer: RawSlice<'static>,
    ) -> io::Result<Lane> {
        let read = Ring::new(functions, mount_point, Direction::Read)?;
        let write = Ring::new(functions, mount_point, Direction::Write)?;
        Ok(Lane { buffer, read, write, last: 0, is_lost: false })
    }

    /// Moves up to `len` bytes between the lane's part of `shared` and a file. Returns their number, which is at least
    /// one.
    pub(crate) fn run(
        &mut self,
        shared: &SharedBuffer,
        direction: Direction,
        (file, at): (c_int, u64),
        len: usize,
        limit: Duration,
    ) -> io::Result<usize> {
        let memory = self.buffer.sub(0, len).as_ptr().cast();
        self.last += 1;
        let number = self.last;
        let is_read = direction == Direction::Read;
        let ring = if is_read { &self.read } else { &self.write };
        let offset = usize::try_from(at).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: ring and buffer live, and the memory is this lane's part of the buffer. `&mut self` keeps other
        // threads from the ring.
        let index = unsafe {
            let user_data = ptr::without_provenance(number);
            let (ior, iov) = (&raw const *ring.ior, &raw const *shared.iov);
            let prepare = ring.functions.prep_io;
            prepare(ior, iov, is_read, memory, file, offset, len as u64, user_data)
        };
        check(index)?;
        // From now on the daemon may see the request, even if submitting it fails.
        self.is_lost = true;
        // SAFETY: the ring lives, and `&mut self` keeps other threads from it.
        check(unsafe { (ring.functions.submit_ios)(&raw const *ring.ior) })?;
        let moved = ring.wait(number, limit)?;
        self.is_lost = false;
        let end = if is_read { io::ErrorKind::UnexpectedEof } else { io::ErrorKind::WriteZero };
        match usize::try_from(moved) {
            Ok(0) => Err(end.into()),
            Ok(moved) if moved <= len => Ok(moved),
            Ok(_) => Err(io::Error::other("3FS moved more bytes than it was asked to")),
            Err(_) => Err(error_of(moved)),
        }
    }
}

/// Converts a negative status to an error.
fn check(status: c_int) -> io::Result<()> {
    if status < 0 { Err(error_of(i64::from(status))) } else { Ok(()) }
}

/// The error of a negative status.
fn error_of(status: i64) -> io::Error {
    match i32::try_from(-status) {
        Ok(number) => io::Error::from_raw_os_error(number),
        Err(_) => io::Error::other(format!("3FS gives the status {status}")),
    }
}

/// The time of day after `left`, as the library wants it.
fn timespec_in(left: Duration) -> libc::timespec {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let until = now + left;
    libc::timespec {
        tv_sec: i64::try_from(until.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: until.subsec_nanos().into(),
    }
}
