//! The Unix sockets of nodes: each has a random name that no file has.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use mooncake_connection::LOCAL_MARK;
use mooncake_wire::LocalSocket;

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
    format!("{LOCAL_MARK}{}", name_of(socket))
}
