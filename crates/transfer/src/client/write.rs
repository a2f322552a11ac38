use std::sync::Arc;

use mooncake_connection::Fault;
use mooncake_memory::{RawSlice, append_checked, crc32c};
use mooncake_types::{Epoch, ErrorCode, RangeWrite};
use mooncake_wire::{Kind, encode_write};

use super::outbound::{GATHER_BYTES, Outbound};
use super::peer_call::Question;
use crate::sums::encode_sums;
use crate::{TransferError, WriteOp};

/// A range up to this long is copied behind its frame's head and sent with its neighbours by one call.
const SMALL_BYTES: u64 = 16 << 10;

/// Most frames sent ahead of their replies. Their replies are so short that the kernel holds all of them, so sending
/// never has to stop to receive.
const MAX_WAITING: usize = 16;

/// Asks a node to write ranges.
pub(crate) struct Write<'a> {
    epoch: Epoch,
    ops: &'a [WriteOp<'a>],
    /// The next operation of the frame that was begun.
    next: usize,
    /// Whether a payload is being sent whose checksums come next.
    owes_sums: bool,
    /// Copied payload, before each part gets its checksums.
    gathered: Vec<u8>,
}

impl<'a> Write<'a> {
    pub(crate) fn new(epoch: Epoch, ops: &'a [WriteOp<'a>]) -> Self {
        Self { epoch, ops, next: 0, owes_sums: false, gathered: Vec::new() }
    }

    /// Copies a run of small payloads by one call, which fails if their memory is not accessible.
    fn copy_small(&mut self, out: &mut Vec<u8>, positions: &[usize]) -> Result<(), Fault> {
        let (mut slices, mut lens): (Vec<RawSlice<'_>>, Vec<usize>) = (Vec::new(), Vec::new());
        let mut total = 0;
        for op in positions[self.next..].iter().map(|&at| &self.ops[at]) {
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
        for len in &lens {
            let payload = &self.gathered[from..from + len];
            out.extend_from_slice(payload);
            if !payload.is_empty() {
                encode_sums(out, &[crc32c(payload)]);
            }
            from += len;
        }
        self.next += lens.len();
        Ok(())
    }
}

impl<'a> Question<'a> for Write<'a> {
    fn reply(&self) -> Kind {
        Kind::WriteReply
    }

    fn most_waiting(&self) -> usize {
        MAX_WAITING
    }

    fn begin(&mut self, out: &mut Vec<u8>, id: u64, positions: &[usize]) {
        let ranges: Vec<RangeWrite<'_>> = positions.iter().map(|&at| self.ops[at].range).collect();
        encode_write(out, id, self.epoch, &ranges);
        self.next = 0;
    }

    /// Adds a run of copied payloads, or one payload straight from its place and then its checksums.
    fn go_on(&mut self, out: &mut Outbound<'a>, positions: &[usize]) -> Result<bool, Fault> {
        if std::mem::take(&mut self.owes_sums) {
            let sums = out.payload_sums().to_vec();
            encode_sums(out.bytes(), &sums);
        } else if let Some(&position) = positions.get(self.next) {
            let op = &self.ops[position];
            if op.range.len <= SMALL_BYTES {
                self.copy_small(out.bytes(), positions)?;
            } else {
                out.put_payload(&op.src);
                (self.owes_sums, self.next) = (true, self.next + 1);
            }
        }
        Ok(self.owes_sums || self.next < positions.len())
    }

    fn failed(&self, code: ErrorCode, endpoint: &Arc<str>) -> TransferError {
        match code {
            ErrorCode::ChecksumMismatch => {
                TransferError::Corrupt { endpoint: Arc::clone(endpoint) }
            }
            code => TransferError::Refused(code),
        }
    }
}
