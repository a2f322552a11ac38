use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use mooncake_memory::{Interest, Wait};
use mooncake_types::RangeRead;
use mooncake_wire::encode_read;

use super::inbound::{Awaited, Outcome};
use super::peers::Lease;
use super::{Exchange, Pulse};
use crate::plan::PeerPlan;
use crate::{ReadOp, TransferError};
use mooncake_connection::Fault;

/// One call's reads at one peer.
pub(crate) struct ReadExchange<'a> {
    lease: Lease,
    ops: &'a [ReadOp],
    plan: PeerPlan,
    bytes_in_flight: u64,
    /// Frames that were asked for.
    asked: usize,
    /// Ids of those that were not answered yet.
    waiting: VecDeque<u64>,
    /// Payload of those.
    in_flight: u64,
    /// Does the lane wait for the first of them already?
    expecting: bool,
    results: Vec<Result<(), TransferError>>,
    /// May the lane be used again?
    clean: bool,
}

impl<'a> ReadExchange<'a> {
    pub(crate) fn new(
        lease: Lease,
        ops: &'a [ReadOp],
        plan: PeerPlan,
        bytes_in_flight: u64,
    ) -> Self {
        Self {
            results: Vec::with_capacity(plan.positions.len()),
            lease,
            ops,
            plan,
            bytes_in_flight,
            asked: 0,
            waiting: VecDeque::new(),
            in_flight: 0,
            expecting: false,
            clean: true,
        }
    }

    fn answered(&self) -> usize {
        self.asked - self.waiting.len()
    }

    fn may_ask(&self) -> bool {
        let Some(next) = self.plan.frames.get(self.asked) else { return false };
        self.waiting.is_empty() || self.in_flight + next.payload <= self.bytes_in_flight
    }

    fn ask(&mut self) {
        while self.may_ask() {
            let frame = &self.plan.frames[self.asked];
            let positions = &self.plan.positions[frame.ops.clone()];
            let ranges: Vec<RangeRead> =
                positions.iter().map(|&position| self.ops[position].range).collect();
            let lane = self.lease.lane();
            let id = lane.next_id();
            encode_read(lane.outbound.bytes(), id, &ranges);
            self.waiting.push_back(id);
            self.asked += 1;
            self.in_flight += frame.payload;
        }
    }

    fn conclude(&mut self) {
        let frame = &self.plan.frames[self.answered()];
        let lane = self.lease.as_lane();
        for outcome in lane.inbound.outcomes() {
            self.clean &= outcome != Outcome::Corrupt;
            self.results.push(match outcome {
                Outcome::Done => Ok(()),
                Outcome::Failed(code) => Err(TransferError::of_read(code)),
                Outcome::Corrupt => {
                    Err(TransferError::Corrupt { endpoint: Arc::clone(&lane.endpoint) })
                }
            });
        }
        self.in_flight -= frame.payload;
        self.waiting.pop_front();
        self.expecting = false;
    }
}

impl Exchange for ReadExchange<'_> {
    fn socket(&self) -> BorrowedFd<'_> {
        self.lease.as_lane().socket()
    }

    fn pulse(&mut self) -> &mut Pulse {
        &mut self.lease.lane().pulse
    }

    fn interest(&self) -> Interest {
        if self.results.len() == self.plan.positions.len() {
            return Interest::default();
        }
        let write = !self.lease.as_lane().outbound.is_empty() || self.may_ask();
        Interest { read: !self.waiting.is_empty(), write }
    }

    fn send(&mut self, wait: Wait) -> Result<(), Fault> {
        self.ask();
        let lane = self.lease.lane();
        lane.send(wait)
    }

    fn recv(&mut self, wait: Wait) -> Result<(), Fault> {
        self.recv_reply(wait)?;
        // What came along with an unpredicted reply lies in memory already: no poll will announce it.
        while !self.expecting
            && !self.waiting.is_empty()
            && self.lease.as_lane().inbound.has_unread()
        {
            self.recv_reply(Wait::Now)?;
        }
        Ok(())
    }

    fn fail(&mut self, fault: &Fault) {
        self.clean = false;
        let error = TransferError::of_fault(fault, &self.plan.endpoint);
        self.lease.doubt(fault, &error);
        self.results.resize(self.plan.positions.len(), Err(error));
    }

    fn finish(self) -> impl Iterator<Item = (usize, Result<(), TransferError>)> {
        if self.clean && !self.lease.as_lane().inbound.has_unread() {
            self.lease.give_back();
        }
        self.plan.positions.into_iter().zip(self.results)
    }
}

impl ReadExchange<'_> {
    fn recv_reply(&mut self, wait: Wait) -> Result<(), Fault> {
        if !self.expecting {
            let Some(&id) = self.waiting.front() else { return Ok(()) };
            let frame = &self.plan.frames[self.answered()];
            let positions = &self.plan.positions[frame.ops.clone()];
            let places = positions.iter().map(|&position| &self.ops[position].dst);
            self.lease.lane().inbound.expect(Awaited::Read, id, places);
            self.expecting = true;
        }
        self.lease.lane().recv(wait)?;
        if self.lease.as_lane().inbound.is_complete() {
            self.conclude();
        }
        Ok(())
    }
}
