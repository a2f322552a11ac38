use std::collections::VecDeque;
use std::io::ErrorKind;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use mooncake_memory::{Interest, RawSlice, Wait, append_checked, crc32c};
use mooncake_types::{Epoch, ErrorCode, RangeWrite};
use mooncake_wire::encode_write;

use super::inbound::{Awaited, Outcome};
use super::peers::Lease;
use super::{Exchange, Pulse};
use crate::plan::{FramePlan, PeerPlan};
use crate::sums::encode_sums;
use crate::{TransferError, WriteOp};
use mooncake_connection::Fault;

/// A range up to this long is copied behind its frame's head and sent with its neighbours by one call.
const SMALL_BYTES: u64 = 16 << 10;

/// About how many copied bytes are gathered for one call.
const GATHER_BYTES: usize = 256 << 10;

/// Most frames sent ahead of their replies. Their replies are so short that the kernel holds all of them, so sending
/// never has to stop to receive.
const MAX_WAITING: usize = 16;

/// One call's writes at one peer.
pub(crate) struct WriteExchange<'a> {
    lease: Lease,
    epoch: Epoch,
    ops: &'a [WriteOp<'a>],
    plan: PeerPlan,
    bytes_in_flight: u64,
    /// The frame that is being sent, or would be next.
    frame: usize,
    /// The next of its operations; `None` before its head is put down.
    next_op: Option<usize>,
    /// Is a payload on its way whose checksums come next?
    owes_sums: bool,
    /// Ids of the frames that were sent, or are being sent, and not answered yet.
    waiting: VecDeque<u64>,
    /// Payload of those.
    in_flight: u64,
    expecting: bool,
    results: Vec<Result<(), TransferError>>,
    /// May the lane be used again?
    clean: bool,
    /// Payload that was copied, before it is laid between its checksums.
    gathered: Vec<u8>,
}

