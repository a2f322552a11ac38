use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::mm::{MapFlags, ProtFlags, munmap};

use crate::detach::Detach;
use crate::foreign::page_bytes;
use crate::map_error::size_of;
use crate::region::map;
use crate::{MapError, RawSlice, Region, process_id, view_fork};

/// A mapping of a region's bytes at an address of its own (copy-on-write). A write here copies the page, and changes
/// the bytes for this view only.
///
/// Until [`View::detach`] a change of the region's bytes shows here, so the caller must prevent such changes.
/// Afterwards the view has its own copy at the same address. Concurrent readers do not notice the switch.
///
/// A forked child sees the bytes as of the fork.
#[derive(Debug)]
pub struct View {
    ptr: NonNull<u8>,
    /// Length of the mapping, and offset of the bytes in it.
    mapped: usize,
    lead: usize,
    len: usize,
    is_detached: Arc<AtomicBool>,
    process: u32,
}

// SAFETY: the mapping belongs to the process, not to a thread; all access goes through raw slices.
unsafe impl Send for View {}
// SAFETY: as for Send.
unsafe impl Sync for View {}

impl View {
    /// Maps the `len` bytes of a region at `offset`.
    ///
    /// # Errors
    /// - `len` is zero, or the bytes do not lie within the region.
    /// - The region is not sealed against truncation ([`Region::sealed_descriptor`]).
    /// - A system call fails.
    pub fn of(region: &Region, offset: u64, len: u64) -> Result<View, MapError> {
        let bytes = size_of(len)?;
        let too_short = MapError::TooShort { offset, len, file_len: region.len() };
        region.slice(offset, len).map_err(|_| too_short)?;
        let wrong_kind = MapError::WrongKind { wanted: "sealed memory" };
        let memory = region.sealed_descriptor().ok_or(wrong_kind)?;
        let lead = offset % page_bytes();
        let mapped = size_of(len + lead)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let ptr = map(memory, offset - lead, mapped, protection, MapFlags::PRIVATE)?;
        let is_detached = Arc::new(AtomicBool::new(false));
        let process = process_id();
        view_fork::enter(ptr.as_ptr().addr(), Detach { ptr, mapped, done: is_detached.clone() });
        Ok(View { ptr, mapped, lead: lead as usize, len: bytes, is_detached, process })
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Always false: an empty view cannot be made.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes, for as long as the view is borrowed.
    #[must_use]
    pub fn raw(&self) -> RawSlice<'_> {
        // SAFETY: the mapping is readable and writable until drop and holds `lead + len` bytes. The slice borrows
        // the view.
        unsafe { RawSlice::new(self.ptr.as_ptr().add(self.lead), self.len) }
    }

    /// Whether the view has its own copy of the bytes.
    #[must_use]
    pub fn is_detached(&self) -> bool {
        self.is_detached.load(Ordering::Acquire)
    }

