use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use mooncake_types::ErrorCode;

use super::neighbour::Neighbour;
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

/// The known distance of one peer.
#[derive(Default)]
pub(super) struct DiscoveredPeer {
    known: RwLock<Option<KnownDistance>>,
    /// Held by the thread that measures the distance.
    asking: Mutex<()>,
}

struct KnownDistance {
    distance: Distance,
    until: Option<Instant>,
}

impl DiscoveredPeer {
    /// How far it is. Calls `measure` if that is unknown or out of date.
    pub(super) fn distance(&self, measure: impl FnOnce() -> Distance) -> Distance {
        if let Some(known) = self.known() {
            return known;
        }
        let _asking = match (self.asking.try_lock().ok(), self.was_far()) {
            (Some(asking), _) => asking,
            // Another thread asks again; until then the old answer counts.
            (None, Some(far)) => return far,
            (None, None) => self.asking.lock().unwrap_or_else(PoisonError::into_inner),
        };
        if let Some(known) = self.known() {
            return known;
        }
        let distance = measure();
        let until = match &distance {
            Distance::Near(_) => None,
            Distance::Unreachable(_) => Some(Instant::now() + UNKNOWN),
            _ => Some(Instant::now() + FAR),
        };
        let known = KnownDistance { distance: distance.clone(), until };
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = Some(known);
        distance
    }

    /// Whether its known distance is still valid.
    pub(super) fn is_current(&self) -> bool {
        self.known().is_some()
    }

    fn was_far(&self) -> Option<Distance> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let distance = &known.as_ref()?.distance;
        (!matches!(distance, Distance::Near(_))).then(|| distance.clone())
    }

    fn known(&self) -> Option<Distance> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let KnownDistance { distance, until } = known.as_ref()?;
        let holds = match (distance, until) {
            (Distance::Near(met), _) => met.0.is_alive(),
            (_, Some(until)) => Instant::now() < *until,
            (_, None) => false,
        };
        holds.then(|| distance.clone())
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
    let socket = match tcp.local_socket_of(endpoint) {
        Ok(Some(socket)) => socket,
        Ok(None) => return Distance::NotOffered,
        Err(error) => return Distance::Unreachable(error),
    };
    if socket.boot_id != *boot_id {
        return Distance::OtherHost;
    }
    if socket.network_namespace != *network_namespace {
        return Distance::OtherNetworkNamespace;
    }
    let distance = match Neighbour::meet(&socket, config, gone) {
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
