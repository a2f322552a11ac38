use std::io::Read;
use std::os::fd::{AsRawFd, RawFd};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// A child of this process that does nothing until this is dropped.
pub(crate) struct Child(Pid);

impl Child {
    /// Returns when it has nothing more to do.
    pub(crate) fn make() -> Self {
        let (mut made, tell) = std::io::pipe().expect("a pipe");
        // SAFETY: the child only waits, for the signal that ends it.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // SAFETY: writes one byte, which is there.
            unsafe { libc::write(tell.as_raw_fd(), c"!".as_ptr().cast(), 1) };
            loop {
                // SAFETY: waits.
                unsafe { libc::pause() };
            }
        }
        assert!(pid > 0, "the system makes no child");
        made.read_exact(&mut [0]).expect("the child is there");
        Self(Pid::from_raw(pid).expect("the child's"))
    }

    /// What a number is a descriptor of in the child.
    pub(crate) fn descriptor(&self, number: RawFd) -> String {
        let link = format!("/proc/{}/fd/{number}", self.0.as_raw_pid());
        std::fs::read_link(link).map_or("nothing".to_owned(), |it| it.display().to_string())
    }

    /// Whether it has a file of that name mapped.
    pub(crate) fn maps(&self, name: &str) -> bool {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.0.as_raw_pid()));
        maps.expect("the child lives").contains(name)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It is this process's, and nobody else waits for it.
        let _ = kill_process(self.0, Signal::KILL);
        let _ = waitpid(Some(self.0), WaitOptions::empty());
    }
}
