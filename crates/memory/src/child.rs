use std::io::Read;
use std::os::fd::{AsRawFd, RawFd};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// A forked child process that does nothing. Dropping this kills it.
pub(crate) struct Child(Pid);

impl Child {
    /// Forks the child, and returns once it runs.
    pub(crate) fn make() -> Self {
        let (mut made, tell) = std::io::pipe().expect("a pipe");
        // SAFETY: the child makes only the system calls below, until a signal kills it.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // SAFETY: writes one byte of a constant.
            unsafe { libc::write(tell.as_raw_fd(), c"!".as_ptr().cast(), 1) };
            loop {
                // SAFETY: blocks until a signal arrives; no memory is involved.
                unsafe { libc::pause() };
            }
        }
        assert!(pid > 0, "the system makes no child");
        made.read_exact(&mut [0]).expect("the child is there");
        Self(Pid::from_raw(pid).expect("the child's"))
    }

    /// What the descriptor of this number refers to in the child.
    pub(crate) fn descriptor(&self, number: RawFd) -> String {
        let link = format!("/proc/{}/fd/{number}", self.0.as_raw_pid());
        std::fs::read_link(link).map_or("nothing".to_owned(), |it| it.display().to_string())
    }

    /// Whether the child has a file of this name mapped.
    pub(crate) fn maps(&self, name: &str) -> bool {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.0.as_raw_pid()));
        maps.expect("the child lives").contains(name)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Nothing else waits for this child, so its pid is still its own.
        let _ = kill_process(self.0, Signal::KILL);
        let _ = waitpid(Some(self.0), WaitOptions::empty());
    }
}
