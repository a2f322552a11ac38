use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;

use mooncake_connection::tune;
use mooncake_memory::Private;
use mooncake_tls::{Protocol, Tls};
use mooncake_wire::LocalSocket;
use socket2::SockRef;

use super::ServerConfig;
use super::connection::Origin;
use crate::LocalListener;

/// Where connections to a [`DataServer`](crate::DataServer) come in.
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
pub(super) struct Listeners {
    /// The address of the port, if there is one.
    pub(super) address: Option<SocketAddr>,
    pub(super) listeners: Vec<Listener>,
    pub(super) local_socket: Option<LocalSocket>,
}

impl Listeners {
    pub(super) fn open(listener: DataListener, config: &ServerConfig) -> io::Result<Self> {
        let wants_local = config.local_socket;
        let mut opened = Self { address: None, listeners: Vec::new(), local_socket: None };
        let local = match listener {
            DataListener::Port(port) => {
                port.set_nonblocking(false)?;
                opened.address = Some(port.local_addr()?);
                opened.listeners.push(Listener::Tcp(Private::new(port), config.tls.clone()));
                wants_local.then(LocalListener::open)
            }
            DataListener::Local(local) => Some(Ok(local)),
        };
        match local {
            Some(Ok(LocalListener { listener, socket })) => {
                opened.listeners.push(Listener::Local(listener));
                opened.local_socket = wants_local.then_some(socket);
            }
            Some(Err(error)) => tracing::info!(%error, "processes of this host come by TCP"),
            None => {}
        }
        Ok(opened)
    }
}

/// Where connections come in.
pub(super) enum Listener {
    /// A port, whose connections are encrypted if there are certificates.
    Tcp(Private<TcpListener>, Option<Tls>),
    Local(Private<UnixListener>),
}

impl Listener {
    /// The next connection. Both kinds are `TcpStream`s: the calls made on them work on any socket.
    pub(super) fn accept(&self) -> io::Result<(Private<TcpStream>, Origin)> {
        match self {
            Listener::Tcp(listener, tls) => {
                let stream = Private::new(listener.accept()?.0);
                tune(&stream)?;
                let stream = match tls {
                    Some(tls) => tls.accept(stream, Protocol::FramesOrGrpc)?,
                    None => stream,
                };
                Ok((stream, Origin::Tcp))
            }
            Listener::Local(listener) => {
                let stream = Private::new(listener.accept()?.0);
                Ok((stream.convert::<OwnedFd>().convert(), Origin::Local))
            }
        }
    }

    /// Wakes the threads that accept. An error means that the listener was shut down already.
    pub(super) fn shut_down(&self) {
        let _ = match self {
            Listener::Tcp(listener, _) => SockRef::from(listener).shutdown(Shutdown::Both),
            Listener::Local(listener) => SockRef::from(listener).shutdown(Shutdown::Both),
        };
    }
}
