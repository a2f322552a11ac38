use std::collections::VecDeque;
use std::io::ErrorKind;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Instant;

use mooncake_connection::Fault;
use mooncake_memory::{Interest, SliceList, Wait};
use mooncake_types::ErrorCode;
use mooncake_wire::Kind;

use super::SilenceWatch;
use super::inbound::{Outcome, has_payload};
use super::outbound::Outbound;
use super::peer::Lease;
use crate::TransferError;
use crate::plan::PeerPlan;

/// What one call asks of a peer: how to encode its frames, and what their replies mean. Operations are named by their
/// positions in the call.
pub(crate) trait Question<'m> {
    /// The kind of the replies.
    fn reply(&self) -> Kind;

    /// Most frames that are sent ahead of their replies, as far as their payload allows.
    fn most_waiting(&self) -> usize {
        usize::MAX
    }

    /// Encodes the head of a frame.
    fn begin(&mut self, out: &mut Vec<u8>, id: u64, positions: &[usize]);

    /// Encodes more of the frame that was begun last. False once all of it is encoded.
    ///
    /// # Errors
    /// The caller's memory is not accessible.
    fn go_on(&mut self, _out: &mut Outbound<'m>, _positions: &[usize]) -> Result<bool, Fault> {
        Ok(false)
    }

    /// Where the payload of a reply goes, if it has any.
    fn place(&self, _position: usize) -> Option<&SliceList<'m>> {
        None
    }

    /// What a range's failure means to the caller.
    fn failed(&self, code: ErrorCode, endpoint: &Arc<str>) -> TransferError;

    /// Whether a peer that stays silent is taken to be dead.
    fn doubts(&self) -> bool {
        true
    }
}

/// One call's exchange of frames with one peer. Each method takes one step, and the call remembers its progress.
pub(crate) struct PeerCall<'m, Q> {
    lease: Lease<'m>,
    question: Q,
    plan: PeerPlan,
    /// Most payload of frames that were begun and not answered.
    bytes_in_flight: u64,
    /// Frames that were begun.
    begun: usize,
    /// The last of them is not completely encoded.
    is_open: bool,
    /// Ids of the frames that are not answered yet.
    waiting: VecDeque<u64>,
    /// Payload of those frames.
    in_flight: u64,
    /// Whether the lane already expects the reply to the first of them.
    expecting: bool,
    results: Vec<Result<(), TransferError>>,
    /// Whether the lane may be used again.
    clean: bool,
    /// When it was seen to be over.
    ended: Option<Instant>,
}