impl<'a> WriteExchange<'a> {
    pub(crate) fn new(
        lease: Lease,
        (epoch, ops): (Epoch, &'a [WriteOp<'a>]),
        plan: PeerPlan,
        bytes_in_flight: u64,
    ) -> Self {
        Self {
            results: Vec::with_capacity(plan.positions.len()),
            lease,
            epoch,
            ops,
            plan,
            bytes_in_flight,
            frame: 0,
            next_op: None,
            owes_sums: false,
            waiting: VecDeque::new(),
            in_flight: 0,
            expecting: false,
            clean: true,
            gathered: Vec::new(),
        }
    }

    fn may_begin(&self) -> bool {
        let Some(next) = self.plan.frames.get(self.frame) else { return false };
        let room = self.in_flight + next.payload <= self.bytes_in_flight;
        self.waiting.is_empty() || (room && self.waiting.len() < MAX_WAITING)
    }

    fn is_sending(&self) -> bool {
        self.next_op.is_some() || !self.lease.as_lane().outbound.is_empty()
    }

    fn op(&self, frame: &FramePlan, index: usize) -> &'a WriteOp<'a> {
        &self.ops[self.plan.positions[frame.ops.start + index]]
    }

    /// Puts down what comes next: heads and copied payload up to a limit, or one payload straight from its place.
    fn stage(&mut self) -> Result<(), Fault> {
        if self.owes_sums {
            let lane = self.lease.lane();
            let sums = lane.outbound.payload_sums().to_vec();
            encode_sums(lane.outbound.bytes(), &sums);
            self.owes_sums = false;
        }
        while self.lease.lane().outbound.bytes().len() < GATHER_BYTES {
            let Some(index) = self.next_op else {
                if !self.may_begin() {
                    break;
                }
                self.begin_frame();
                continue;
            };
            let frame = &self.plan.frames[self.frame];
            if index == frame.ops.len() {
                self.frame += 1;
                self.next_op = None;
            } else if self.op(frame, index).range.len <= SMALL_BYTES {
                self.copy_small(index)?;
            } else {
                let op = self.op(frame, index);
                self.lease.lane().outbound.put_payload(&op.src);
                (self.owes_sums, self.next_op) = (true, Some(index + 1));
                break;
            }
        }
        Ok(())
    }

    fn begin_frame(&mut self) {
        let frame = &self.plan.frames[self.frame];
        let ranges: Vec<RangeWrite<'_>> =
            (0..frame.ops.len()).map(|index| self.op(frame, index).range).collect();
        let lane = self.lease.lane();
        let id = lane.next_id();
        encode_write(lane.outbound.bytes(), id, self.epoch, &ranges);
        self.waiting.push_back(id);
        self.in_flight += frame.payload;
        self.next_op = Some(0);
    }

    /// Copies a run of small payloads by one call, which finds out whether their memory is there.
    fn copy_small(&mut self, first: usize) -> Result<(), Fault> {
        let frame = &self.plan.frames[self.frame];
        let (mut slices, mut lens): (Vec<RawSlice>, Vec<usize>) = (Vec::new(), Vec::new());
        let mut total = 0;
        for index in first..frame.ops.len() {
            let op = self.op(frame, index);
            if op.range.len > SMALL_BYTES || total > GATHER_BYTES {
                break;
            }
            slices.extend_from_slice(op.src.slices());
            lens.push(op.range.len as usize);
            total += op.range.len as usize;
        }
        self.gathered.clear();
        append_checked(&slices, &mut self.gathered)?;
        let mut from = 0;
        let out = self.lease.lane().outbound.bytes();
        for len in &lens {
            let payload = &self.gathered[from..from + len];
            out.extend_from_slice(payload);
            if !payload.is_empty() {
                encode_sums(out, &[crc32c(payload)]);
            }
            from += len;
        }
        self.next_op = Some(first + lens.len());
        Ok(())
    }

    fn conclude(&mut self) {
        let answered = self.answered();
        let lane = self.lease.as_lane();
        for outcome in lane.inbound.outcomes() {
            let corrupt = matches!(outcome, Outcome::Failed(ErrorCode::ChecksumMismatch));
            self.clean &= !corrupt;
            self.results.push(match outcome {
                Outcome::Done => Ok(()),
                Outcome::Failed(code) if !corrupt => Err(TransferError::Refused(code)),
                _ => Err(TransferError::Corrupt { endpoint: Arc::clone(&lane.endpoint) }),
            });
        }
        self.in_flight -= self.plan.frames[answered].payload;
        self.waiting.pop_front();
        self.expecting = false;
    }

    /// Why sending failed: what the peer said before it closed the connection, if it said anything.
    fn last_words(&mut self, fault: Fault) -> Fault {
        let is_closed = |fault: &Fault| match fault {
            Fault::Io(error) => {
                matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
            }
            _ => false,
        };
        while is_closed(&fault) && !self.waiting.is_empty() {
            match self.recv(Wait::Now) {
                Ok(()) => {}
                Err(Fault::Io(_)) => break,
                Err(said) => return said,
            }
        }
        fault
    }

    /// Frames whose reply has come.
    fn answered(&self) -> usize {
        let begun = self.frame + usize::from(self.next_op.is_some());
        begun - self.waiting.len()
    }
}

impl Exchange for WriteExchange<'_> {
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
        let write = self.is_sending() || self.may_begin();
        Interest { write, read: !write }
    }

    fn send(&mut self, wait: Wait) -> Result<(), Fault> {
        if self.lease.as_lane().outbound.is_empty() {
            self.stage()?;
        }
        self.lease.lane().send(wait).map_err(|fault| self.last_words(fault))
    }

    fn recv(&mut self, wait: Wait) -> Result<(), Fault> {
        if !self.expecting {
            let Some(&id) = self.waiting.front() else { return Ok(()) };
            let frame = &self.plan.frames[self.answered()];
            let nowhere = mooncake_memory::SliceList::default();
            let places = std::iter::repeat_n(&nowhere, frame.ops.len());
            self.lease.lane().inbound.expect(Awaited::Write, id, places);
            self.expecting = true;
        }
        self.lease.lane().recv(wait)?;
        if self.lease.as_lane().inbound.is_complete() {
            self.conclude();
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
