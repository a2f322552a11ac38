use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use mooncake_memory::{Interest, poll_sockets, spawn_unpinned};

use super::attached_dummy::Guest;
use super::lines::{Line, Lines};
use super::{connection, socket_name};
use crate::Store;

/// Most connections of all dummies together.
const MAX_LINES: usize = 4096;

/// How long the thread that accepts connections rests after the system refused it one.
const REST: Duration = Duration::from_millis(100);

/// Longest wait for something to happen, after which one waits again.
const LONG: Duration = Duration::from_secs(3600);

/// How dummies are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DummyServerConfig {
    /// What the socket `@mooncake_client_<port>.sock` is named after.
    pub port: u16,
    /// Calls that are worked on at once, at least one; further ones wait.
    pub calls_at_once: usize,
    /// What dummies must show; empty if the cluster has no token.
    pub auth_token: String,
}

/// Serves the dummies of this host from a store: see [`crate::DummyStore`]. Dropping it stops it.
pub struct DummyServer {
    shared: Arc<Shared>,
    /// Closed to wake the thread that accepts connections.
    wake: Mutex<Option<UnixStream>>,
    accepting: Mutex<Option<JoinHandle<()>>>,
}

/// What all connections share.
pub(super) struct Shared {
    pub(super) store: Arc<Store>,
    pub(super) auth_token: String,
    pub(super) guests: Mutex<BTreeMap<u128, Arc<Guest>>>,
    pub(super) lines: Lines,
    permits: Mutex<usize>,
    permit_returned: Condvar,
}

impl DummyServer {
    /// Serves from now on, on threads of its own.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`] if another process of this host serves this port, or what the system says.
    pub fn start(store: Arc<Store>, config: DummyServerConfig) -> io::Result<DummyServer> {
        let name = SocketAddr::from_abstract_name(socket_name(config.port))?;
        let listener = UnixListener::bind_addr(&name)?;
        listener.set_nonblocking(true)?;
        let (wake, woken) = UnixStream::pair()?;
        let shared = Arc::new(Shared {
            store,
            auth_token: config.auth_token,
            guests: Mutex::default(),
            lines: Lines::default(),
            permits: Mutex::new(config.calls_at_once.max(1)),
            permit_returned: Condvar::new(),
        });
        let of_thread = Arc::clone(&shared);
        let accepting = Builder::new().name("mooncake-dummies".to_owned());
        let accepting = spawn_unpinned(accepting, move || accept(&of_thread, &listener, &woken))?;
        let accepting = Mutex::new(Some(accepting));
        Ok(DummyServer { shared, wake: Mutex::new(Some(wake)), accepting })
    }

    /// How many dummies are served now.
    #[must_use]
    pub fn guests(&self) -> usize {
        self.shared.guests().len()
    }

    /// Serves nobody any more. Calls that are under way are answered first.
    pub fn stop(&self) {
        drop(self.wake.lock().unwrap_or_else(PoisonError::into_inner).take());
        let accepting = self.accepting.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(accepting) = accepting {
            // A panic there has been reported.
            let _ = accepting.join();
        }
    }
}

impl Drop for DummyServer {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    pub(super) fn guests(&self) -> MutexGuard<'_, BTreeMap<u128, Arc<Guest>>> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work` when fewer calls are under way than may be.
    pub(super) fn in_turn<T>(&self, work: impl FnOnce() -> T) -> T {
        let permits = self.permits.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.permit_returned.wait_while(permits, |permits| *permits == 0);
        *waited.unwrap_or_else(PoisonError::into_inner) -= 1;
        // Given back also if `work` panics.
        let _permit = Permit(self);
        work()
    }

    /// A guest is gone, or is sent away: nothing of it stays once the calls under way have ended.
    pub(super) fn end(&self, guest: &Guest) {
        self.guests().remove(&guest.id);
        self.lines.cut_off(guest.id);
        guest.let_go();
    }
}

struct Permit<'a>(&'a Shared);

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        *self.0.permits.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.permit_returned.notify_one();
    }
}

/// Accepts connections until `woken` ends, and then waits for all of them to end.
fn accept(shared: &Arc<Shared>, listener: &UnixListener, woken: &UnixStream) {
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    loop {
        let read = Interest { read: true, write: false };
        let mut sockets = [(listener.as_fd(), read), (woken.as_fd(), read)];
        if let Err(error) = poll_sockets(&mut sockets, LONG) {
            tracing::warn!(%error, "dummy clients cannot be waited for");
            std::thread::sleep(REST);
        }
        if sockets[1].1.read {
            break;
        }
        threads.retain(|thread| !thread.is_finished());
        match listener.accept() {
            Ok((stream, _)) if threads.len() < MAX_LINES => {
                threads.extend(serve(shared, stream));
            }
            Ok(_) => tracing::warn!("more than {MAX_LINES} connections of dummy clients"),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => {
                tracing::warn!(%error, "a dummy client cannot be accepted");
                std::thread::sleep(REST);
            }
        }
    }
    shared.lines.close_all();
    for thread in threads {
        // A panic there has been reported and ended that connection only.
        let _ = thread.join();
    }
}

fn serve(shared: &Arc<Shared>, stream: UnixStream) -> Option<JoinHandle<()>> {
    let shared = Arc::clone(shared);
    let started = stream.set_nonblocking(false).and_then(|()| {
        let line = Line::open(&shared.lines, stream)?;
        let name = "mooncake-dummy".to_owned();
        let of_line = Arc::clone(&shared);
        spawn_unpinned(Builder::new().name(name), move || connection::serve(&of_line, &line))
    });
    started.inspect_err(|error| tracing::warn!(%error, "a dummy client cannot be served")).ok()
}

/// Something that becomes readable when a process has ended; `None` where the system has no such thing.
pub(super) fn watch(pid: i32) -> Option<OwnedFd> {
    let pid = rustix::process::Pid::from_raw(pid)?;
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_end_of_a_process_is_seen() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("it is there");
        let watched = watch(child.id().cast_signed()).expect("the system has this");
        let ready = |timeout| {
            let mut sockets = [(watched.as_fd(), Interest { read: true, write: false })];
            poll_sockets(&mut sockets, timeout).expect("it can be waited for");
            sockets[0].1.read
        };
        assert!(!ready(Duration::ZERO), "it waits for input");
        child.kill().expect("it runs");
        assert!(ready(Duration::from_secs(20)));
        child.wait().expect("it has ended");
        assert!(watch(0).is_none());
    }
}
