use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Instant;

use mooncake_calls::{Stage, note, note_peer};
use mooncake_connection::Dialer;

use super::dial::dial;
use super::directory::Directory;
use super::peer::{Lease, Peer, PeerState};
use super::shares::Purpose;
use crate::{TcpConfig, TransferError};

/// Most peers to remember. Beyond this, peers without a connection are forgotten.
const MAX_PEERS: usize = 4096;

/// The lanes to all peers. [`Directory::tidy`] closes idle lanes whose peer has gone, or that were idle for long.
pub(crate) struct Peers {
    config: TcpConfig,
    dialer: Dialer,
    directory: Arc<Directory>,
}

impl Peers {
    pub(crate) fn new(config: TcpConfig) -> Self {
        Self { dialer: config.dialer(), config, directory: Arc::default() }
    }

    pub(crate) fn config(&self) -> &TcpConfig {
        &self.config
    }

    /// A lane to the peer: an idle one, a new one if there are not too many, or the next one that another call gives
    /// back before the deadline. Reads and writes leave each other a lane (see [`Shares`]).
    pub(crate) fn lease(
        &self,
        endpoint: &Arc<str>,
        purpose: Purpose,
        deadline: Instant,
    ) -> Result<Lease<'static>, TransferError> {
        let peer = self.peer(endpoint);
        let mut state = peer.lock();
        if !state.shares.may_take(purpose, self.most_lanes()) {
            state = waiting_for(endpoint, || self.wait_for_lane(&peer, state, purpose, deadline))?;
        }
        if let Some(lane) = state.take_idle(purpose) {
            drop(state);
            return Ok(Lease::of(peer, purpose, lane));
        }
        if let Some(error) = state.suspicion() {
            return Err(error);
        }
        state.lanes += 1;
        state.shares.take(purpose);
        drop(state);
        self.open(peer, purpose)
    }

    fn most_lanes(&self) -> usize {
        self.config.lanes_per_peer.max(1)
    }

    fn wait_for_lane<'p>(
        &self,
        peer: &'p Peer,
        mut state: MutexGuard<'p, PeerState>,
        purpose: Purpose,
        deadline: Instant,
    ) -> Result<MutexGuard<'p, PeerState>, TransferError> {
        while !state.shares.may_take(purpose, self.most_lanes()) {
            if state.idle.is_empty()
                && let Some(error) = state.suspicion()
            {
                return Err(error);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(TransferError::TimedOut { endpoint: Arc::clone(&peer.endpoint) });
            }
            state.shares.begin_waiting(purpose);
            let waited = peer.freed[purpose as usize].wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.shares.end_waiting(purpose);
        }
        Ok(state)
    }

    /// Whether there is a lane to the peer, or it is suspect.
    pub(crate) fn is_known(&self, endpoint: &Arc<str>) -> bool {
        !self.peer(endpoint).is_blank()
    }

    fn open(&self, peer: Arc<Peer>, purpose: Purpose) -> Result<Lease<'static>, TransferError> {
        let dial = || dial(&peer.endpoint, &self.config, &self.dialer);
        match waiting_for(&peer.endpoint, dial) {
            Ok(lane) => Ok(Lease::of(peer, purpose, lane)),
            Err(fault) => {
                let error = TransferError::of_fault(&fault, &peer.endpoint);
                peer.suspect(&error);
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

    /// Tidies up as if so much time had passed.
    #[cfg(test)]
    pub(crate) fn tidy_after(&self, time: std::time::Duration) {
        self.directory.tidy(Instant::now() + time);
    }
}

/// Waits for a connection, and notes that with the call.
fn waiting_for<R>(endpoint: &Arc<str>, wait: impl FnOnce() -> R) -> R {
    let began = Instant::now();
    let result = wait();
    let took = began.elapsed();
    note(Stage::Connection, took);
    note_peer(endpoint, took);
    result
}

impl Drop for Peers {
    fn drop(&mut self) {
        self.directory.close();
    }
}
