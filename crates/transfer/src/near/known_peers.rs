use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use mooncake_memory::with_dialing_helpers;

use super::neighbour::Neighbour;
use super::peer_discovery::{self, DiscoveredPeer, Distance, NearPeer};
use crate::{ReadOp, TcpConfig, TcpTransport, TransferError, Transport, Transports, local_socket};

/// Most peers to remember. All others count as far until some of these are out of date.
const MAX_PEERS: usize = 4096;

/// How often peers that are out of date are searched for while there are too many.
const SWEEP: Duration = Duration::from_secs(1);

/// The known peers, by endpoint.
type KnownPeers = RwLock<HashMap<Arc<str>, Arc<DiscoveredPeer>>>;

/// Access to nodes of this host.
pub(crate) struct Near {
    /// The boot id of the kernel and the network namespace; `None` if the system does not tell.
    here: Option<(String, u64)>,
    config: Arc<TcpConfig>,
    pub(super) ways: Transports,
    /// Frames over local sockets.
    pub(super) sockets: Arc<TcpTransport>,
    peers: Arc<KnownPeers>,
    /// When peers that are out of date were last searched for.
    swept: Mutex<Option<Instant>>,
}

impl Near {
    pub(crate) fn new(config: TcpConfig, ways: Transports) -> Self {
        Self {
            here: local_socket::host().ok(),
            sockets: Arc::new(TcpTransport::new(config.clone())),
            config: Arc::new(config),
            ways,
            peers: Arc::default(),
            swept: Mutex::default(),
        }
    }

    /// How far a peer is. Asks it by TCP if that is not known.
    pub(crate) fn distance(&self, endpoint: &Arc<str>, tcp: &TcpTransport) -> Distance {
        let Some(peer) = self.peer(endpoint) else { return Distance::TooManyPeers };
        peer.distance(|| {
            let gone = self.farewell(endpoint);
            let means = (&self.config, gone);
            peer_discovery::measure(endpoint, tcp, self.here.as_ref(), means)
        })
    }

    /// To be called when a neighbour is gone: closes its connections and forgets it.
    fn farewell(&self, endpoint: &Arc<str>) -> impl FnOnce(&str) + Send + 'static {
        let (peers, sockets) = (Arc::downgrade(&self.peers), Arc::clone(&self.sockets));
        let endpoint = Arc::clone(endpoint);
        move |local_socket| {
            sockets.forget(local_socket);
            let Some(peers) = peers.upgrade() else { return };
            let mut peers = peers.write().unwrap_or_else(PoisonError::into_inner);
            // Another node may be known at this endpoint already.
            let is_gone = peers.get(&endpoint).is_some_and(|peer| !peer.is_current());
            let gone = is_gone.then(|| peers.remove(&endpoint));
            drop(peers);
            drop(gone);
        }
    }

    /// Finds out how far all unknown peers are, at the same time, so that the timeouts of dead peers overlap.
    pub(super) fn measure_all<'a>(
        &self,
        endpoints: impl Iterator<Item = &'a Arc<str>>,
        tcp: &TcpTransport,
    ) {
        let mut unknown: Vec<&Arc<str>> = Vec::new();
        for endpoint in endpoints {
            let is_known = unknown.last().is_some_and(|last| Arc::ptr_eq(last, endpoint))
                || self.peer(endpoint).is_none_or(|peer| peer.is_current());
            if !is_known && !unknown.contains(&endpoint) {
                unknown.push(endpoint);
            }
        }
        if unknown.len() > 1 {
            with_dialing_helpers(&unknown, |endpoint| drop(self.distance(endpoint, tcp)));
        }
    }

    pub(super) fn neighbour(
        &self,
        endpoint: &Arc<str>,
        tcp: &TcpTransport,
    ) -> Option<Arc<Neighbour>> {
        match self.distance(endpoint, tcp) {
            Distance::Near(neighbour) => Some(neighbour.0),
            _ => None,
        }
    }

    fn peer(&self, endpoint: &Arc<str>) -> Option<Arc<DiscoveredPeer>> {
        let known = self.peers.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(peer) = known.get(endpoint) {
            return Some(Arc::clone(peer));
        }
        drop(known);
        let mut peers = self.peers.write().unwrap_or_else(PoisonError::into_inner);
        if peers.len() >= MAX_PEERS && !peers.contains_key(endpoint) {
            if !self.may_sweep() {
                return None;
            }
            peers.retain(|_, peer| peer.is_current());
            if peers.len() >= MAX_PEERS {
                return None;
            }
        }
        Some(Arc::clone(peers.entry(Arc::clone(endpoint)).or_default()))
    }

    fn may_sweep(&self) -> bool {
        let mut swept = self.swept.lock().unwrap_or_else(PoisonError::into_inner);
        if swept.is_some_and(|swept| swept.elapsed() < SWEEP) {
            return false;
        }
        *swept = Some(Instant::now());
        true
    }
}

#[cfg(test)]
impl Near {
    /// Peers that are remembered here, and for frames.
    pub(crate) fn remembered(&self) -> usize {
        self.peers.read().unwrap_or_else(PoisonError::into_inner).len()
            + self.sockets.peers().count()
    }
}

impl Near {
    /// A read over a node's local socket.
    pub(crate) fn ask(&self, met: &NearPeer, op: ReadOp) -> Result<(), TransferError> {
        let endpoint = Arc::clone(&met.0.endpoint);
        self.sockets.read(&[ReadOp { endpoint, ..op }]).remove(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_peers_that_are_out_of_date_do_not_keep_others_out() {
        let near = Near::new(TcpConfig::default(), Transports::default());
        for number in 0..=MAX_PEERS {
            let endpoint: Arc<str> = format!("node-{number}:1").into();
            assert!(near.peer(&endpoint).is_some(), "{endpoint}");
        }
        assert_eq!(near.peers.read().unwrap().len(), 1);
    }
}
