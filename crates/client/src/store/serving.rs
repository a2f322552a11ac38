use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mooncake_transfer::{DataListener, DataServer, SegmentHost, ServerConfig};

use crate::bind::HeldSocket;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1024;

/// The port or local socket of this process. It is only held, so that its hostname is unique, until there is
/// something to serve.
pub(super) struct Serving {
    host: Arc<dyn SegmentHost>,
    config: ServerConfig,
    port: Mutex<Port>,
}

enum Port {
    Held(HeldSocket),
    Served(DataServer),
    Left,
}

impl Serving {
    pub(super) fn hold(port: HeldSocket, host: Arc<dyn SegmentHost>, config: ServerConfig) -> Self {
        Self { host, config, port: Mutex::new(Port::Held(port)) }
    }

    /// Starts to serve, if it does not yet.
    ///
    /// # Errors
    /// The system's error; the port stays held. After [`Serving::stop`] it is `NotConnected`.
    pub(super) fn start(&self) -> io::Result<()> {
        let mut port = self.lock();
        let listener: DataListener = match &*port {
            Port::Held(HeldSocket::Port(socket)) => {
                let socket = socket.try_clone()?;
                // A port that was bound to be served listens already. To listen again changes nothing.
                socket.listen(BACKLOG)?;
                DataListener::Port(socket.into())
            }
            Port::Held(HeldSocket::Local(socket)) => DataListener::Local(socket.try_clone()?),
            Port::Served(_) => return Ok(()),
            Port::Left => return Err(io::ErrorKind::NotConnected.into()),
        };
        let server = DataServer::start(listener, Arc::clone(&self.host), self.config.clone())?;
        *port = Port::Served(server);
        Ok(())
    }

    /// Stops serving, and releases the port.
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
