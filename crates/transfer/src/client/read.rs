use std::sync::Arc;

use mooncake_memory::SliceList;
use mooncake_types::{ErrorCode, RangeRead};
use mooncake_wire::{Kind, encode_read};

use super::peer_call::Question;
use crate::{ReadOp, TransferError};

/// Asks for the bytes of ranges.
pub(crate) struct Read<'a>(pub(crate) &'a [ReadOp<'a>]);

impl<'a> Question<'a> for Read<'a> {
    fn reply(&self) -> Kind {
        Kind::ReadReply
    }

    fn begin(&mut self, out: &mut Vec<u8>, id: u64, positions: &[usize]) {
        let ranges: Vec<RangeRead> = positions.iter().map(|&at| self.0[at].range).collect();
        encode_read(out, id, &ranges);
    }

    fn place(&self, position: usize) -> Option<&SliceList<'a>> {
        Some(&self.0[position].dst)
    }

    fn failed(&self, code: ErrorCode, _endpoint: &Arc<str>) -> TransferError {
        TransferError::of_read(code)
    }
}
