//! The server of a node's data port: one thread for each connection, blocking, with a small stack.

mod accept;
mod connection;
mod drop;
mod inbox;
mod open_write;
mod read;
mod refuse;
mod registry;
mod welcome;
mod write;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use mooncake_types::BusyWait;
use socket2::SockRef;

use crate::SegmentHost;
use accept::Acceptor;
use registry::Registry;

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
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            cluster_id: String::new(),
            auth_token: String::new(),
            max_connections: 1024,
            busy_poll: BusyWait::DEFAULT_LIMIT,
        }
    }
}

/// Serves a node's data port. Dropping it stops it.
pub struct DataServer {
    address: SocketAddr,
    listener: Arc<TcpListener>,
    registry: Arc<Registry>,
    acceptor: Mutex<Option<JoinHandle<()>>>,
}

impl DataServer {
    /// Serves `listener` until [`DataServer::stop`] or drop.
    ///
    /// # Errors
    /// The system's, if it has no thread or descriptor.
    pub fn start(
        listener: TcpListener,
        host: Arc<dyn SegmentHost>,
        config: ServerConfig,
    ) -> io::Result<DataServer> {
        listener.set_nonblocking(false)?;
        let address = listener.local_addr()?;
        let listener = Arc::new(listener);
        let registry = Arc::new(Registry::default());
        let acceptor = Acceptor {
            listener: Arc::clone(&listener),
            registry: Arc::clone(&registry),
            host,
            config: Arc::new(config),
        };
        let thread = std::thread::Builder::new()
            .name("data-accept".into())
            .stack_size(accept::STACK_BYTES)
            .spawn(move || acceptor.run())?;
        Ok(DataServer { address, listener, registry, acceptor: Mutex::new(Some(thread)) })
    }

    /// Where it serves.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Closes all connections and returns when nothing of them is under way any more. Doing it again changes nothing.
    pub fn stop(&self) {
        self.registry.close();
        // Wakes the accepting thread; a listener that was shut down already is as good.
        let _ = SockRef::from(&*self.listener).shutdown(std::net::Shutdown::Both);
        let thread = self.acceptor.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // A thread that panicked has said so already.
            let _ = thread.join();
        }
        self.registry.join();
    }
}

impl Drop for DataServer {
    fn drop(&mut self) {
        self.stop();
    }
}
