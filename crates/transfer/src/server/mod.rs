//! The server of a node's data port. Each connection has a blocking thread with a small stack, which starts before
//! the connection comes.

mod accept;
mod connection;
mod drop;
mod far_read;
mod far_write;
mod follow;
mod gate;
mod held_pins;
mod in_place;
mod keepalive;
mod listeners;
mod overdue_pins;
mod pin;
mod promise;
mod read;
mod read_reply;
mod receiver;
mod refuse;
mod registry;
mod served;
mod server_config;
mod server_context;
mod service;
mod share;
mod welcome;
mod write;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use mooncake_memory::spawn_unpinned;

use crate::SegmentHost;
use accept::Acceptor;
#[cfg(test)]
pub(crate) use accept::STARTS;
use connection::STACK_BYTES;
use keepalive::Keepalives;
pub use listeners::DataListener;
use listeners::Listeners;
use registry::Registry;
pub use served::{Served, ServedWay};
pub use server_config::ServerConfig;
use server_context::ServerContext;

/// How long a peer that views memory of the node may take to copy it when the server stops.
const RELEASE_PATIENCE: Duration = Duration::from_secs(2);

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
    /// The system's error, if it has no thread or descriptor.
    pub fn start(
        listener: impl Into<DataListener>,
        host: Arc<dyn SegmentHost>,
        config: ServerConfig,
    ) -> io::Result<DataServer> {
        let opened = Listeners::open(listener.into(), &config)?;
        let Listeners { address, listeners, local_socket } = opened;
        let registry = Arc::new(Registry::new(config.max_connections));
        let keepalives = Arc::<Keepalives>::default();
        let mut server = DataServer {
            address,
            acceptors: Vec::new(),
            registry,
            keepalives: Arc::clone(&keepalives),
            threads: Mutex::default(),
        };
        let overdue = Arc::default();
        let context = Arc::new(ServerContext { host, config, local_socket, keepalives, overdue });
        for listener in listeners {
            let acceptor = Arc::new(Acceptor::new(listener, &server.registry, &context));
            server.acceptors.push(Arc::clone(&acceptor));
            acceptor.begin()?;
            let thread = Builder::new().name("data-accept".into()).stack_size(STACK_BYTES);
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

    /// Closes all connections, and returns when none of them does any work. A peer that views memory of this node has
    /// two seconds to copy it. If it does not, the memory that it pinned is never freed. A second call changes
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
        self.registry.wait();
        self.keepalives.stop();
    }
}

impl Drop for DataServer {
    fn drop(&mut self) {
        self.stop();
    }
}
