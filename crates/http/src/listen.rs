use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};

use socket2::{Domain, Protocol, Socket, Type};
use thiserror::Error;

/// Most connections that wait to be accepted.
const BACKLOG: i32 = 4096;

/// Why a server cannot listen on an address.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ListenError {
    /// The host cannot be resolved.
    #[error("cannot resolve {host}: {reason}")]
    Unresolved {
        /// The name.
        host: String,
        /// The resolver's error message.
        reason: String,
    },
    /// Another process listens on the port.
    #[error("port {port} on {host} is taken by another process")]
    Taken {
        /// The host.
        host: String,
        /// The port.
        port: u16,
    },
    /// The system refuses the address or the port.
    #[error("cannot listen on {host}, port {port}: {reason}")]
    Refused {
        /// The host.
        host: String,
        /// The port.
        port: u16,
        /// The system's error message.
        reason: String,
    },
}

/// Listens on a port; 0 means any free one. The socket does not block, and connections wait in it until they are
/// accepted. If the name has several addresses, the first one of this machine is used. IPv4 comes before IPv6, since
/// clients expect a name like `localhost` there.
///
/// # Errors
/// If the host has no address, or the port cannot be used.
pub fn listen(host: &str, port: u16) -> Result<TcpListener, ListenError> {
    let unresolved = |reason: String| ListenError::Unresolved { host: host.to_owned(), reason };
    let addresses =
        (host, port).to_socket_addrs().map_err(|error| unresolved(error.to_string()))?;
    match bind_first(addresses.collect()) {
        None => Err(unresolved("the name has no address".to_owned())),
        Some(Ok(listener)) => Ok(listener),
        Some(Err(error)) => Err(match error.kind() {
            io::ErrorKind::AddrInUse => ListenError::Taken { host: host.to_owned(), port },
            _ => ListenError::Refused { host: host.to_owned(), port, reason: error.to_string() },
        }),
    }
}

/// Binds the first address that belongs to this machine. `None` if there are no addresses.
fn bind_first(mut addresses: Vec<SocketAddr>) -> Option<io::Result<TcpListener>> {
    addresses.sort_by_key(SocketAddr::is_ipv6);
    let mut bound = None;
    for address in addresses {
        bound = Some(bind(address));
        if !matches!(&bound, Some(Err(error)) if error.kind() == io::ErrorKind::AddrNotAvailable) {
            break;
        }
    }
    bound
}

/// Binds an address. Address reuse lets a server start while connections of an earlier process linger.
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
    fn of_several_addresses_the_first_of_this_machine_is_taken() {
        for (addresses, expected) in [
            (&["[::1]:0", "127.0.0.1:0"][..], "127.0.0.1"),
            (&["192.0.2.1:0", "127.0.0.2:0", "127.0.0.3:0"], "127.0.0.2"),
            (&["[2001:db8::1]:0", "192.0.2.1:0", "127.0.0.1:0"], "127.0.0.1"),
        ] {
            let parse = |text: &&str| text.parse().expect("an address");
            let bound = bind_first(addresses.iter().map(parse).collect());
            let bound = bound.expect("there are some").expect("one of them is ours");
            assert_eq!(bound.local_addr().expect("bound").ip().to_string(), expected);
        }
        assert!(bind_first(Vec::new()).is_none());
    }

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
