use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mooncake_connection::{Dialer, Fault};

use super::dial::dial;
use super::directory::Directory;
use super::lane::Lane;
use super::shares::{Purpose, Shares};
use crate::{TcpConfig, TransferError};

/// A peer that could not be reached, refused, or fell silent is not connected to again for this long.
const SUSPICION: Duration = Duration::from_secs(1);

/// Peers that are remembered; beyond this, those without a connection are forgotten.
const MAX_PEERS: usize = 4096;

/// The lanes to all peers. Those that lie idle are closed when their peer has gone, or when they were idle for long
/// ([`Directory::tidy`]).
pub(crate) struct Peers {
    config: TcpConfig,
    dialer: Dialer,
    directory: Arc<Directory>,
}

pub(super) struct Peer {
    endpoint: Arc<str>,
    state: Mutex<PeerState>,
    /// For calls that want to read, and to write.
    freed: [Condvar; 2],
}

#[derive(Default)]
struct PeerState {
    idle: Vec<Lane>,
    /// Lanes that exist or are being opened, idle ones included.
    lanes: usize,
    shares: Shares,
    suspect: Option<(Instant, TransferError)>,
}

impl PeerState {
    /// Takes out the idle lanes for which this does not hold.
    fn close_idle(&mut self, keep: impl Fn(&Lane) -> bool) -> Vec<Lane> {
        let closed: Vec<Lane> = self.idle.extract_if(.., |lane| !keep(lane)).collect();
        self.lanes -= closed.len();
        closed
    }

    /// The lane used last: its buffers and its window are warm.
    fn take_idle(&mut self, purpose: Purpose) -> Option<Lane> {
        while let Some(lane) = self.idle.pop() {
            if lane.is_alive() {
                self.shares.take(purpose);
                return Some(lane);
            }
            self.lanes -= 1;
        }
        None
    }

    /// Why the peer is not to be connected to now.
    fn suspicion(&mut self) -> Option<TransferError> {
        self.suspect.take_if(|(until, _)| Instant::now() >= *until);
        self.suspect.as_ref().map(|(_, error)| error.clone())
    }
}

/// The use of one lane. Unless it is given back with [`Lease::give_back`], the lane is closed.
pub(crate) struct Lease {
    peer: Arc<Peer>,
    purpose: Purpose,
    lane: Option<Lane>,
}

impl Lease {
    pub(crate) fn lane(&mut self) -> &mut Lane {
        self.lane.as_mut().expect("a lease holds its lane until it is given back")
    }

    pub(crate) fn as_lane(&self) -> &Lane {
        self.lane.as_ref().expect("a lease holds its lane until it is given back")
    }

    /// The lane has failed. If it was silent, so will be all lanes to this peer: none is used again for a while.
    pub(crate) fn doubt(&self, fault: &Fault, error: &TransferError) {
        if matches!(fault, Fault::Silent) {
            let mut state = self.peer.lock();
            state.suspect = Some((Instant::now() + SUSPICION, error.clone()));
            let closed = state.close_idle(|_| false);
            drop(state);
            drop(closed);
        }
    }

    /// The lane is between frames and may be used again.
    pub(crate) fn give_back(mut self) {
        if let Some(mut lane) = self.lane.take() {
            lane.rest();
            let mut state = self.peer.lock();
            state.idle.push(lane);
            state.shares.give_back(self.purpose);
            let waiting = state.shares.waiting();
            drop(state);
            // Waking costs a system call, also where nobody waits.
            waiting.for_each(|purpose| self.peer.freed[purpose as usize].notify_one());
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.lane.take().is_some() {
            self.peer.forget_lane(self.purpose);
        }
    }
}

impl Peers {
    pub(crate) fn new(config: TcpConfig) -> Self {
        Self { dialer: config.dialer(), config, directory: Arc::default() }
    }

    pub(crate) fn config(&self) -> &TcpConfig {
        &self.config
    }

