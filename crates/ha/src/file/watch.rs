//! Waits for events in a folder, without polling it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use mooncake_memory::{Interest, Private, poll_sockets};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

/// Receives the events of a folder: files are created or removed, or their writers close them. A writer that dies
/// closes its files too.
#[derive(Debug)]
pub(super) struct FolderWatch(Private<OwnedFd>);

impl FolderWatch {
    /// Begins to watch.
    ///
    /// # Errors
    /// The system's: there is no folder, or the user has too many watches.
    pub(super) fn begin(folder: &Path) -> io::Result<Self> {
        let flags = CreateFlags::CLOEXEC | CreateFlags::NONBLOCK;
        let watch = Private::open(|| inotify::init(flags))?;
        let events = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_TO
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF;
        inotify::add_watch(&*watch, folder, events)?;
        Ok(Self(watch))
    }

    /// Waits for the first event, for at most `most`. Returns whether there was one.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn wait(&self, most: Duration) -> io::Result<bool> {
        let mut watched = [(self.0.as_fd(), Interest { read: true, write: false })];
        poll_sockets(&mut watched, most)?;
        Ok(watched[0].1.read)
    }
}
