//! What this process knows of the ways to each peer: what the peer offered when it was greeted, and what that is worth
//! here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use mooncake_memory::with_dialing_helpers;

/// Most peers to remember for one way. All others count as not reached, until some of these are out of date.
const MAX_PEERS: usize = 4096;

/// How often peers that are out of date are searched for while there are too many.
const SWEEP: Duration = Duration::from_secs(1);

/// What was found out about one peer.
pub(crate) trait Discovery: Clone {
    /// For how long it counts.
    fn validity(&self) -> Validity;
}

/// For how long a discovery counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Validity {
    /// The peer is reached, until this changes by itself.
    Reached,
    /// The peer was reached, and is no more.
    Lost,
    /// It is not reached; asked again after this long.
    NotReached(Duration),
}

/// The known peers of one way, by endpoint.
pub(crate) struct PeerWays<D> {
    peers: RwLock<HashMap<Arc<str>, Arc<PeerWay<D>>>>,
    /// When peers that are out of date were last searched for.
    swept: Mutex<Option<Instant>>,
}

/// What is known of one peer.
struct PeerWay<D> {
    known: RwLock<Option<Known<D>>>,
    /// Held by the thread that asks the peer.
    asking: Mutex<()>,
}

struct Known<D> {
    discovery: D,
    since: Instant,
}

impl<D> Default for PeerWays<D> {
    fn default() -> Self {
        Self { peers: RwLock::default(), swept: Mutex::default() }
    }
}

impl<D> Default for PeerWay<D> {
    fn default() -> Self {
        Self { known: RwLock::new(None), asking: Mutex::default() }
    }
}

impl<D: Discovery + Send + Sync> PeerWays<D> {
    /// What is known of a peer. Calls `discover` if that is nothing, or out of date. `None` if too many peers are known
    /// to remember this one.
    pub(crate) fn find(&self, endpoint: &Arc<str>, discover: impl FnOnce() -> D) -> Option<D> {
        Some(self.peer(endpoint)?.find(discover))
    }

    /// Calls `discover` for all peers of which nothing is known, at the same time, so that the timeouts of dead peers
    /// overlap.
    pub(crate) fn find_all<'a>(
        &self,
        endpoints: impl Iterator<Item = &'a Arc<str>>,
        discover: impl Fn(&Arc<str>) + Sync,
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
            with_dialing_helpers(&unknown, |endpoint| discover(endpoint));
        }
    }

    /// Forgets a peer that is no longer reached. Another node may be known at this endpoint already; it stays.
    pub(crate) fn forget_lost(&self, endpoint: &Arc<str>) {
        let mut peers = self.peers.write().unwrap_or_else(PoisonError::into_inner);
        let is_lost = peers.get(endpoint).is_some_and(|peer| !peer.is_current());
        let lost = is_lost.then(|| peers.remove(endpoint));
        drop(peers);
        drop(lost);
    }

    /// Notes something about a peer that is remembered.
    pub(crate) fn replace(&self, endpoint: &Arc<str>, discovery: D) {
        if let Some(peer) = self.peer(endpoint) {
            peer.set(discovery);
        }
    }

    fn peer(&self, endpoint: &Arc<str>) -> Option<Arc<PeerWay<D>>> {
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

    /// Peers that are remembered.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.peers.read().unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl<D: Discovery> PeerWay<D> {
    fn find(&self, discover: impl FnOnce() -> D) -> D {
        if let Some(known) = self.current() {
            return known;
        }
        let _asking = match (self.asking.try_lock().ok(), self.was_not_reached()) {
            (Some(asking), _) => asking,
            // Another thread asks again; until then the old answer counts.
            (None, Some(old)) => return old,
            (None, None) => self.asking.lock().unwrap_or_else(PoisonError::into_inner),
        };
        if let Some(known) = self.current() {
            return known;
        }
        let discovery = discover();
        self.set(discovery.clone());
        discovery
    }

    fn set(&self, discovery: D) {
        let known = Known { discovery, since: Instant::now() };
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = Some(known);
    }

    /// Whether what is known of it counts still.
    fn is_current(&self) -> bool {
        self.current().is_some()
    }

    fn was_not_reached(&self) -> Option<D> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let discovery = &known.as_ref()?.discovery;
        matches!(discovery.validity(), Validity::NotReached(_)).then(|| discovery.clone())
    }

    fn current(&self) -> Option<D> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let Known { discovery, since } = known.as_ref()?;
        let holds = match discovery.validity() {
            Validity::Reached => true,
            Validity::Lost => false,
            Validity::NotReached(time) => since.elapsed() < time,
        };
        holds.then(|| discovery.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Found(Validity);

    impl Discovery for Found {
        fn validity(&self) -> Validity {
            self.0
        }
    }

    #[test]
    fn many_peers_that_are_out_of_date_do_not_keep_others_out() {
        let ways = PeerWays::<Found>::default();
        for number in 0..=MAX_PEERS {
            let endpoint: Arc<str> = format!("node-{number}:1").into();
            let found = ways.find(&endpoint, || Found(Validity::NotReached(Duration::ZERO)));
            assert!(found.is_some(), "{endpoint}");
        }
        assert_eq!(ways.count(), 1);
    }

    #[test]
    fn a_peer_is_asked_again_when_the_answer_is_out_of_date_or_the_peer_lost() {
        let (ways, endpoint) = (PeerWays::default(), "node:1".into());
        let find = |validity| ways.find(&endpoint, || Found(validity));
        let (far, soon) =
            (Validity::NotReached(Duration::MAX), Validity::NotReached(Duration::ZERO));
        for (found, expected) in [
            (soon, soon),
            (Validity::Lost, Validity::Lost),
            (Validity::Reached, Validity::Reached),
            (far, Validity::Reached),
        ] {
            assert_eq!(find(found), Some(Found(expected)));
        }
        ways.forget_lost(&endpoint);
        assert_eq!(ways.count(), 1, "it is reached");
    }
}
