use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mooncake_transfer::{DataServer, SegmentHost, ServerConfig};
use socket2::Socket;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1024;

/// The port of this process: only held, so that its hostname is its own, until there is something to serve.
pub(super) struct Serving {
    host: Arc<dyn SegmentHost>,
    config: ServerConfig,
    port: Mutex<Port>,
}

enum Port {
    Held(Socket),
    Served(DataServer),
    Left,
}

impl Serving {
    pub(super) fn hold(port: Socket, host: Arc<dyn SegmentHost>, config: ServerConfig) -> Self {
        Self { host, config, port: Mutex::new(Port::Held(port)) }
    }

    /// Serves from now on, if it does not yet.
    ///
    /// # Errors
    /// What the system says; the port stays held. After [`Serving::stop`] it is `NotConnected`.
    pub(super) fn start(&self) -> io::Result<()> {
        let mut port = self.lock();
        let socket = match &*port {
            Port::Held(socket) => socket.try_clone()?,
            Port::Served(_) => return Ok(()),
            Port::Left => return Err(io::ErrorKind::NotConnected.into()),
        };
        // A port that was bound to be served listens already; saying so again changes nothing.
        socket.listen(BACKLOG)?;
        let server = DataServer::start(socket.into(), Arc::clone(&self.host), self.config.clone())?;
        *port = Port::Served(server);
        Ok(())
    }

    /// Serves nobody any more, and gives the port back.
    pub(super) fn stop(&self) {
        let port = std::mem::replace(&mut *self.lock(), Port::Left);
        if let Port::Served(server) = port {
            server.stop();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Port> {
        self.port.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
