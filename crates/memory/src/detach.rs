use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use rustix::io::Errno;
use rustix::mm::{Advice, madvise};

use crate::foreign::page_bytes;

/// The means to detach a view as long as it is mapped.
#[derive(Debug)]
pub(crate) struct Detach {
    pub(crate) ptr: NonNull<u8>,
    /// Length of the mapping, in bytes.
    pub(crate) mapped: usize,
    pub(crate) done: Arc<AtomicBool>,
}

// SAFETY: as for `View`, to whose mapping this points.
unsafe impl Send for Detach {}

impl Detach {
    /// Copies the bytes, so that the view no longer shares pages with the region; see
    /// [`View::detach`](crate::View::detach).
    pub(crate) fn run(&self) -> io::Result<()> {
        if self.done.load(Ordering::Acquire) {
            return Ok(());
        }
        let advise = |advice| {
            // SAFETY: exactly the mapping of a view, which stays mapped as long as the view is on the list of views.
            // The advice changes no visible byte.
            unsafe { madvise(self.ptr.as_ptr().cast(), self.mapped, advice) }
        };
        match advise(Advice::LinuxPopulateWrite) {
            // Linux before 5.14 does not know this advice.
            Err(Errno::INVAL) => self.write_each_page(),
            result => result?,
        }
        self.done.store(true, Ordering::Release);
        // Until now children did not inherit the mapping. If the kernel refuses, they still do not.
        let _ = advise(Advice::LinuxDoFork);
        Ok(())
    }

    /// Excludes the mapping from children.
    pub(crate) fn keep_from_children(&self) {
        // SAFETY: exactly the mapping of a view; the advice changes nothing here.
        let _ = unsafe { madvise(self.ptr.as_ptr().cast(), self.mapped, Advice::LinuxDontFork) };
    }

    /// Writes each page's own bytes back to it, which makes the kernel copy the page.
    pub(crate) fn write_each_page(&self) {
        let step = usize::try_from(page_bytes()).expect("a page fits in memory");
        for at in (0..self.mapped).step_by(step) {
            // SAFETY: within the mapping. Other threads access it through raw copies, and this changes no byte.
            let byte = unsafe { AtomicU8::from_ptr(self.ptr.as_ptr().add(at)) };
            let mut found = byte.load(Ordering::Relaxed);
            while let Err(other) =
                byte.compare_exchange_weak(found, found, Ordering::Relaxed, Ordering::Relaxed)
            {
                found = other;
            }
        }
    }
}
