use std::io::Read;
use std::os::fd::{AsRawFd, RawFd};

/// A child of this process that does nothing until this is dropped.
pub(crate) struct Child(libc::pid_t);

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
        Self(pid)
    }

    /// What a number is a descriptor of in the child.
    pub(crate) fn descriptor(&self, number: RawFd) -> String {
        let link = format!("/proc/{}/fd/{number}", self.0);
        std::fs::read_link(link).map_or("nothing".to_owned(), |it| it.display().to_string())
    }

    /// Whether it has a file of that name mapped.
    pub(crate) fn maps(&self, name: &str) -> bool {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.0));
        maps.expect("the child lives").contains(name)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: a child of this process that nobody else waits for.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, std::ptr::null_mut(), 0);
        }
    }
}
