use std::os::fd::BorrowedFd;
use std::sync::Arc;

use mooncake_memory::{Interest, SliceList, Wait};
use mooncake_types::RangeDrop;
use mooncake_wire::encode_drop;

use super::inbound::{Awaited, Outcome};
use super::peers::Lease;
use super::{Exchange, Pulse};
use crate::plan::PeerPlan;
use crate::{Discard, TransferError};
use mooncake_connection::Fault;

/// One call's drops at one peer, frame after frame.
pub(crate) struct DropExchange<'a> {
    lease: Lease,
    ops: &'a [Discard],
    plan: PeerPlan,
    /// The frame that is being sent or answered, or would be next.
    frame: usize,
    /// The frame has been put down, and its reply is awaited.
    is_asked: bool,
    results: Vec<Result<(), TransferError>>,
    /// May the lane be used again?
    clean: bool,
}

impl<'a> DropExchange<'a> {
    pub(crate) fn new(lease: Lease, ops: &'a [Discard], plan: PeerPlan) -> Self {
        let results = Vec::with_capacity(plan.positions.len());
        Self { lease, ops, plan, frame: 0, is_asked: false, results, clean: true }
    }

    fn ask(&mut self) {
        let frame = &self.plan.frames[self.frame];
        let positions = &self.plan.positions[frame.ops.clone()];
        let ranges: Vec<RangeDrop> =
            positions.iter().map(|&position| self.ops[position].range).collect();
        let lane = self.lease.lane();
        let id = lane.next_id();
        encode_drop(lane.outbound.bytes(), id, &ranges);
        let nowhere = SliceList::default();
        lane.inbound.expect(Awaited::Drop, id, std::iter::repeat_n(&nowhere, ranges.len()));
        self.is_asked = true;
    }

    fn conclude(&mut self) {
        let lane = self.lease.as_lane();
        self.results.extend(lane.inbound.outcomes().map(|outcome| match outcome {
            Outcome::Done => Ok(()),
            Outcome::Failed(code) => Err(TransferError::Refused(code)),
            Outcome::Corrupt => {
                Err(TransferError::Corrupt { endpoint: Arc::clone(&lane.endpoint) })
            }
        }));
        (self.frame, self.is_asked) = (self.frame + 1, false);
    }
}

impl Exchange for DropExchange<'_> {
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
        let write = !self.is_asked || !self.lease.as_lane().outbound.is_empty();
        Interest { write, read: !write }
    }

    fn send(&mut self, wait: Wait) -> Result<(), Fault> {
        if !self.is_asked {
            self.ask();
        }
        self.lease.lane().send(wait)
    }

    fn recv(&mut self, wait: Wait) -> Result<(), Fault> {
        self.lease.lane().recv(wait)?;
        if self.lease.as_lane().inbound.is_complete() {
            self.conclude();
        }
        Ok(())
    }

    fn fail(&mut self, fault: &Fault) {
        self.clean = false;
        let error = TransferError::of_fault(fault, &self.plan.endpoint);
        self.results.resize(self.plan.positions.len(), Err(error));
    }

    fn finish(self) -> impl Iterator<Item = (usize, Result<(), TransferError>)> {
        if self.clean && !self.lease.as_lane().inbound.has_unread() {
            self.lease.give_back();
        }
        self.plan.positions.into_iter().zip(self.results)
    }
}