    /// Copies each page that was not written here, so that the view has its own bytes. Afterwards the region's bytes
    /// may change.
    ///
    /// # Errors
    /// The kernel's error if there is not enough memory. The visible bytes are unchanged then.
    pub fn detach(&self) -> io::Result<()> {
        let Self { ptr, mapped, is_detached, .. } = self;
        Detach { ptr: *ptr, mapped: *mapped, done: is_detached.clone() }.run()
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // A forked child that did not inherit the mapping may have another one at this address.
        if process_id() != self.process && !self.is_detached() {
            return;
        }
        view_fork::leave(self.ptr.as_ptr().addr(), self.process);
        // SAFETY: exactly the mapping made in `of`; its slices borrow the view, so none is left.
        let result = unsafe { munmap(self.ptr.as_ptr().cast(), self.mapped) };
        result.expect("the whole of a mapping can always be unmapped");
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::{Pid, WaitOptions, waitpid};

    use super::*;

    fn region(len: u64) -> Region {
        let region = Region::anonymous(len).unwrap();
        fill(&region, 1);
        region
    }

    /// A byte that depends on its position and a round.
    fn byte(at: usize, round: usize) -> u8 {
        (at * 7 + at / 251 + round * 31) as u8
    }

    fn fill(region: &Region, round: usize) {
        let bytes: Vec<u8> = (0..region.len() as usize).map(|at| byte(at, round)).collect();
        region.whole().write_from(&bytes);
    }

    fn expected(offset: usize, len: usize, round: usize) -> Vec<u8> {
        (offset..offset + len).map(|at| byte(at, round)).collect()
    }

    #[test]
    fn bytes_are_those_of_the_region_until_they_are_its_own() {
        for (offset, len) in [(0, 1), (0, 4096), (100, 70_000), (4095, 2), (8192, 57_344)] {
            let region = region(1 << 17);
            let view = View::of(&region, offset, len).unwrap();
            let is = |round| view.raw().to_vec() == expected(offset as usize, len as usize, round);
            assert!(is(1) && view.len() as u64 == len && !view.is_detached());
            fill(&region, 2);
            assert!(is(2), "it is no copy");
            view.detach().unwrap();
            fill(&region, 3);
            assert!(is(2) && view.is_detached());
            drop(region);
            assert!(is(2));
        }
    }

    #[test]
    fn pages_are_copied_by_the_old_kernels_way_too() {
        let region = region(1 << 16);
        let view = View::of(&region, 100, 50_000).unwrap();
        Detach { ptr: view.ptr, mapped: view.mapped, done: view.is_detached.clone() }
            .write_each_page();
        fill(&region, 2);
        assert!(view.raw().to_vec() == expected(100, 50_000, 1));
    }

    #[test]
    fn what_is_written_stays_in_the_view() {
        let region = region(1 << 16);
        let view = View::of(&region, 10, 20_000).unwrap();
        view.raw().sub(5000, 3).write_from(b"own");
        assert!(region.whole().to_vec() == expected(0, 1 << 16, 1));
        view.detach().unwrap();
        fill(&region, 2);
        let mut seen = expected(10, 20_000, 1);
        seen[5000..5003].copy_from_slice(b"own");
        assert!(view.raw().to_vec() == seen);
    }

    /// Writes during the copying of pages are not lost.
    #[test]
    fn who_writes_while_it_is_detached_loses_nothing() {
        let region = region(4 << 20);
        for round in 0..20 {
            let view = View::of(&region, 0, 4 << 20).unwrap();
            std::thread::scope(|scope| {
                let writer = scope.spawn(|| {
                    for page in 0..1024 {
                        view.raw().sub(page * 4096 + round, 4).write_from(b"mine");
                    }
                });
                view.detach().unwrap();
                writer.join().unwrap();
            });
            for page in 0..1024 {
                assert_eq!(view.raw().sub(page * 4096 + round, 4).to_vec(), b"mine", "{page}");
            }
        }
    }

    #[test]
    fn what_cannot_be_seen_is_an_error() {
        let region = region(8192);
        let short = |offset, len| MapError::TooShort { offset, len, file_len: 8192 };
        for (offset, len, error) in [
            (0, 0, MapError::Empty),
            (0, 8193, short(0, 8193)),
            (8192, 1, short(8192, 1)),
            (u64::MAX, 1, short(u64::MAX, 1)),
        ] {
            assert_eq!(View::of(&region, offset, len).unwrap_err(), error);
        }
        let lent = Region::of_buffer(crate::Buffer::zeroed(4096)).unwrap();
        let error = View::of(&lent, 0, 10).unwrap_err();
        assert_eq!(error, MapError::WrongKind { wanted: "sealed memory" });
    }

    #[test]
    fn a_forked_child_finds_the_bytes_of_that_moment() {
        let region = region(1 << 16);
        let (view, early) = (View::of(&region, 5, 50_000), View::of(&region, 0, 1));
        let (view, early) = (view.unwrap(), early.unwrap());
        let ready = Region::anonymous(1).unwrap();
        drop(early);
        // SAFETY: the child only reads memory, spins, unmaps its view, and ends without destructors.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let at = |bytes: RawSlice, at| {
                let mut found = [0];
                bytes.sub(at, 1).read_into(&mut found);
                found[0]
            };
            while at(ready.whole(), 0) != 1 {
                std::hint::spin_loop();
            }
            let is_same = (0..50_000).all(|place| at(view.raw(), place) == byte(place + 5, 1));
            drop(view);
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(if is_same { 0 } else { 1 }) }
        }
        assert!(child > 0 && view.is_detached());
        fill(&region, 2);
        ready.whole().write_from(&[1]);
        let ended = waitpid(Pid::from_raw(child), WaitOptions::empty()).unwrap();
        let (_, status) = ended.expect("it was waited for");
        assert_eq!(status.exit_status(), Some(0), "the child saw other bytes");
        assert!(view.raw().to_vec() == expected(5, 50_000, 1));
    }
}
