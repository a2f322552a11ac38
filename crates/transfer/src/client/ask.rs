//! Questions to nodes that move no bytes.

use std::sync::Arc;

use mooncake_types::{ErrorCode, RangeDrop, RangeRead, Seal};
use mooncake_wire::{Kind, encode_drop, encode_promise};

use super::peer_call::Question;
use crate::{NodeDrop, TransferError};

/// Asks nodes to drop entries, or to promise them. One frame is under way at a time; each is about many ranges.
#[derive(Clone, Copy)]
pub(crate) enum Ask<'a> {
    Drop(&'a [NodeDrop]),
    Promise(&'a [(Arc<str>, RangeRead)]),
}

impl Question<'_> for Ask<'_> {
    fn reply(&self) -> Kind {
        match self {
            Self::Drop(_) => Kind::DropReply,
            Self::Promise(_) => Kind::PromiseReply,
        }
    }

    fn most_waiting(&self) -> usize {
        1
    }

    fn begin(&mut self, out: &mut Vec<u8>, id: u64, positions: &[usize]) {
        match self {
            Self::Drop(ops) => {
                let sealed = |&at: &usize| (ops[at].range, ops[at].seal);
                let ranges: Vec<(RangeDrop, Seal)> = positions.iter().map(sealed).collect();
                encode_drop(out, id, &ranges);
            }
            Self::Promise(ops) => {
                let ranges: Vec<RangeRead> = positions.iter().map(|&at| ops[at].1).collect();
                encode_promise(out, id, &ranges);
            }
        }
    }

    fn failed(&self, code: ErrorCode, _endpoint: &Arc<str>) -> TransferError {
        TransferError::Refused(code)
    }

    /// A silent node may be alive: one of an earlier version sends no keepalives while a slow disk drops, yet it
    /// answers reads of its memory.
    fn doubts(&self) -> bool {
        false
    }
}
