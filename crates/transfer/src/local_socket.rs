//! The Unix sockets of nodes: a random name that no file has, and only processes of one user on either side.

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::Duration;

use mooncake_memory::{Private, own_uid, peer_of};
use mooncake_wire::LocalSocket;
use socket2::{Domain, SockAddr, Socket, Type};
use thiserror::Error;

/// What an endpoint begins with that is the name of a local socket: no host's name does.
pub(crate) const MARK: char = '@';

/// Somebody else is at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "memory is shared between processes of one user only: this side is user {own}, the other {other}"
)]
pub(crate) struct Stranger {
    own: u32,
    other: u32,
}

/// Listens under a new name, and gives what others find it by.
pub(crate) fn listen() -> io::Result<(UnixListener, LocalSocket)> {
    let (boot_id, network_namespace) = host()?;
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    let socket = LocalSocket { boot_id, network_namespace, instance: u128::from_le_bytes(bytes) };
    let address = SocketAddr::from_abstract_name(name_of(&socket))?;
    Ok((UnixListener::bind_addr(&address)?, socket))
}

/// The boot of this host's kernel, and the namespace that names of sockets are in.
pub(crate) fn host() -> io::Result<(String, u64)> {
    let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned();
    let network_namespace = std::fs::metadata("/proc/self/ns/net")?.ino();
    Ok((boot_id, network_namespace))
}

fn name_of(socket: &LocalSocket) -> String {
    format!("mooncake-{:032x}", socket.instance)
}

/// The socket as an endpoint.
pub(crate) fn endpoint_of(socket: &LocalSocket) -> String {
    format!("{MARK}{}", name_of(socket))
}

/// Connects to a process of this user. What is given back is a stream as any other: the standard library's TCP stream
/// does for any socket what is done here with it.
pub(crate) fn connect(name: &str, timeout: Duration) -> io::Result<Private<TcpStream>> {
    let socket = Private::open(|| Socket::new(Domain::UNIX, Type::STREAM, None))?;
    // Bounds the wait for a place in the listener's queue too.
    socket.set_write_timeout(Some(timeout))?;
    socket.connect(&SockAddr::unix(format!("\0{name}"))?)?;
    check_user(socket.as_fd()).map_err(io::Error::other)?;
    Ok(socket.convert::<OwnedFd>().convert())
}

/// Whether the process at the other end is of this one's user.
pub(crate) fn check_user(socket: BorrowedFd<'_>) -> Result<(), Stranger> {
    let own = own_uid();
    // Of a peer that cannot be named nothing is known.
    let other = peer_of(socket).map_or(u32::MAX, |peer| peer.uid);
    if own == other { Ok(()) } else { Err(Stranger { own, other }) }
}
