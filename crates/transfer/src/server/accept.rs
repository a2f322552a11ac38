use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use mooncake_types::ErrorCode;
use mooncake_wire::Refusal;

use super::connection::{Connection, Service};
use super::registry::{Membership, Registry};
use super::{ServerConfig, refuse};
use crate::{SegmentHost, stream};

/// Stack of a thread that serves one connection; its buffers are on the heap.
pub(super) const STACK_BYTES: usize = 256 << 10;

/// Connections beyond the limit that are told so at a time; further ones are just closed.
const MAX_REFUSING: usize = 32;

/// How long to wait when the system has no descriptor or thread left for another connection.
const BACK_OFF: Duration = Duration::from_millis(20);

/// The thread that lets connections in.
pub(super) struct Acceptor {
    pub(super) listener: Arc<TcpListener>,
    pub(super) registry: Arc<Registry>,
    pub(super) host: Arc<dyn SegmentHost>,
    pub(super) config: Arc<ServerConfig>,
}

impl Acceptor {
    pub(super) fn run(self) {
        while !self.registry.is_closed() {
            match self.listener.accept() {
                Ok((stream, peer)) => {
                    if let Err(error) = self.admit(stream) {
                        tracing::warn!(%peer, %error, "a connection could not be served");
                    }
                }
                Err(error) if is_passing(&error) => {}
                Err(error) => {
                    if self.registry.is_closed() {
                        return;
                    }
                    tracing::warn!(%error, "no connection can be accepted now");
                    std::thread::sleep(BACK_OFF);
                }
            }
        }
    }

    fn admit(&self, stream: TcpStream) -> io::Result<()> {
        stream::tune(&stream)?;
        let open = self.registry.open();
        if open >= self.config.max_connections.saturating_add(MAX_REFUSING) {
            return Err(io::Error::other("too many connections"));
        }
        let connection = Arc::new(Connection::new(stream));
        let Some(membership) = self.registry.enter(&connection) else { return Ok(()) };
        let is_full = open >= self.config.max_connections;
        let thread = self.spawn(connection, membership, is_full)?;
        self.registry.keep(thread);
        Ok(())
    }

    fn spawn(
        &self,
        connection: Arc<Connection>,
        membership: Membership,
        is_full: bool,
    ) -> io::Result<std::thread::JoinHandle<()>> {
        let (host, config) = (Arc::clone(&self.host), Arc::clone(&self.config));
        let serve = move || {
            let _membership = membership;
            if is_full {
                let message =
                    format!("the node serves {} connections already", config.max_connections);
                let code = ErrorCode::UnavailableInCurrentStatus;
                refuse::refuse(connection.stream(), 0, &Refusal { code, message });
            } else {
                Service::new(connection, host, config).run();
            }
        };
        std::thread::Builder::new().name("data".into()).stack_size(STACK_BYTES).spawn(serve)
    }
}

/// Errors of one connection that ended before it was let in.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, WouldBlock};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted | WouldBlock)
}
