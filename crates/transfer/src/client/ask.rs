use std::os::fd::BorrowedFd;
use std::sync::Arc;

use mooncake_memory::{Interest, SliceList, Wait};
use mooncake_types::{RangeDrop, RangeRead};
use mooncake_wire::{encode_drop, encode_promise};

use super::inbound::{Awaited, Outcome};
use super::peers::Lease;
use super::{Exchange, Pulse};
use crate::plan::PeerPlan;
use crate::{Discard, TransferError};
use mooncake_connection::Fault;

/// What nodes are asked for that moves no bytes.
#[derive(Clone, Copy)]
pub(crate) enum Question<'a> {
    Drop(&'a [Discard]),
    Promise(&'a [(Arc<str>, RangeRead)]),
}

impl Question<'_> {
    fn encode(self, out: &mut Vec<u8>, id: u64, positions: &[usize]) -> Awaited {
        match self {
            Self::Drop(ops) => {
                let ranges: Vec<RangeDrop> = positions.iter().map(|&at| ops[at].range).collect();
                encode_drop(out, id, &ranges);
                Awaited::Drop
            }
            Self::Promise(ops) => {
                let ranges: Vec<RangeRead> = positions.iter().map(|&at| ops[at].1).collect();
                encode_promise(out, id, &ranges);
                Awaited::Promise
            }
        }
    }
}

/// One call's questions to one peer, frame after frame.
pub(crate) struct AskExchange<'a> {
    lease: Lease,
    question: Question<'a>,
    plan: PeerPlan,
    /// The frame that is being sent or answered, or would be next.
    frame: usize,
    /// The frame has been put down, and its reply is awaited.
    is_asked: bool,
    results: Vec<Result<(), TransferError>>,
    /// May the lane be used again?
    clean: bool,
}

impl<'a> AskExchange<'a> {
    pub(crate) fn new(lease: Lease, question: Question<'a>, plan: PeerPlan) -> Self {
        let results = Vec::with_capacity(plan.positions.len());
        Self { lease, question, plan, frame: 0, is_asked: false, results, clean: true }
    }

    fn ask(&mut self) {
        let frame = &self.plan.frames[self.frame];
        let positions = &self.plan.positions[frame.ops.clone()];
        let lane = self.lease.lane();
        let id = lane.next_id();
        let awaited = self.question.encode(lane.outbound.bytes(), id, positions);
        let nowhere = SliceList::default();
        lane.inbound.expect(awaited, id, std::iter::repeat_n(&nowhere, positions.len()));
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

impl Exchange for AskExchange<'_> {
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
