use mooncake_types::Secret;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use mooncake_connection::{Connection, listen_locally};
use mooncake_memory::{Interest, Private, poll_sockets, spawn_unpinned};

use super::attach::HELLO_TIMEOUT;
use super::attached_dummies::AttachedDummies;
use super::connection;
use super::socket_name::socket_name;
use mooncake_client::Store;

/// Most connections of all dummies together.
const MAX_CONNECTIONS: usize = 4096;

/// Pause of the thread that accepts connections, after the system refused it one.
const REST: Duration = Duration::from_millis(100);

/// Settings of a [`DummyServer`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DummyServerConfig {
    /// The port in the name of the socket, `@mooncake_client_<port>.sock`.
    pub port: u16,
    /// Calls that run at the same time, at least one; further ones wait.
    pub calls_at_once: usize,
    /// The token that dummies must send; empty if the cluster has none.
    pub auth_token: Secret,
}

/// Serves the dummies of this host from a store: see [`crate::DummyStore`]. Dropping it stops it.
pub struct DummyServer {
    dummies: Arc<AttachedDummies>,
    /// Dropped to wake the thread that accepts connections.
    wake: Mutex<Option<UnixStream>>,
    accepting: Mutex<Option<JoinHandle<()>>>,
}

impl DummyServer {
    /// Starts to serve, on threads of its own.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`] if another process of this host serves this port, or the system's error.
    pub fn start(store: Arc<Store>, config: DummyServerConfig) -> io::Result<DummyServer> {
        let listener = listen_locally(&socket_name(config.port))?;
        listener.set_nonblocking(true)?;
        let (wake, woken) = UnixStream::pair()?;
        let dummies = AttachedDummies::new(store, config.auth_token, config.calls_at_once);
        let dummies = Arc::new(dummies);
        let of_thread = Arc::clone(&dummies);
        let accepting = Builder::new().name("mooncake-dummies".to_owned());
        let accepting = spawn_unpinned(accepting, move || accept(&of_thread, &listener, &woken))?;
        let accepting = Mutex::new(Some(accepting));
        Ok(DummyServer { dummies, wake: Mutex::new(Some(wake)), accepting })
    }

    /// How many dummies are attached now.
    #[must_use]
    pub fn attached(&self) -> usize {
        self.dummies.lock().len()
    }

    /// Stops serving, after the calls under way were answered.
    pub fn stop(&self) {
        drop(self.wake.lock().unwrap_or_else(PoisonError::into_inner).take());
        let accepting = self.accepting.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(accepting) = accepting {
            // A panic there was reported already.
            let _ = accepting.join();
        }
    }
}

impl Drop for DummyServer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Accepts connections until `woken` ends. Then ends all connections, and waits for that.
fn accept(dummies: &Arc<AttachedDummies>, listener: &UnixListener, woken: &UnixStream) {
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    loop {
        let read = Interest { read: true, write: false };
        let mut sockets = [(listener.as_fd(), read), (woken.as_fd(), read)];
        if let Err(error) = poll_sockets(&mut sockets, Duration::MAX) {
            tracing::warn!(%error, "dummy clients cannot be waited for");
            std::thread::sleep(REST);
            // It is unknown which socket is ready.
            continue;
        }
        if sockets[1].1.read {
            break;
        }
        threads.retain(|thread| !thread.is_finished());
        match listener.accept() {
            Ok((stream, _)) if threads.len() < MAX_CONNECTIONS => {
                threads.extend(serve(dummies, stream));
            }
            Ok(_) => tracing::warn!("more than {MAX_CONNECTIONS} connections of dummy clients"),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => {
                tracing::warn!(%error, "a dummy client cannot be accepted");
                std::thread::sleep(REST);
            }
        }
    }
    dummies.connections.close_all();
    for thread in threads {
        // A panic there was reported already, and ended only that connection.
        let _ = thread.join();
    }
}

fn serve(dummies: &Arc<AttachedDummies>, stream: UnixStream) -> Option<JoinHandle<()>> {
    let dummies = Arc::clone(dummies);
    let started = stream.set_nonblocking(false).and_then(|()| {
        let stream = Private::new(OwnedFd::from(stream)).convert();
        let mut connection = Connection::new(stream, HELLO_TIMEOUT, Duration::ZERO)?;
        let thread = Builder::new().name("mooncake-dummy".to_owned());
        spawn_unpinned(thread, move || connection::serve(&dummies, &mut connection))
    });
    started.inspect_err(|error| tracing::warn!(%error, "a dummy client cannot be served")).ok()
}
