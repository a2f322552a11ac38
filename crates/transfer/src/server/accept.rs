use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Duration;

use mooncake_memory::Private;
use mooncake_types::ErrorCode;
use mooncake_wire::Refusal;
use socket2::SockRef;

use super::connection::{Connection, Origin, Service};
use super::registry::{Membership, Registry};
use super::{Site, refuse};
use crate::{local_socket, stream};

/// Stack of a thread that serves one connection; its buffers are on the heap.
pub(super) const STACK_BYTES: usize = 256 << 10;

/// Connections beyond the limit that are told so at a time; further ones are just closed.
const MAX_REFUSING: usize = 32;

/// How long to wait when the system has no descriptor or thread left for another connection.
const BACK_OFF: Duration = Duration::from_millis(20);

/// Where connections come in.
pub(super) enum Listener {
    Tcp(Private<TcpListener>),
    Local(Private<UnixListener>),
}

impl Listener {
    /// The next connection. The standard library's TCP stream does for any socket what is done here with it.
    fn accept(&self) -> io::Result<(Private<TcpStream>, Origin)> {
        match self {
            Listener::Tcp(listener) => {
                let stream = Private::new(listener.accept()?.0);
                stream::tune(&stream)?;
                Ok((stream, Origin::Tcp))
            }
            Listener::Local(listener) => {
                let stream = Private::new(listener.accept()?.0);
                Ok((stream.convert::<OwnedFd>().convert(), Origin::Local))
            }
        }
    }

    /// Wakes the thread that accepts; a listener that was shut down already is as good.
    pub(super) fn shut_down(&self) {
        let _ = match self {
            Listener::Tcp(listener) => SockRef::from(listener).shutdown(Shutdown::Both),
            Listener::Local(listener) => SockRef::from(listener).shutdown(Shutdown::Both),
        };
    }
}

/// The thread that lets connections in.
pub(super) struct Acceptor {
    pub(super) listener: Arc<Listener>,
    pub(super) registry: Arc<Registry>,
    pub(super) site: Arc<Site>,
}

impl Acceptor {
    pub(super) fn run(self) {
        while !self.registry.is_closed() {
            match self.listener.accept() {
                Ok((stream, origin)) => {
                    if let Err(error) = self.admit(stream, origin) {
                        tracing::warn!(?origin, %error, "a connection could not be served");
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

    fn admit(&self, stream: Private<TcpStream>, origin: Origin) -> io::Result<()> {
        let (open, most) = (self.registry.open(), self.site.config.max_connections);
        if open >= most.saturating_add(MAX_REFUSING) {
            return Err(io::Error::other("too many connections"));
        }
        let refusal = if open >= most {
            let message = format!("the node serves {most} connections already");
            Some(Refusal { code: ErrorCode::UnavailableInCurrentStatus, message })
        } else if origin == Origin::Local {
            local_socket::check_user(stream.as_fd()).err().map(|stranger| Refusal {
                code: ErrorCode::IllegalClient,
                message: stranger.to_string(),
            })
        } else {
            None
        };
        let connection = Arc::new(Connection::new(stream, origin));
        let Some(membership) = self.registry.enter(&connection) else { return Ok(()) };
        let thread = self.spawn(connection, membership, refusal)?;
        self.registry.keep(thread);
        Ok(())
    }

    fn spawn(
        &self,
        connection: Arc<Connection>,
        membership: Membership,
        refusal: Option<Refusal>,
    ) -> io::Result<std::thread::JoinHandle<()>> {
        let site = Arc::clone(&self.site);
        let serve = move || {
            let _membership = membership;
            match refusal {
                Some(refusal) => {
                    tracing::info!(%refusal, "a connection is refused");
                    refuse::refuse(connection.stream(), 0, &refusal);
                }
                None => Service::new(connection, site).run(),
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
