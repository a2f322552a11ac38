use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use mooncake_memory::with_dialing_helpers;

use super::neighbour::Neighbour;
use super::peer_discovery::{self, DiscoveredPeer, Distance};
use crate::fallbacks::Fallbacks;
use crate::{TcpConfig, TcpTransport, Transports, Way, local_socket};

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
    /// Asks peers where they run.
    tcp: Arc<TcpTransport>,
    pub(super) ways: Transports,
    /// Frames over local sockets.
    pub(super) sockets: Arc<TcpTransport>,
    peers: Arc<KnownPeers>,
    fallbacks: Fallbacks,
    /// When peers that are out of date were last searched for.
    swept: Mutex<Option<Instant>>,
}

impl Near {
    /// Access by these ways. `tcp` asks peers where they run.
    pub(crate) fn new(config: TcpConfig, ways: Transports, tcp: Arc<TcpTransport>) -> Self {
        Self {
            here: local_socket::host().ok(),
            sockets: Arc::new(TcpTransport::new(config.clone())),
            config: Arc::new(config),
            tcp,
            ways,
            peers: Arc::default(),
            fallbacks: Fallbacks::default(),
            swept: Mutex::default(),
        }
    }

    /// How far a peer is. Asks it by TCP if that is not known.
    pub(crate) fn distance(&self, endpoint: &Arc<str>) -> Distance {
        let Some(peer) = self.peer(endpoint) else { return Distance::TooManyPeers };
        peer.distance(|| {
            let gone = self.farewell(endpoint);
            let means = (&self.config, gone);
            let distance = peer_discovery::measure(endpoint, &self.tcp, self.here.as_ref(), means);
            self.warn_of_fallback(endpoint, &distance);
            distance
        })
    }

    /// Says why a peer of this host is reached by TCP.
    fn warn_of_fallback(&self, endpoint: &Arc<str>, distance: &Distance) {
        let kept_apart = matches!(
            distance,
            Distance::NotLetIn(_) | Distance::OtherNetworkNamespace | Distance::NoHostId
        );
        if let (true, Some(way)) =
            (kept_apart && self.ways.allows(Way::Tcp), self.ways.near().first())
        {
            self.fallbacks.warn(way.name(), endpoint, &distance.to_string());
        }
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
    pub(super) fn measure_all<'a>(&self, endpoints: impl Iterator<Item = &'a Arc<str>>) {
        let mut unknown: Vec<&Arc<str>> = Vec::new();
        for endpoint in endpoints {
            let is_known = unknown.last().is_some_and(|last| Arc::ptr_eq(last, endpoint))
                || self.peer(endpoint).is_none_or(|peer| peer.is_current());
            if !is_known && !unknown.contains(&endpoint) {
                unknown.push(endpoint);
            }
        }
        if unknown.len() > 1 {
            with_dialing_helpers(&unknown, |endpoint| drop(self.distance(endpoint)));
        }
    }

    pub(super) fn neighbour(&self, endpoint: &Arc<str>) -> Option<Arc<Neighbour>> {
        match self.distance(endpoint) {
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

#[cfg(test)]
mod tests {
    use mooncake_testing::logged;

    use super::*;
    use crate::tests::rig::{Node, tcp_config};

    fn near() -> Near {
        let tcp = Arc::new(TcpTransport::new(tcp_config()));
        Near::new(tcp_config(), Transports::default(), tcp)
    }

    #[test]
    fn many_peers_that_are_out_of_date_do_not_keep_others_out() {
        let near = near();
        for number in 0..=MAX_PEERS {
            let endpoint: Arc<str> = format!("node-{number}:1").into();
            assert!(near.peer(&endpoint).is_some(), "{endpoint}");
        }
        assert_eq!(near.peers.read().unwrap().len(), 1);
    }

    #[test]
    fn that_peers_of_this_host_are_kept_apart_is_said_once() {
        let nodes = [1, 2].map(|segment| Node::start(segment, 4096));
        let mut near = near();
        near.here.as_mut().expect("the system tells").1 += 1;
        let said = logged(|| {
            for node in &nodes {
                let distance = near.distance(&node.endpoint);
                assert!(matches!(distance, Distance::OtherNetworkNamespace), "{distance}");
            }
        });
        let expected = format!(
            " WARN shm does not reach a peer, so a slower way does peer={} reason=it is on this host, but in another \
             network namespace\n",
            nodes[0].endpoint
        );
        assert_eq!(said, expected);
    }
}
