use std::sync::Arc;

use super::neighbour::Neighbour;
use super::peer_discovery::{self, Distance};
use crate::fallbacks::Fallbacks;
use crate::peer_ways::PeerWays;
use crate::{TcpConfig, TcpTransport, Transports, Way, local_socket};

/// Access to nodes of this host.
pub(crate) struct Near {
    /// The boot id of the kernel and the network namespace; `None` if the system does not tell.
    here: Option<(String, u64)>,
    pub(super) config: Arc<TcpConfig>,
    /// Asks peers where they run.
    tcp: Arc<TcpTransport>,
    pub(super) ways: Transports,
    /// Frames over local sockets.
    pub(super) sockets: Arc<TcpTransport>,
    peers: Arc<PeerWays<Distance>>,
    fallbacks: Fallbacks,
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
        }
    }

    /// How far a peer is. Asks it by TCP if that is not known.
    pub(crate) fn distance(&self, endpoint: &Arc<str>) -> Distance {
        let known = self.peers.find(endpoint, || {
            let gone = self.farewell(endpoint);
            let means = (&self.config, gone);
            let distance = peer_discovery::measure(endpoint, &self.tcp, self.here.as_ref(), means);
            self.warn_of_fallback(endpoint, &distance);
            distance
        });
        known.unwrap_or(Distance::TooManyPeers)
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
            if let Some(peers) = peers.upgrade() {
                peers.forget_lost(&endpoint);
            }
        }
    }

    /// Finds out how far all unknown peers are, at the same time, so that the timeouts of dead peers overlap.
    pub(super) fn measure_all<'a>(&self, endpoints: impl Iterator<Item = &'a Arc<str>>) {
        self.peers.find_all(endpoints, |endpoint| drop(self.distance(endpoint)));
    }

    pub(super) fn neighbour(&self, endpoint: &Arc<str>) -> Option<Arc<Neighbour>> {
        match self.distance(endpoint) {
            Distance::Near(neighbour) => Some(neighbour.0),
            _ => None,
        }
    }
}

#[cfg(test)]
impl Near {
    /// Peers that are remembered here, and for frames.
    pub(crate) fn remembered(&self) -> usize {
        self.peers.count() + self.sockets.peers().count()
    }
}

#[cfg(test)]
mod tests {
    use mooncake_testing::logged;

    use super::*;
    use crate::tests::rig::{Node, tcp_config};

    #[test]
    fn that_peers_of_this_host_are_kept_apart_is_said_once() {
        let nodes = [1, 2].map(|segment| Node::start(segment, 4096));
        let tcp = Arc::new(TcpTransport::new(tcp_config()));
        let mut near = Near::new(tcp_config(), Transports::default(), tcp);
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
