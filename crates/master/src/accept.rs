//! Accepts connections, from a port or from a local socket.

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use mooncake_connection::TrustedUsers;
use mooncake_memory::{Private, PrivateWhile};
use mooncake_tls::{Protocol, Tls};
use mooncake_types::{LogLimiter, descriptor_remedy};
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::time::sleep;
use tracing::{debug, warn};

use crate::bind::RpcSocket;

/// A socket that the master accepts connections from.
pub(crate) enum Listener {
    /// A port, whose connections are encrypted if there are certificates.
    Tcp(TcpListener, Option<Tls>),
    Local {
        /// Dropped first. It keeps the name from child processes, which may outlive this one.
        _private: PrivateWhile,
        socket: UnixListener,
    },
}

/// Where a connection comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    Tcp(SocketAddr),
    /// A process of this host and user.
    Local,
}

impl Peer {
    /// The host of the peer, unless it is this one.
    pub(crate) fn host(self) -> Option<IpAddr> {
        match self {
            Peer::Tcp(address) => Some(address.ip()),
            Peer::Local => None,
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Tcp(address) => address.fmt(f),
            Peer::Local => f.write_str("a process of this host"),
        }
    }
}

impl Listener {
    /// Begins to listen on the thread's runtime.
    pub(crate) fn begin(socket: RpcSocket, tls: Option<Tls>) -> io::Result<Self> {
        match socket {
            RpcSocket::Port(port) => Ok(Self::Tcp(TcpListener::from_std(port)?, tls)),
            RpcSocket::Local { private, listener, .. } => {
                listener.set_nonblocking(true)?;
                Ok(Self::Local { _private: private, socket: UnixListener::from_std(listener)? })
            }
        }
    }

    async fn next(&self, no_delay: bool) -> io::Result<(Peer, io::Result<TcpStream>)> {
        match self {
            Listener::Tcp(port, tls) => {
                let (stream, peer) = port.accept().await?;
                let stream =
                    prepare(&stream, no_delay).and_then(|()| secured(stream, tls.as_ref()));
                Ok((Peer::Tcp(peer), stream))
            }
            Listener::Local { socket, .. } => {
                let stream = socket.accept().await?.0;
                let trusted = TrustedUsers::Own.check(stream.as_fd()).map_err(io::Error::other);
                Ok((Peer::Local, trusted.and_then(|()| local_stream(stream))))
            }
        }
    }
}

/// The connection, encrypted if there are certificates. Its handshake goes on while the connection is served.
fn secured(stream: TcpStream, tls: Option<&Tls>) -> io::Result<TcpStream> {
    let Some(tls) = tls else { return Ok(stream) };
    let plain = tls.accept(Private::new(stream.into_std()?), Protocol::FramesOrGrpc)?;
    plain.set_nonblocking(true)?;
    // Whoever serves the connection keeps it from children.
    plain.hand_over(TcpStream::from_std).map(|(_, plain)| plain)
}

/// A local connection as a `TcpStream`, whose calls used here work on any socket.
pub(crate) fn local_stream(stream: UnixStream) -> io::Result<TcpStream> {
    let descriptor: OwnedFd = stream.into_std()?.into();
    TcpStream::from_std(descriptor.into())
}

/// Waits for the next connection that can be served.
pub(crate) async fn accept(listener: &Listener, no_delay: bool) -> (TcpStream, Peer) {
    loop {
        match listener.next(no_delay).await {
            Ok((peer, Ok(stream))) => return (stream, peer),
            Ok((peer, Err(error))) => debug!(%peer, %error, "lost before it was served"),
            Err(error) => {
                static SAID: LogLimiter<ErrorKind> = LogLimiter::new();
                if let Some(further) = SAID.admit(error.kind(), Instant::now()) {
                    let remedy = descriptor_remedy(error.raw_os_error());
                    warn!(%error, further, "cannot accept a connection{remedy}");
                }
                // Most likely no file descriptors are left. They are freed as connections end.
                sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// Sets the options of a connection. The kernel notices a vanished host within 15 seconds.
fn prepare(stream: &TcpStream, no_delay: bool) -> io::Result<()> {
    stream.set_nodelay(no_delay)?;
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(5))
        .with_interval(Duration::from_secs(2))
        .with_retries(5);
    SockRef::from(stream).set_tcp_keepalive(&keepalive)
}
