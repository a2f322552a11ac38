//! The local sockets of nodes: Unix sockets, each with a random name that no file bears.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;

use mooncake_connection::{LOCAL_MARK, listen_locally};
use mooncake_memory::Private;
use mooncake_wire::LocalSocket;

/// A local socket of a node that processes of its host connect to.
#[derive(Debug)]
pub struct LocalListener {
    pub(crate) listener: Private<UnixListener>,
    /// What other processes need to find it.
    pub(crate) socket: LocalSocket,
}

impl LocalListener {
    /// Listens under a new name.
    ///
    /// # Errors
    /// The error of a system call.
    pub fn open() -> io::Result<Self> {
        let (boot_id, network_namespace) = host()?;
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        let instance = u128::from_le_bytes(bytes);
        let socket = LocalSocket { boot_id, network_namespace, instance };
        let listener = Private::open(|| listen_locally(&name_of(&socket)))?;
        Ok(Self { listener, socket })
    }

    /// Its endpoint.
    #[must_use]
    pub fn endpoint(&self) -> String {
        endpoint_of(&self.socket)
    }

    /// Its random number, which no other socket has.
    #[must_use]
    pub fn instance(&self) -> u128 {
        self.socket.instance
    }

    /// Another handle of the same socket.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn try_clone(&self) -> io::Result<Self> {
        let listener = Private::open(|| self.listener.try_clone())?;
        Ok(Self { listener, socket: self.socket.clone() })
    }
}

/// The boot id of this host's kernel, and the network namespace, in which socket names are unique.
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
    format!("{LOCAL_MARK}{}", name_of(socket))
}
