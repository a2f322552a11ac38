//! The server of a node's data port: one thread for each connection, blocking, with a small stack, and started before it
//! comes.

mod accept;
mod connection;
mod drop;
mod follow;
mod in_place;
mod inbox;
mod keepalive;
mod open_write;
mod pin;
mod promise;
mod read;
mod refuse;
mod registry;
mod served;
mod share;
mod welcome;
mod write;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use mooncake_memory::{Private, spawn_unpinned};
use mooncake_types::BusyWait;
use mooncake_wire::LocalSocket;

use crate::{LocalListener, SegmentHost};
#[cfg(test)]
pub(crate) use accept::STARTS;
use accept::{Acceptor, Listener};
use keepalive::Keepalives;
use registry::Registry;
pub use served::{Served, ServedWay};

/// How long a peer that looks at memory of the node may take to copy it when the server stops.
const RELEASE_PATIENCE: Duration = Duration::from_secs(2);

/// How a [`DataServer`] behaves.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The pool that the node belongs to; clients of another are refused.
    pub cluster_id: String,
    /// The secret that members of the pool share; empty if there is none.
    pub auth_token: String,
    /// Most connections at a time; further ones are refused.
    pub max_connections: usize,
    /// How long to look for the next request before sleeping for it (see [`mooncake_memory::Watch`]); zero: not at
    /// all.
    pub busy_poll: Duration,
    /// Whether processes of the same user on this host are told of a Unix socket, and have the memory shared with them.
    pub local_socket: bool,
    /// Where the server counts what it sends.
    pub served: Arc<Served>,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            cluster_id: String::new(),
            auth_token: String::new(),
            max_connections: 1024,
            busy_poll: BusyWait::DEFAULT_LIMIT,
            local_socket: true,
            served: Arc::default(),
        }
    }
}

/// What all connections of a server share.
struct Site {
    host: Arc<dyn SegmentHost>,
    config: ServerConfig,
    /// What peers are told to find the local socket by, if there is one.
    local_socket: Option<LocalSocket>,
    keepalives: Arc<Keepalives>,
}

/// Where connections to a [`DataServer`] come in.
#[derive(Debug)]
pub enum DataListener {
    /// A port, and a local socket beside it if the configuration says so and the system has one.
    Port(TcpListener),
    /// A local socket and nothing else.
    Local(LocalListener),
}

impl From<TcpListener> for DataListener {
    fn from(port: TcpListener) -> Self {
        Self::Port(port)
    }
}

impl From<LocalListener> for DataListener {
    fn from(local: LocalListener) -> Self {
        Self::Local(local)
    }
}

/// The listeners of a server.
struct Doors {
    /// Of the port, if there is one.
    address: Option<SocketAddr>,
    listeners: Vec<Listener>,
    local_socket: Option<LocalSocket>,
}

impl Doors {
    fn open(listener: DataListener, wants_local: bool) -> io::Result<Self> {
        let mut doors = Self { address: None, listeners: Vec::new(), local_socket: None };
        let local = match listener {
            DataListener::Port(port) => {
                port.set_nonblocking(false)?;
                doors.address = Some(port.local_addr()?);
                doors.listeners.push(Listener::Tcp(Private::new(port)));
                wants_local.then(LocalListener::open)
            }
            DataListener::Local(local) => Some(Ok(local)),
        };
        match local {
            Some(Ok(LocalListener { listener, socket })) => {
                doors.listeners.push(Listener::Local(listener));
                doors.local_socket = wants_local.then_some(socket);
            }
            Some(Err(error)) => tracing::info!(%error, "processes of this host come by TCP"),
            None => {}
        }
        Ok(doors)
    }
}

/// Serves a node's data port. Dropping it stops it.
pub struct DataServer {
    address: Option<SocketAddr>,
    acceptors: Vec<Arc<Acceptor>>,
    registry: Arc<Registry>,
    keepalives: Arc<Keepalives>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl DataServer {
    /// Serves `listener` until [`DataServer::stop`] or drop.
    ///
    /// # Errors
    /// The system's, if it has no thread or descriptor.
    pub fn start(
        listener: impl Into<DataListener>,
        host: Arc<dyn SegmentHost>,
        config: ServerConfig,
    ) -> io::Result<DataServer> {
        let doors = Doors::open(listener.into(), config.local_socket)?;
        let Doors { address, listeners, local_socket } = doors;
        let registry = Arc::new(Registry::default());
        let keepalives = Arc::<Keepalives>::default();
        let mut server = DataServer {
            address,
            acceptors: Vec::new(),
            registry,
            keepalives: Arc::clone(&keepalives),
            threads: Mutex::default(),
        };
        let site = Arc::new(Site { host, config, local_socket, keepalives });
        for listener in listeners {
            let acceptor = Arc::new(Acceptor::new(listener, &server.registry, &site));
            server.acceptors.push(Arc::clone(&acceptor));
            acceptor.begin()?;
            let thread = Builder::new().name("data-accept".into()).stack_size(accept::STACK_BYTES);
            server.threads().push(spawn_unpinned(thread, move || acceptor.run())?);
        }
        Ok(server)
    }

    fn threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The port that it serves.
    ///
    /// # Panics
    /// It serves a local socket and nothing else.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address.expect("it was given a port")
    }

    /// Closes all connections and returns when nothing of them is under way any more. A peer that looks at memory of this
    /// node has two seconds to take copies; what one that does not has pinned is never given back. Doing it again changes
    /// nothing.
    pub fn stop(&self) {
        self.registry.close();
        self.acceptors.iter().for_each(|acceptor| acceptor.shut_down());
        let threads = std::mem::take(&mut *self.threads());
        for thread in threads {
            // A thread that panicked has said so already.
            let _ = thread.join();
        }
        self.registry.sever_after(RELEASE_PATIENCE);
        self.registry.join();
        self.keepalives.stop();
    }
}

impl Drop for DataServer {
    fn drop(&mut self) {
        self.stop();
    }
}
