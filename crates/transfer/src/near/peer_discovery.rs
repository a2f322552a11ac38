use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mooncake_types::ErrorCode;

use super::neighbour::Neighbour;
use crate::peer_ways::{Discovery, Validity};
use crate::{TcpConfig, TcpTransport, TransferError};
use mooncake_connection::Fault;

/// A peer that is far is asked again after this long: another process may have taken its address over.
const FAR: Duration = Duration::from_secs(300);

/// A peer that could not be asked is asked again after this long.
const UNKNOWN: Duration = Duration::from_secs(1);

/// How far a peer is from this process, and why.
#[derive(Clone, Debug)]
pub enum Distance {
    /// On this host, and of this user.
    Near(NearPeer),
    /// It runs on another host.
    OtherHost,
    /// It runs on this host, in a container with a network of its own, where names of sockets mean something else.
    OtherNetworkNamespace,
    /// It offers no local socket: its configuration says so, or it is an older version.
    NotOffered,
    /// The system does not tell which host this is.
    NoHostId,
    /// It is on this host, but refuses this process, or this process does not trust it: another user, as a rule.
    NotLetIn(String),
    /// It could not be asked.
    Unreachable(TransferError),
    /// This process knows too many peers to remember this one.
    TooManyPeers,
}

/// A node of this host.
#[derive(Clone)]
pub struct NearPeer(pub(super) Arc<Neighbour>);

impl fmt::Debug for NearPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NearPeer").field("endpoint", &self.0.endpoint).finish_non_exhaustive()
    }
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Distance::Near(_) => f.write_str("it is on this host and belongs to this user"),
            Distance::OtherHost => f.write_str("it is on another host"),
            Distance::OtherNetworkNamespace => {
                f.write_str("it is on this host, but in another network namespace")
            }
            Distance::NotOffered => f.write_str("it shares no memory"),
            Distance::NoHostId => f.write_str("the system does not tell which host this is"),
            Distance::NotLetIn(why) => write!(f, "it is on this host, but {why}"),
            Distance::Unreachable(error) => error.fmt(f),
            Distance::TooManyPeers => f.write_str("too many peers are known already"),
        }
    }
}

impl Discovery for Distance {
    fn validity(&self) -> Validity {
        match self {
            Distance::Near(met) if met.0.is_alive() => Validity::Reached,
            Distance::Near(_) => Validity::Lost,
            Distance::Unreachable(_) => Validity::NotReached(UNKNOWN),
            _ => Validity::NotReached(FAR),
        }
    }
}

/// Asks a peer where it runs, and connects to its local socket if it is on this host. Calls `gone` with that socket's
/// endpoint once the connection has broken.
pub(super) fn measure(
    endpoint: &Arc<str>,
    tcp: &TcpTransport,
    here: Option<&(String, u64)>,
    (config, gone): (&Arc<TcpConfig>, impl FnOnce(&str) + Send + 'static),
) -> Distance {
    let Some((boot_id, network_namespace)) = here else { return Distance::NoHostId };
    let welcome = match tcp.welcome_of(endpoint) {
        Ok(welcome) => welcome,
        Err(error) => return Distance::Unreachable(error),
    };
    let Some(socket) = &welcome.local_socket else { return Distance::NotOffered };
    if socket.boot_id != *boot_id {
        return Distance::OtherHost;
    }
    if socket.network_namespace != *network_namespace {
        return Distance::OtherNetworkNamespace;
    }
    let distance = match Neighbour::meet(socket, config, gone) {
        Ok(neighbour) => Distance::Near(NearPeer(Arc::new(neighbour))),
        Err(Fault::Refused(refusal)) if refusal.code == ErrorCode::IllegalClient => {
            Distance::NotLetIn("does not let this user in".to_owned())
        }
        Err(Fault::Stranger(stranger)) => Distance::NotLetIn(stranger.to_string()),
        Err(fault) => Distance::Unreachable(TransferError::of_fault(&fault, endpoint)),
    };
    tracing::debug!(%endpoint, %distance, "a peer of this host");
    distance
}
