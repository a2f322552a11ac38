//! The ends of a process for its peers, and the queues in which their requests end.

use std::cell::RefCell;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mooncake_memory::Region;

use super::abi::*;
use super::address::{EndAddress, MAX_ENDS};
use super::call::{Owned, call_error};
use super::device::{VerbsDevice, not_supported};
use super::end::{Chain, End, Posted};
use super::link::{Lane, LaneState, Link, Way};
use super::links::Links;
use super::nic::Nic;
use super::queue::{Queue, QueueSet};
use crate::abi::Context as Place;
use crate::address::Address;
use crate::call::CallError;
use crate::port::{Completion, Direction, Pairs, Port, Request, Side, Via, Ways};

/// If there are several ways to a peer, a chain has at most so many slices, so that all ways get some.
const SLICES_PER_CHAIN: usize = 4;

pub(super) struct EndPort {
    // The ends go first, then what they use.
    state: RefCell<Links>,
    scratch: Option<Scratch>,
    queues: QueueSet,
    device: Arc<VerbsDevice>,
    side: Side,
    own: Address,
}

// SAFETY: the addresses in it are only compared, or passed to the library, which lets any thread use its objects.
unsafe impl Send for EndPort {}

/// Memory for the bytes that are read behind writes.
struct Scratch {
    // Dropped in this order.
    mrs: Vec<Option<Owned<Mr>>>,
    memory: Region,
}

impl EndPort {
    pub(super) fn open(device: Arc<VerbsDevice>, side: Side) -> Result<EndPort, CallError> {
        let nics = &device.nics.list;
        let (queues, scratch) = match side {
            Side::Initiator => {
                let open = |nic: &Nic| Queue::open(nic, device.requests, true).map(Arc::new);
                let queues = nics.iter().map(open).collect::<Result<_, _>>()?;
                (queues, Some(Scratch::new(&device)?))
            }
            Side::Target => (nics.iter().map(Nic::queue_to_serve).collect::<Result<_, _>>()?, None),
        };
        let state = Links {
            in_flight: vec![0; nics.len()],
            changes: device.nics.changes(),
            ..Links::default()
        };
        let (queues, own) = (QueueSet::new(queues)?, device.own_address());
        Ok(EndPort { state: RefCell::new(state), scratch, queues, device, side, own })
    }
}

impl Scratch {
    fn new(device: &VerbsDevice) -> Result<Scratch, CallError> {
        let memory = Region::anonymous(1).map_err(|_| call_error("ibv_reg_mr", libc::ENOMEM))?;
        let (address, len) = (memory.whole().as_ptr().cast(), memory.whole().len());
        let register = |nic: &Nic| match nic.register(address, len, IBV_ACCESS_LOCAL_WRITE) {
            Ok(mr) => Ok(Some(mr)),
            Err(_) if nic.is_dead() => Ok(None),
            Err(error) => Err(error),
        };
        let mrs = device.nics.list.iter().map(register).collect::<Result<_, _>>()?;
        Ok(Scratch { mrs, memory })
    }

    /// The memory for a request by this NIC.
    fn byte(&self, nic: usize) -> Option<Sge> {
        let mr = self.mrs.get(nic)?.as_ref()?;
        // SAFETY: the object lives.
        let lkey = unsafe { (*mr.as_ptr()).lkey };
        Some(Sge { addr: self.memory.whole().as_ptr().addr() as u64, length: 1, lkey })
    }
}

impl EndPort {
    /// Takes what has ended from the queues.
    fn take_ended(&self) -> Result<(), CallError> {
        let state = &mut *self.state.borrow_mut();
        let nics = &self.device.nics;
        let mut ended = std::mem::take(&mut state.ended);
        let mut taken = Ok(());
        for (nic, queue) in self.queues.each().enumerate() {
            if state.in_flight[nic] == 0 {
                continue;
            }
            taken = taken.and(queue.poll(&mut ended).map(drop));
            for one in ended.drain(..) {
                state.end(nic, &one, &nics.list);
            }
        }
        state.ended = ended;
        state.notice(nics);
        taken
    }

    /// Makes an end at a NIC, or at the next one that works.
    fn open_end(&self, wanted: usize, via: Via) -> Result<(Way, End), CallError> {
        let nics = &self.device.nics.list;
        let mut error = None;
        for nic in (wanted..wanted + nics.len()).map(|nic| nic % nics.len()) {
            match End::open(&nics[nic], self.queues.at(nic), self.side, via) {
                Ok(end) => return Ok((Way { nic, peer_nic: 0 }, end)),
                Err(failed) => error = error.or(Some(failed)),
            }
        }
        Err(error.expect("a device has a NIC"))
    }

