use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use rustix::io::Errno;
use rustix::mm::{Advice, madvise};

use crate::foreign::page_bytes;

/// What it takes to detach a view, for as long as it is mapped.
#[derive(Debug)]
pub(crate) struct Detach {
    pub(crate) ptr: NonNull<u8>,
    /// Length of the mapping.
    pub(crate) mapped: usize,
    pub(crate) done: Arc<AtomicBool>,
}

// SAFETY: as for `View`, whose mapping this is about.
unsafe impl Send for Detach {}

impl Detach {
    /// Makes the bytes the view's own; see [`View::detach`](crate::View::detach).
    pub(crate) fn run(&self) -> io::Result<()> {
        if self.done.load(Ordering::Acquire) {
            return Ok(());
        }
        let advise = |advice| {
            // SAFETY: exactly the mapping of a view, which is there until the view has left the list of those that are; the
            // advice changes no byte that can be seen.
            unsafe { madvise(self.ptr.as_ptr().cast(), self.mapped, advice) }
        };
        match advise(Advice::LinuxPopulateWrite) {
            // Linux before 5.14.
            Err(Errno::INVAL) => self.write_each_page(),
            result => result?,
        }
        self.done.store(true, Ordering::Release);
        // It was kept from children for as long as it was not its own; if the system refuses, it still is.
        let _ = advise(Advice::LinuxDoFork);
        Ok(())
    }

    /// Keeps the mapping from children.
    pub(crate) fn keep_from_children(&self) {
        // SAFETY: exactly the mapping of a view; the advice changes nothing here.
        let _ = unsafe { madvise(self.ptr.as_ptr().cast(), self.mapped, Advice::LinuxDontFork) };
    }

    /// Has the system copy each page by writing to it what stands there.
    pub(crate) fn write_each_page(&self) {
        let step = usize::try_from(page_bytes()).expect("a page fits in memory");
        for at in (0..self.mapped).step_by(step) {
            // SAFETY: within the mapping; others access it through raw copies, and this changes no byte.
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
