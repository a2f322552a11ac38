use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mooncake_connection::Fault;

use super::lane::Lane;
use super::shares::{Purpose, Shares};
use crate::TransferError;

/// A peer that could not be reached, refused, or fell silent is not connected to again for this long.
const SUSPICION: Duration = Duration::from_secs(1);

/// One peer, and the lanes to it.
pub(super) struct Peer {
    pub(super) endpoint: Arc<str>,
    state: Mutex<PeerState>,
    /// Notified for calls that wait for a lane, one for each [`Purpose`].
    pub(super) freed: [Condvar; 2],
}

#[derive(Default)]
pub(super) struct PeerState {
    pub(super) idle: Vec<Lane<'static>>,
    /// Lanes that exist or are being opened, idle ones included.
    pub(super) lanes: usize,
    pub(super) shares: Shares,
    pub(super) suspect: Option<(Instant, TransferError)>,
}

impl PeerState {
    /// Takes out the idle lanes that `keep` rejects.
    fn close_idle(&mut self, keep: impl Fn(&Lane<'_>) -> bool) -> Vec<Lane<'static>> {
        let closed: Vec<Lane<'static>> = self.idle.extract_if(.., |lane| !keep(lane)).collect();
        self.lanes -= closed.len();
        closed
    }

    /// Takes the idle lane that was used last: its buffers and its window are warm.
    pub(super) fn take_idle(&mut self, purpose: Purpose) -> Option<Lane<'static>> {
        while let Some(lane) = self.idle.pop() {
            if lane.is_alive() {
                self.shares.take(purpose);
                return Some(lane);
            }
            self.lanes -= 1;
        }
        None
    }

    /// Why the peer may not be connected to now, if it is suspect.
    pub(super) fn suspicion(&mut self) -> Option<TransferError> {
        self.suspect.take_if(|(until, _)| Instant::now() >= *until);
        self.suspect.as_ref().map(|(_, error)| error.clone())
    }
}

/// The use of one lane. Unless it is given back with [`Lease::give_back`], the lane is closed.
pub(crate) struct Lease<'m> {
    peer: Arc<Peer>,
    purpose: Purpose,
    lane: Option<Lane<'m>>,
}

impl<'m> Lease<'m> {
    pub(super) fn of(peer: Arc<Peer>, purpose: Purpose, lane: Lane<'m>) -> Self {
        Self { peer, purpose, lane: Some(lane) }
    }

    pub(crate) fn lane(&mut self) -> &mut Lane<'m> {
        self.lane.as_mut().expect("a lease holds its lane until it is given back")
    }

    pub(crate) fn as_lane(&self) -> &Lane<'m> {
        self.lane.as_ref().expect("a lease holds its lane until it is given back")
    }

    /// The lane has failed. If it was silent, all lanes to this peer will be: none is used for a while.
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
        if let Some(lane) = self.lane.take().map(Lane::rest) {
            let mut state = self.peer.lock();
            state.idle.push(lane);
            state.shares.give_back(self.purpose);
            let waiting = state.shares.waiting();
            drop(state);
            // Waking costs a system call even if no call waits.
            waiting.for_each(|purpose| self.peer.freed[purpose as usize].notify_one());
        }
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        if self.lane.take().is_some() {
            self.peer.forget_lane(self.purpose);
        }
    }
}

impl Peer {
    pub(super) fn new(endpoint: Arc<str>) -> Self {
        Self { endpoint, state: Mutex::default(), freed: Default::default() }
    }

    /// Closes idle lanes that are dead, or unused for long.
    pub(super) fn tidy(&self, now: Instant) {
        let closed = self.lock().close_idle(|lane| lane.is_wanted(now) && lane.is_alive());
        drop(closed);
    }

    /// Whether there is nothing to remember: no lane, and no suspicion.
    pub(super) fn is_blank(&self) -> bool {
        let mut state = self.lock();
        state.lanes == 0 && state.suspicion().is_none()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, PeerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn forget_lane(&self, purpose: Purpose) {
        let mut state = self.lock();
        state.lanes -= 1;
        state.shares.give_back(purpose);
        drop(state);
        // All of them: the first to wake may find the peer suspect and leave without waking the next.
        self.freed.iter().for_each(Condvar::notify_all);
    }

    /// The peer could not be reached: no call connects to it for a while.
    pub(super) fn suspect(&self, error: &TransferError) {
        self.lock().suspect = Some((Instant::now() + SUSPICION, error.clone()));
    }
}
