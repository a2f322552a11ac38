use std::collections::BTreeMap;
use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// All open connections of dummies, so that they can be closed from outside.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines {
    open: Arc<Mutex<Open>>,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    closing: bool,
    /// The socket, and whose it is once that is known.
    lines: BTreeMap<u64, (UnixStream, Option<u128>)>,
}

/// One connection; forgotten when dropped.
pub(super) struct Line {
    pub(super) stream: UnixStream,
    number: u64,
    lines: Lines,
}

impl Line {
    pub(super) fn open(lines: &Lines, stream: UnixStream) -> io::Result<Self> {
        let handle = stream.try_clone()?;
        let mut open = lines.lock();
        let number = open.next;
        open.next += 1;
        open.lines.insert(number, (handle, None));
        drop(open);
        Ok(Self { stream, number, lines: lines.clone() })
    }

    /// Says whose connection it is; false if there is no room for it, or all are being closed.
    pub(super) fn belongs_to(&self, guest: u128, most: usize) -> bool {
        let mut open = self.lines.lock();
        let taken = open.lines.values().filter(|(_, of)| *of == Some(guest)).count();
        if taken >= most || open.closing {
            return false;
        }
        if let Some((_, of)) = open.lines.get_mut(&self.number) {
            *of = Some(guest);
        }
        true
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.lines.lock().lines.remove(&self.number);
    }
}

impl Lines {
    /// Closes all connections of a guest at once.
    pub(super) fn cut_off(&self, guest: u128) {
        for (stream, _) in self.lock().lines.values().filter(|(_, of)| *of == Some(guest)) {
            // It may be closed already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Lets every connection send its answer and then end; none begins any more.
    pub(super) fn close_all(&self) {
        let mut open = self.lock();
        open.closing = true;
        for (stream, _) in open.lines.values() {
            // It may be closed already.
            let _ = stream.shutdown(Shutdown::Read);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
