use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};

use socket2::{Domain, Protocol, Socket, Type};
use thiserror::Error;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 4096;

/// Why an address cannot be listened on.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ListenError {
    /// The name of the host means nothing.
    #[error("cannot resolve {host}: {reason}")]
    Unresolved {
        /// The name.
        host: String,
        /// What the resolver said.
        reason: String,
    },
    /// Another process listens there.
    #[error("port {port} on {host} is taken by another process")]
    Taken {
        /// The host.
        host: String,
        /// The port.
        port: u16,
    },
    /// The address cannot be used for another reason.
    #[error("cannot listen on {host}, port {port}: {reason}")]
    Refused {
        /// The host.
        host: String,
        /// The port.
        port: u16,
        /// What the system said.
        reason: String,
    },
}

/// Takes a port; 0 stands for any free one. Connections wait from here on until somebody accepts them. The socket
/// does not block.
///
/// # Errors
/// The host has no address, or its port cannot be had.
pub fn listen(host: &str, port: u16) -> Result<TcpListener, ListenError> {
    let unresolved = |reason: String| ListenError::Unresolved { host: host.to_owned(), reason };
    let address = (host, port)
        .to_socket_addrs()
        .map_err(|error| unresolved(error.to_string()))?
        .next()
        .ok_or_else(|| unresolved("the name has no address".to_owned()))?;
    bind(address).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => ListenError::Taken { host: host.to_owned(), port },
        _ => ListenError::Refused { host: host.to_owned(), port, reason: error.to_string() },
    })
}

/// Address reuse lets a server start at once where its predecessor's connections still linger.
fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_listened_on_is_named() {
        let first = listen("127.0.0.1", 0).expect("a free port");
        let port = first.local_addr().expect("bound").port();
        let taken = listen("127.0.0.1", port).expect_err("the port is taken");
        assert_eq!(taken, ListenError::Taken { host: "127.0.0.1".to_owned(), port });
        assert_eq!(
            taken.to_string(),
            format!("port {port} on 127.0.0.1 is taken by another process")
        );

        let unknown = listen("no.such.host.invalid", 1).expect_err("the name means nothing");
        assert!(unknown.to_string().starts_with("cannot resolve no.such.host.invalid: "));
        let foreign = listen("192.0.2.1", 0).expect_err("the address is not ours");
        assert!(foreign.to_string().starts_with("cannot listen on 192.0.2.1, port 0: "));
    }
}