impl<'m, Q: Question<'m>> PeerCall<'m, Q> {
    pub(crate) fn new(lease: Lease<'m>, question: Q, plan: PeerPlan, bytes_in_flight: u64) -> Self {
        Self {
            results: Vec::with_capacity(plan.positions.len()),
            lease,
            question,
            plan,
            bytes_in_flight,
            begun: 0,
            is_open: false,
            waiting: VecDeque::new(),
            in_flight: 0,
            expecting: false,
            clean: true,
            ended: None,
        }
    }

    /// The peer.
    pub(crate) fn endpoint(&self) -> &Arc<str> {
        &self.plan.endpoint
    }

    /// When it was seen to be over.
    pub(crate) fn ended(&self) -> Instant {
        self.ended.unwrap_or_else(Instant::now)
    }

    /// Notes the time if the call is over.
    pub(super) fn note_end(&mut self, now: Instant) {
        if self.ended.is_none() && self.interest() == Interest::default() {
            self.ended = Some(now);
        }
    }

    /// The lane's socket.
    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.lease.as_lane().socket()
    }

    /// Whether bytes still move on the lane.
    pub(super) fn pulse(&mut self) -> &mut SilenceWatch {
        &mut self.lease.lane().pulse
    }

    /// Whether the call wants to send or to receive; neither once it is over.
    pub(super) fn interest(&self) -> Interest {
        if self.results.len() == self.plan.positions.len() {
            return Interest::default();
        }
        let write = self.is_open || !self.lease.as_lane().outbound.is_empty() || self.may_begin();
        // Replies without payload fit into the kernel's buffers, so they never block the peer.
        let read = !self.waiting.is_empty() && (!write || has_payload(self.question.reply()));
        Interest { read, write }
    }

    fn may_begin(&self) -> bool {
        let Some(next) = self.plan.frames.get(self.begun) else { return false };
        let has_room = self.in_flight + next.payload <= self.bytes_in_flight;
        self.waiting.is_empty() || (has_room && self.waiting.len() < self.question.most_waiting())
    }

    /// Sends some bytes.
    pub(super) fn send(&mut self, wait: Wait) -> Result<(), Fault> {
        if self.lease.as_lane().outbound.is_empty() {
            self.stage()?;
        }
        self.lease.lane().send(wait).map_err(|fault| self.refusal_or(fault))
    }

    /// Encodes what comes next: frames up to a limit, or up to payload that is sent from where it lies.
    fn stage(&mut self) -> Result<(), Fault> {
        while self.lease.as_lane().outbound.takes_more() {
            if !self.is_open {
                if !self.may_begin() {
                    break;
                }
                self.begin_frame();
            }
            let frame = &self.plan.frames[self.begun - 1];
            let positions = &self.plan.positions[frame.ops.clone()];
            self.is_open = self.question.go_on(&mut self.lease.lane().outbound, positions)?;
        }
        Ok(())
    }

    fn begin_frame(&mut self) {
        let frame = &self.plan.frames[self.begun];
        let positions = &self.plan.positions[frame.ops.clone()];
        let lane = self.lease.lane();
        let id = lane.next_id();
        let out = lane.outbound.bytes();
        let start = out.len();
        self.question.begin(out, id, positions);
        if let Some(parent) = mooncake_calls::trace() {
            mooncake_wire::append_trace(out, start, parent);
        }
        self.waiting.push_back(id);
        self.in_flight += frame.payload;
        (self.begun, self.is_open) = (self.begun + 1, true);
    }

    /// Why sending failed: the refusal that the peer sent before it closed the connection, if it sent one.
    fn refusal_or(&mut self, fault: Fault) -> Fault {
        let is_closed = |fault: &Fault| match fault {
            Fault::Io(error) => {
                matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
            }
            _ => false,
        };
        while is_closed(&fault) && !self.waiting.is_empty() {
            match self.recv_reply(Wait::Now) {
                Ok(()) => {}
                Err(Fault::Io(_)) => break,
                Err(said) => return said,
            }
        }
        fault
    }

    /// Receives some bytes.
    pub(super) fn recv(&mut self, wait: Wait) -> Result<(), Fault> {
        self.recv_reply(wait)?;
        // Bytes behind an unpredicted reply are in memory already: no poll will announce them.
        while !self.expecting
            && !self.waiting.is_empty()
            && self.lease.as_lane().inbound.has_unread()
        {
            self.recv_reply(Wait::Now)?;
        }
        Ok(())
    }

    fn recv_reply(&mut self, wait: Wait) -> Result<(), Fault> {
        if !self.expecting {
            let Some(&id) = self.waiting.front() else { return Ok(()) };
            let frame = &self.plan.frames[self.answered()];
            let positions = &self.plan.positions[frame.ops.clone()];
            let nowhere = SliceList::default();
            let place = |&position: &usize| self.question.place(position).unwrap_or(&nowhere);
            let inbound = &mut self.lease.lane().inbound;
            inbound.expect(self.question.reply(), id, positions.iter().map(place));
            self.expecting = true;
        }
        self.lease.lane().recv(wait)?;
        if self.lease.as_lane().inbound.is_complete() {
            self.conclude();
        }
        Ok(())
    }

    /// How many frames are answered.
    fn answered(&self) -> usize {
        self.begun - self.waiting.len()
    }

    fn conclude(&mut self) {
        let answered = self.answered();
        let lane = self.lease.as_lane();
        for outcome in lane.inbound.outcomes() {
            let result = match outcome {
                Outcome::Done => Ok(()),
                Outcome::Failed(code) => Err(self.question.failed(code, &lane.endpoint)),
                Outcome::Corrupt => {
                    Err(TransferError::Corrupt { endpoint: Arc::clone(&lane.endpoint) })
                }
            };
            self.clean &= !matches!(result, Err(TransferError::Corrupt { .. }));
            self.results.push(result);
        }
        self.in_flight -= self.plan.frames[answered].payload;
        self.waiting.pop_front();
        self.expecting = false;
    }

    /// Ends the call: every unfinished operation gets the fault's error.
    pub(super) fn fail(&mut self, fault: &Fault) {
        self.clean = false;
        let error = TransferError::of_fault(fault, &self.plan.endpoint);
        if self.question.doubts() {
            self.lease.doubt(fault, &error);
        }
        self.results.resize(self.plan.positions.len(), Err(error));
    }

    /// The positions of its operations and their results, when it is over. Gives the lane back if it can be used
    /// again.
    pub(crate) fn finish(self) -> impl Iterator<Item = (usize, Result<(), TransferError>)> {
        if self.clean && !self.lease.as_lane().inbound.has_unread() {
            self.lease.give_back();
        }
        self.plan.positions.into_iter().zip(self.results)
    }
}