    /// Posts a chain by a lane, and returns of how many requests.
    ///
    /// # Safety
    /// As [`Port::post`].
    unsafe fn post_by(
        &self,
        state: &mut Links,
        (direction, peer, at): (Direction, u64, usize),
        requests: &[Request],
        context: *mut Place,
    ) -> Result<usize, CallError> {
        let link = state.links.get_mut(&peer).expect("a lane of it was chosen");
        let way = link.lanes[at].way;
        let behind = behind(direction);
        let in_flight = state.in_flight[way.nic];
        let end = link.end(at).expect("an open lane was chosen");
        // Half of the room, so that one chain is in flight while the next is posted.
        let half = (end.room / 2).max(1 + behind);
        let most = room(end, in_flight, self.device.requests).min(half) - behind;
        let slices = usize::try_from(self.device.options.slice_bytes).unwrap_or(usize::MAX);
        let most_bytes = slices.saturating_mul(SLICES_PER_CHAIN);
        let (count, bytes) = link.chain(at, requests, (most, most_bytes));
        let nic = &self.device.nics.list[way.nic];
        let scratch = self.scratch.as_ref().and_then(|scratch| scratch.byte(way.nic));
        let scratch = scratch.ok_or_else(|| not_supported("ibv_post_send"))?;
        state.next_wr_id += 1;
        let (wr_id, all) = (state.next_wr_id, count + behind);
        let chain = Chain { wr_id, place: context, requests: all, bytes };
        let end = link.end(at).expect("as above");
        // SAFETY: the caller vouches for the memory, and the scratch memory is dropped after the ends.
        let posted = unsafe {
            let chain = (chain, way);
            end.post(direction, &requests[..count], chain, (scratch, &mut state.buffer))
        };
        let error = match posted {
            Posted::NoRoom => return Ok(0),
            Posted::Nothing(error) if link.open_lanes().nth(1).is_none() => return Err(error),
            Posted::Nothing(error) => {
                // The next attempt goes by another lane.
                state.break_lane((peer, at), (&error, true), &self.device.nics.list);
                return Ok(0);
            }
            Posted::All => None,
            Posted::Part(error) => Some(error),
        };
        state.in_flight[way.nic] += all;
        nic.counts.requests.fetch_add(count as u64, Ordering::Relaxed);
        let moved = match direction {
            Direction::Read => &nic.counts.read_bytes,
            Direction::Write => &nic.counts.written_bytes,
        };
        moved.fetch_add(bytes as u64, Ordering::Relaxed);
        if let Some(error) = error {
            state.break_lane((peer, at), (&error, true), &self.device.nics.list);
        }
        Ok(count)
    }
}

/// How many requests follow those of a chain.
fn behind(direction: Direction) -> usize {
    usize::from(direction == Direction::Write)
}

/// How many requests more an end may have in flight, at a NIC that has so many in flight of at most `most`.
fn room(end: &End, in_flight: usize, most: usize) -> usize {
    end.room.saturating_sub(end.in_flight).min(most.saturating_sub(in_flight))
}

impl Port for EndPort {
    fn own(&self) -> &Address {
        &self.own
    }

    fn insert(&self, _: &Address) -> Result<u64, CallError> {
        Err(not_supported("ibv_modify_qp"))
    }

    fn remove(&self, peer: u64) {
        let state = &mut *self.state.borrow_mut();
        let Some(link) = state.links.remove(&peer) else { return };
        for (_, way, end) in link.open_lanes() {
            state.numbers.remove(&(way.nic, end.number()));
            debug_assert_eq!(end.in_flight, 0, "a peer with requests in flight stays");
        }
    }

    fn pairs(&self) -> Option<&dyn Pairs> {
        Some(self)
    }

    unsafe fn post(
        &self,
        direction: Direction,
        peer: u64,
        requests: &[Request],
        context: *mut Place,
    ) -> Result<usize, CallError> {
        let state = &mut *self.state.borrow_mut();
        state.notice(&self.device.nics);
        let Some(link) = state.links.get_mut(&peer) else {
            return Err(call_error("ibv_post_send", libc::ENOTCONN));
        };
        let (in_flight, most) = (&state.in_flight, self.device.requests);
        let has_room =
            |way: Way, end: &End| room(end, in_flight[way.nic], most) > behind(direction);
        let Some(at) = link.choose(&requests[0], has_room)? else { return Ok(0) };
        let chosen = (direction, peer, at);
        // SAFETY: as the caller promises.
        unsafe { self.post_by(state, chosen, requests, context) }
    }