    /// A lane to the peer: an idle one, or a new one if there are not too many, or the next that another call gives
    /// back before the deadline. Reads and writes each leave a lane to the other (see [`Shares`]).
    pub(crate) fn lease(
        &self,
        endpoint: &Arc<str>,
        purpose: Purpose,
        deadline: Instant,
    ) -> Result<Lease, TransferError> {
        let peer = self.peer(endpoint);
        let mut state = peer.lock();
        let most = self.config.lanes_per_peer.max(1);
        while !state.shares.may_take(purpose, most) {
            if state.idle.is_empty()
                && let Some(error) = state.suspicion()
            {
                return Err(error);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(TransferError::TimedOut { endpoint: Arc::clone(endpoint) });
            }
            state.shares.begin_waiting(purpose);
            let waited = peer.freed[purpose as usize].wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.shares.end_waiting(purpose);
        }
        if let Some(lane) = state.take_idle(purpose) {
            drop(state);
            return Ok(Lease { peer, purpose, lane: Some(lane) });
        }
        if let Some(error) = state.suspicion() {
            return Err(error);
        }
        state.lanes += 1;
        state.shares.take(purpose);
        drop(state);
        self.open(peer, purpose)
    }

    /// Whether there is a lane to the peer, or it is suspect.
    pub(crate) fn is_known(&self, endpoint: &Arc<str>) -> bool {
        !self.peer(endpoint).is_blank()
    }

    fn open(&self, peer: Arc<Peer>, purpose: Purpose) -> Result<Lease, TransferError> {
        match dial(&peer.endpoint, &self.config, &self.dialer) {
            Ok(lane) => Ok(Lease { peer, purpose, lane: Some(lane) }),
            Err(fault) => {
                let error = TransferError::of_fault(&fault, &peer.endpoint);
                peer.lock().suspect = Some((Instant::now() + SUSPICION, error.clone()));
                peer.forget_lane(purpose);
                Err(error)
            }
        }
    }

    /// Closes the idle lanes to a peer that is gone for good; those in use are closed when they are given back.
    pub(crate) fn forget(&self, endpoint: &str) {
        let forgotten = self.directory.lock().peers.remove(endpoint);
        drop(forgotten);
    }

    fn peer(&self, endpoint: &Arc<str>) -> Arc<Peer> {
        let mut state = self.directory.lock();
        if let Some(peer) = state.peers.get(endpoint) {
            return Arc::clone(peer);
        }
        if state.peers.len() >= MAX_PEERS {
            state.peers.retain(|_, peer| peer.lock().lanes > 0);
        }
        let peer = Arc::new(Peer::new(Arc::clone(endpoint)));
        state.peers.insert(Arc::clone(endpoint), Arc::clone(&peer));
        self.directory.keep_tidy(&mut state);
        peer
    }

    /// Peers that are remembered.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.directory.lock().peers.len()
    }

    /// As if so much time had passed.
    #[cfg(test)]
    pub(crate) fn tidy_after(&self, time: Duration) {
        self.directory.tidy(Instant::now() + time);
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        self.directory.close();
    }
}

impl Peer {
    fn new(endpoint: Arc<str>) -> Self {
        Self { endpoint, state: Mutex::default(), freed: Default::default() }
    }

    /// Closes idle lanes that are of no more use.
    pub(super) fn tidy(&self, now: Instant) {
        let closed = self.lock().close_idle(|lane| lane.is_wanted(now) && lane.is_alive());
        drop(closed);
    }

    /// Whether there is anything to remember of it.
    pub(super) fn is_blank(&self) -> bool {
        let mut state = self.lock();
        state.lanes == 0 && state.suspicion().is_none()
    }

    fn lock(&self) -> MutexGuard<'_, PeerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget_lane(&self, purpose: Purpose) {
        let mut state = self.lock();
        state.lanes -= 1;
        state.shares.give_back(purpose);
        drop(state);
        // All of them: the first to wake may find the peer suspect and leave without waking the next.
        self.freed.iter().for_each(Condvar::notify_all);
    }
}
