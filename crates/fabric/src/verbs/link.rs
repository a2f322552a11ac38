//! The connection with one peer: ends at the NICs of both sides, each of which is a way for requests.

use super::call::call_error;
use super::end::End;
use crate::call::CallError;
use crate::keys::{Keys, NicKeys};
use crate::port::{Request, Ways};

/// Requests of so many bytes are in flight on a way before others go by it, if they are not few.
const MAX_BYTES_IN_FLIGHT: usize = 32 << 20;

/// The NICs of the two sides that a request goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) nic: usize,
    pub(super) peer_nic: usize,
}

/// The ends of a connection, in the order of their addresses.
pub(super) struct Link {
    pub(super) lanes: Vec<Lane>,
    /// How many NICs the peer has.
    pub(super) peer_nics: usize,
    /// How many lanes have broken.
    lost: usize,
    /// Which of several equal lanes is next.
    turn: usize,
    /// Why there is no lane, if there is none.
    pub(super) error: CallError,
}

/// A place for an end.
pub(super) struct Lane {
    pub(super) way: Way,
    pub(super) state: LaneState,
}

pub(super) enum LaneState {
    Open(End),
    /// A request has failed, or its NIC. The queue pair is destroyed.
    Broken,
    /// A NIC did not work when the connection was made.
    Absent,
}

impl Way {
    /// The keys of both sides for a request; `None` if one of the NICs has none.
    pub(super) fn keys(self, request: &Request) -> Option<(u32, u32)> {
        let remote = match &request.keys {
            Keys::One(key) if self.peer_nic == 0 => u32::try_from(*key).ok(),
            Keys::One(_) => None,
            Keys::Each(keys) => keys.of(self.peer_nic),
        };
        Some((local_keys(request).of(self.nic)?, remote?))
    }

    /// How many of the NICs are not the nearest to the memory.
    fn detours(self, request: &Request) -> usize {
        let is_near = match &request.keys {
            Keys::One(_) => true,
            Keys::Each(keys) => keys.is_near(self.peer_nic),
        };
        usize::from(!is_near) + usize::from(!local_keys(request).is_near(self.nic))
    }
}

/// The keys of the local memory of a request.
fn local_keys(request: &Request) -> NicKeys {
    // SAFETY: requests of this provider's ports name registrations of this provider, by the address of their keys. The
    // region keeps its registrations, and the batch keeps the region.
    unsafe { *request.descriptor.cast::<NicKeys>() }
}

impl Link {
    pub(super) fn new(lanes: Vec<Lane>, peer_nics: usize, error: CallError) -> Link {
        Link { lanes, peer_nics, lost: 0, turn: 0, error }
    }

    pub(super) fn open_lanes(&self) -> impl Iterator<Item = (usize, Way, &End)> {
        self.lanes.iter().enumerate().filter_map(|(at, lane)| match &lane.state {
            LaneState::Open(end) => Some((at, lane.way, end)),
            LaneState::Broken | LaneState::Absent => None,
        })
    }

    pub(super) fn end(&mut self, at: usize) -> Option<&mut End> {
        match &mut self.lanes.get_mut(at)?.state {
            LaneState::Open(end) => Some(end),
            LaneState::Broken | LaneState::Absent => None,
        }
    }

    /// Takes the end out of a lane that has broken.
    pub(super) fn break_lane(&mut self, at: usize, error: &CallError) -> Option<End> {
        let state = &mut self.lanes.get_mut(at)?.state;
        match std::mem::replace(state, LaneState::Broken) {
            LaneState::Open(end) => {
                self.lost += 1;
                self.error = error.clone();
                Some(end)
            }
            other => {
                *state = other;
                None
            }
        }
    }

    /// The lane for requests like this one: of those whose NICs are nearest to the memory of both sides, the one with the
    /// fewest bytes in flight. `None` if these have no room.
    ///
    /// # Errors
    /// No lane is open, or none has keys for the memory.
    pub(super) fn choose(
        &mut self,
        request: &Request,
        has_room: impl Fn(Way, &End) -> bool,
    ) -> Result<Option<usize>, CallError> {
        let fitting = self.open_lanes().filter(|(_, way, _)| way.keys(request).is_some());
        let Some(detours) = fitting.map(|(_, way, _)| way.detours(request)).min() else {
            return Err(match self.open_lanes().next() {
                Some(_) => call_error("ibv_post_send", libc::EACCES),
                None => self.error.clone(),
            });
        };
        let (turn, count) = (self.turn, self.lanes.len());
        let nearest = self.open_lanes().filter(|&(_, way, end)| {
            let is_full = end.bytes_in_flight > 0
                && end.bytes_in_flight.saturating_add(request.len) > MAX_BYTES_IN_FLIGHT;
            let is_fitting = way.keys(request).is_some() && way.detours(request) == detours;
            is_fitting && !is_full && has_room(way, end)
        });
        let order = |at: usize| (at + count - turn % count) % count;
        let chosen = nearest.min_by_key(|&(at, _, end)| (end.bytes_in_flight, order(at)));
        let chosen = chosen.map(|(at, ..)| at);
        self.turn = chosen.map_or(self.turn, |at| at + 1);
        Ok(chosen)
    }

    /// How many of these requests go together by a lane: those with keys and the same nearest NICs as the first, up to
    /// `most` of them. If there are several lanes, up to so many bytes.
    pub(super) fn chain(
        &self,
        at: usize,
        requests: &[Request],
        (most, most_bytes): (usize, usize),
    ) -> (usize, usize) {
        let (way, first) = (self.lanes[at].way, &requests[0]);
        let has_others = self.open_lanes().nth(1).is_some();
        let (mut count, mut bytes) = (1, first.len);
        let in_flight = match &self.lanes[at].state {
            LaneState::Open(end) => end.bytes_in_flight,
            LaneState::Broken | LaneState::Absent => 0,
        };
        let room = MAX_BYTES_IN_FLIGHT.saturating_sub(in_flight);
        let most_bytes = if has_others { room.min(most_bytes) } else { room };
        for request in &requests[1..requests.len().min(most)] {
            let is_like_first = !has_others || way.detours(request) == way.detours(first);
            if bytes + request.len > most_bytes || !is_like_first || way.keys(request).is_none() {
                break;
            }
            count += 1;
            bytes += request.len;
        }
        (count, bytes)
    }

    /// What has become of the lanes. `is_up` tells of NICs of this side, of which there are so many.
    pub(super) fn ways(&self, nics: usize, is_up: impl Fn(usize) -> bool) -> Ways {
        let better = |(at, lane): (usize, &Lane)| match lane.state {
            LaneState::Open(_) => {
                let (own, peer) = (at % nics, at % self.peer_nics);
                lane.way.nic != own && is_up(own) || lane.way.peer_nic != peer
            }
            LaneState::Broken | LaneState::Absent => true,
        };
        Ways {
            open: self.open_lanes().count(),
            lost: self.lost,
            can_be_better: self.lanes.iter().enumerate().any(better),
        }
    }
}