    fn poll(&self, completions: &mut Vec<Completion>) -> Result<(), CallError> {
        let taken = self.take_ended();
        completions.append(&mut self.state.borrow_mut().completions);
        taken
    }

    fn quiet(&self) -> Option<RawFd> {
        let descriptor = self.queues.arm()?;
        // What ended before the queues were armed is not told by the descriptor.
        let is_quiet = self.take_ended().is_ok() && self.state.borrow().completions.is_empty();
        is_quiet.then_some(descriptor)
    }

    fn has_descriptor(&self) -> bool {
        self.queues.has_channels()
    }
}

impl Pairs for EndPort {
    fn prepare(&self, with: &Address, via: Via) -> Result<(u64, Address), CallError> {
        let peers = EndAddress::all_of_bytes(&with.bytes);
        let peers = peers.ok_or_else(|| call_error("ibv_modify_qp", libc::EINVAL))?;
        let nics = &self.device.nics.list;
        let count = match self.side {
            Side::Initiator => {
                let pairs = nics.len().max(peers.len());
                (pairs * self.device.options.qps_per_peer as usize).min(MAX_ENDS)
            }
            Side::Target => peers.len(),
        };
        let is_absent = |at: usize| {
            self.side == Side::Target && peers.get(at).is_none_or(|peer| peer.number == 0)
        };
        let (mut lanes, mut addresses, mut error) = (Vec::new(), Vec::new(), None);
        for at in 0..count {
            let wanted = at % nics.len();
            let absent = Way { nic: wanted, peer_nic: 0 };
            let opened = match is_absent(at) {
                true => None,
                false => self.open_end(wanted, via).map_err(|failed| error = Some(failed)).ok(),
            };
            addresses.push(match &opened {
                Some((_, end)) => end.address(),
                None => nics[wanted].own_address(),
            });
            lanes.push(match opened {
                Some((way, end)) => Lane { way, state: LaneState::Open(end) },
                None => Lane { way: absent, state: LaneState::Absent },
            });
        }
        let error = error.unwrap_or_else(|| call_error("ibv_modify_qp", libc::ENOTCONN));
        let link = Link::new(lanes, peers.len(), error);
        if link.open_lanes().next().is_none() {
            return Err(link.error);
        }
        let state = &mut *self.state.borrow_mut();
        state.next_link += 1;
        for (at, way, end) in link.open_lanes() {
            state.numbers.insert((way.nic, end.number()), (state.next_link, at));
        }
        state.links.insert(state.next_link, link);
        Ok((state.next_link, EndAddress::to_address(&addresses)))
    }

    fn join(&self, ends: u64, address: &Address) -> Result<Address, CallError> {
        let state = &mut *self.state.borrow_mut();
        let wrong = || call_error("ibv_modify_qp", libc::EINVAL);
        let peers = EndAddress::all_of_bytes(&address.bytes).ok_or_else(wrong)?;
        let link = state.links.get_mut(&ends).ok_or_else(wrong)?;
        if peers.len() != link.lanes.len() {
            return Err(wrong());
        }
        for (lane, peer) in link.lanes.iter_mut().zip(&peers) {
            let LaneState::Open(end) = &lane.state else { continue };
            let nic = &self.device.nics.list[lane.way.nic];
            let joined = match peer.number {
                0 => Err(call_error("ibv_modify_qp", libc::ENOTCONN)),
                _ => end.join(nic, peer),
            };
            lane.way.peer_nic = peer.nic.into();
            if let Err(error) = joined {
                state.numbers.remove(&(lane.way.nic, end.number()));
                lane.state = LaneState::Absent;
                link.error = error;
            }
        }
        if link.open_lanes().next().is_none() {
            return Err(link.error.clone());
        }
        let joined = link.lanes.iter().map(|lane| match &lane.state {
            LaneState::Open(end) => end.address(),
            LaneState::Broken | LaneState::Absent => {
                self.device.nics.list[lane.way.nic].own_address()
            }
        });
        Ok(EndAddress::to_address(&joined.collect::<Vec<_>>()))
    }

    fn ways(&self, peer: u64) -> Option<Ways> {
        let state = &mut *self.state.borrow_mut();
        state.notice(&self.device.nics);
        let nics = &self.device.nics.list;
        Some(state.links.get(&peer)?.ways(nics.len(), |nic| nics[nic].is_up()))
    }
}
