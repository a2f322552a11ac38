//! The ends of a process for its peers, and the queue in which their requests end.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::sync::Arc;

use mooncake_memory::Region;

use super::abi::*;
use super::address::EndAddress;
use super::call::{Owned, call_error, status_error};
use super::device::{VerbsDevice, not_supported};
use super::end::{Chain, ChainBuffer, End, Posted};
use super::queue::{Ended, Queue};
use crate::abi::Context as Place;
use crate::address::Address;
use crate::call::CallError;
use crate::port::{Completion, Direction, Pairs, Port, Request, Side};

pub(super) struct EndPort {
    // The ends go first, then what they use.
    state: RefCell<Ends>,
    scratch: Option<Scratch>,
    queue: Arc<Queue>,
    device: Arc<VerbsDevice>,
    side: Side,
    own: Address,
}

// SAFETY: the addresses in it are only compared, or passed to the library, which lets any thread use its objects.
unsafe impl Send for EndPort {}

#[derive(Default)]
struct Ends {
    ends: BTreeMap<u64, EndState>,
    /// By the numbers of their queue pairs.
    numbers: BTreeMap<u32, u64>,
    next_end: u64,
    next_wr_id: u64,
    /// How many requests are in flight.
    in_flight: usize,
    /// What has ended and was not taken yet.
    completions: Vec<Completion>,
    ended: Vec<Ended>,
    buffer: ChainBuffer,
}

enum EndState {
    Open(End),
    /// A request has failed. The queue pair is destroyed.
    Broken(CallError),
}

/// Memory for the bytes that are read behind writes.
struct Scratch {
    // Dropped in this order.
    mr: Owned<Mr>,
    memory: Region,
}

impl EndPort {
    pub(super) fn open(
        device: Arc<VerbsDevice>,
        queue: Arc<Queue>,
        side: Side,
    ) -> Result<EndPort, CallError> {
        let scratch = match side {
            Side::Initiator => Some(Scratch::new(&device)?),
            Side::Target => None,
        };
        let own = device.nic.address(0, 0).to_address();
        Ok(EndPort { state: RefCell::default(), scratch, queue, device, side, own })
    }
}

impl Scratch {
    fn new(device: &VerbsDevice) -> Result<Scratch, CallError> {
        let memory = Region::anonymous(1).map_err(|_| call_error("ibv_reg_mr", libc::ENOMEM))?;
        let (address, len) = (memory.whole().as_ptr().cast(), memory.whole().len());
        let mr = device.register_bytes(address, len, IBV_ACCESS_LOCAL_WRITE)?;
        Ok(Scratch { mr, memory })
    }

    fn byte(&self) -> Sge {
        // SAFETY: the object lives.
        let lkey = unsafe { (*self.mr.as_ptr()).lkey };
        Sge { addr: self.memory.whole().as_ptr().addr() as u64, length: 1, lkey }
    }
}

impl Ends {
    /// Destroys an end, and ends all that it had in flight in error.
    fn break_end(&mut self, number: u64, error: &CallError) {
        let Some(state) = self.ends.get_mut(&number) else { return };
        let EndState::Open(end) = std::mem::replace(state, EndState::Broken(error.clone())) else {
            return;
        };
        self.numbers.remove(&end.number());
        for Chain { place, requests, .. } in end.destroy() {
            self.in_flight -= requests;
            self.completions.push(Completion { context: place, result: Err(error.clone()) });
        }
    }

    /// Notes a completion. Those of queue pairs that were destroyed are left out.
    fn end(&mut self, ended: &Ended, error: impl FnOnce(u32) -> CallError) {
        let Some(&number) = self.numbers.get(&ended.number) else { return };
        let Some(EndState::Open(end)) = self.ends.get_mut(&number) else { return };
        if ended.status != IBV_WC_SUCCESS {
            return self.break_end(number, &error(ended.status));
        }
        for Chain { place, requests, .. } in end.ended(ended.wr_id) {
            self.in_flight -= requests;
            self.completions.push(Completion { context: place, result: Ok(()) });
        }
    }
}

impl EndPort {
    /// Takes what has ended from the queue.
    fn take_ended(&self) -> Result<(), CallError> {
        let state = &mut *self.state.borrow_mut();
        let mut ended = std::mem::take(&mut state.ended);
        let taken = self.queue.poll(&mut ended);
        let library = self.device.nic.library;
        for one in ended.drain(..) {
            state.end(&one, |status| status_error(library, status));
        }
        state.ended = ended;
        taken.map(drop)
    }
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
        if let Some(EndState::Open(end)) = state.ends.remove(&peer) {
            state.numbers.remove(&end.number());
            debug_assert_eq!(end.in_flight(), 0, "a peer with requests in flight stays");
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
        let scratch = self.scratch.as_ref().ok_or_else(|| not_supported("ibv_post_send"))?.byte();
        let end = match state.ends.get_mut(&peer) {
            Some(EndState::Open(end)) => end,
            Some(EndState::Broken(error)) => return Err(error.clone()),
            None => return Err(call_error("ibv_post_send", libc::ENOTCONN)),
        };
        let behind = usize::from(direction == Direction::Write);
        let room_of_end = end.room.saturating_sub(end.in_flight());
        let room = room_of_end.min(self.device.requests.saturating_sub(state.in_flight));
        // Half of the room, so that one chain is in flight while the next is posted.
        let most = room.min((end.room / 2).max(1 + behind)).saturating_sub(behind);
        if most == 0 {
            return Ok(0);
        }
        let count = requests.len().min(most);
        state.next_wr_id += 1;
        let (wr_id, all) = (state.next_wr_id, count + behind);
        let chain = Chain { wr_id, place: context, requests: all };
        // SAFETY: the caller vouches for the memory, and the scratch memory is dropped after the ends.
        let posted =
            unsafe { end.post(direction, &requests[..count], chain, (scratch, &mut state.buffer)) };
        match posted {
            Posted::All => {
                state.in_flight += all;
                Ok(count)
            }
            Posted::NoRoom => Ok(0),
            Posted::Nothing(error) => Err(error),
            Posted::Part(error) => {
                state.in_flight += all;
                state.break_end(peer, &error);
                Ok(count)
            }
        }
    }

    fn poll(&self, completions: &mut Vec<Completion>) -> Result<(), CallError> {
        let taken = self.take_ended();
        completions.append(&mut self.state.borrow_mut().completions);
        taken
    }

    fn quiet(&self) -> Option<RawFd> {
        let descriptor = self.queue.arm()?;
        // What ended before the queue was armed is not told by the descriptor.
        let is_quiet = self.take_ended().is_ok() && self.state.borrow().completions.is_empty();
        is_quiet.then_some(descriptor)
    }

    fn has_descriptor(&self) -> bool {
        self.queue.has_channel()
    }
}

impl Pairs for EndPort {
    fn prepare(&self) -> Result<(u64, Address), CallError> {
        let end = End::open(&self.device, &self.queue, self.side)?;
        let address = end.address(&self.device).to_address();
        let state = &mut *self.state.borrow_mut();
        state.next_end += 1;
        state.numbers.insert(end.number(), state.next_end);
        state.ends.insert(state.next_end, EndState::Open(end));
        Ok((state.next_end, address))
    }

    fn join(&self, end: u64, address: &Address) -> Result<(), CallError> {
        let state = self.state.borrow();
        let peer = EndAddress::of_bytes(&address.bytes);
        match (state.ends.get(&end), peer) {
            (Some(EndState::Open(end)), Some(peer)) => end.join(&self.device, &peer),
            _ => Err(call_error("ibv_modify_qp", libc::EINVAL)),
        }
    }
}
