//! Unix sockets with abstract names, which no file bears, between processes of one user.

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::Duration;

use mooncake_memory::{Private, own_uid, peer_of};
use socket2::{Domain, SockAddr, Socket, Type};

use crate::fault::{Fault, Stranger};

/// First character of an endpoint that names a local socket. No host name begins with it.
pub const LOCAL_MARK: char = '@';

/// Listens on the local socket of this name; its endpoint is [`LOCAL_MARK`] and the name. The caller
/// [checks](TrustedUsers::check) each process that connects.
///
/// # Errors
/// The system's: the name is taken, or too long.
pub fn listen_locally(name: &str) -> io::Result<UnixListener> {
    UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)
}

/// The users whose processes may be at the other end of a local socket. Any user can take any name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrustedUsers {
    /// The user of this process.
    Own,
    /// The user of this process, and root, which has access to everything.
    OwnOrRoot,
}

impl TrustedUsers {
    /// Whether the process at the other end of a local socket is trusted.
    ///
    /// # Errors
    /// The user at the other end, or `u32::MAX` if the kernel does not name it.
    pub fn check(self, socket: BorrowedFd<'_>) -> Result<(), Stranger> {
        let own = own_uid();
        let other = peer_of(socket).map_or(u32::MAX, |peer| peer.uid);
        match own == other || (self == TrustedUsers::OwnOrRoot && other == 0) {
            true => Ok(()),
            false => Err(Stranger { own, other }),
        }
    }

    /// Connects to a local socket of a trusted user. Waits for a place in the listener's queue; without `timeout` the
    /// socket never blocks, and a full queue is [`Fault::TimedOut`]. The result is a `TcpStream`, because this crate's
    /// calls on it work on any socket.
    pub(crate) fn connect(
        self,
        name: &str,
        timeout: Option<Duration>,
    ) -> Result<Private<TcpStream>, Fault> {
        let socket = Private::open(|| Socket::new(Domain::UNIX, Type::STREAM, None))?;
        match timeout {
            Some(timeout) => socket.set_write_timeout(Some(timeout))?,
            None => socket.set_nonblocking(true)?,
        }
        let address = SockAddr::unix(format!("\0{name}"))?;
        socket.connect(&address).map_err(Fault::of_blocking)?;
        self.check(socket.as_fd())?;
        Ok(socket.convert::<OwnedFd>().convert())
    }
}
