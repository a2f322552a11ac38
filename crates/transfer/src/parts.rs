//! Reads of long ranges, cut into parts that several threads copy.

use mooncake_types::RangeRead;
use mooncake_types::limits::CHUNK_BYTES;

use crate::{ReadOp, Source, TransferError};

/// The length of a part.
const PART_BYTES: u64 = 2 << 20;

/// A read that is shorter stays as it is.
const LONG_BYTES: u64 = 2 * PART_BYTES;

/// Reads of which the long ones were cut.
pub(crate) struct Parts<'m> {
    ops: Vec<ReadOp<'m>>,
    /// For each part, the position of its read.
    positions: Vec<usize>,
    /// How many reads there were.
    count: usize,
}

impl<'m> Parts<'m> {
    /// Cuts long reads; `None` if there are none. The parts are whole chunks, so that the node has their checksums.
    pub(crate) fn cut(ops: &[ReadOp<'m>]) -> Option<Parts<'m>> {
        let is_long = |op: &ReadOp| {
            let RangeRead { from, len, .. } = op.range;
            len >= LONG_BYTES && from.is_multiple_of(CHUNK_BYTES) && len == op.dst.total_len()
        };
        if !ops.iter().any(is_long) {
            return None;
        }
        let mut parts = Parts { ops: Vec::new(), positions: Vec::new(), count: ops.len() };
        for (position, op) in ops.iter().enumerate() {
            if is_long(op) {
                parts.push_parts(position, op);
            } else {
                parts.push(position, op.clone());
            }
        }
        Some(parts)
    }

    fn push_parts(&mut self, position: usize, op: &ReadOp<'m>) {
        let mut at = 0;
        while at < op.range.len {
            let len = PART_BYTES.min(op.range.len - at);
            let range = RangeRead { from: op.range.from + at, len, ..op.range };
            let dst = op.dst.part(at, len);
            self.push(position, ReadOp { endpoint: op.endpoint.clone(), range, dst });
            at += len;
        }
    }

    fn push(&mut self, position: usize, op: ReadOp<'m>) {
        self.positions.push(position);
        self.ops.push(op);
    }

    /// The position of a part's read.
    pub(crate) fn position(&self, part: usize) -> usize {
        self.positions[part]
    }

    /// The reads to make.
    pub(crate) fn ops(&self) -> &[ReadOp<'m>] {
        &self.ops
    }

    /// Joins the results of the parts: each read gets the first error of its parts, or their farthest source.
    pub(crate) fn join(
        &self,
        results: Vec<Result<Source, TransferError>>,
    ) -> Vec<Result<Source, TransferError>> {
        let mut joined = vec![Ok(Source::Own); self.count];
        for (&position, result) in self.positions.iter().zip(results) {
            if let Ok(farthest) = joined[position] {
                joined[position] = result.map(|source| source.max(farthest));
            }
        }
        joined
    }
}

#[cfg(test)]
mod tests {
    use mooncake_memory::Buffer;
    use mooncake_types::{Epoch, ErrorCode, Seal, SegmentId, Version};

    use super::*;

    const MIB: u64 = 1 << 20;

    fn read(buffer: &Buffer, from: u64, len: u64) -> ReadOp<'_> {
        let version = Version { epoch: Epoch(1), counter: 1 };
        let segment = SegmentId(7);
        let range = RangeRead {
            segment,
            offset: 64,
            version,
            object_offset: 0,
            from,
            len,
            seal: Seal::NONE,
        };
        let dst = buffer.raw().sub(0, len as usize).into();
        ReadOp { endpoint: "node:1".into(), range, dst }
    }

    fn spans(parts: &Parts) -> Vec<(usize, u64, u64)> {
        let each = parts.positions.iter().zip(&parts.ops);
        each.map(|(&position, op)| {
            assert_eq!(op.dst.total_len(), op.range.len);
            (position, op.range.from, op.range.len)
        })
        .collect()
    }

    #[test]
    fn long_reads_are_cut_at_chunks_and_short_ones_stay() {
        let buffer = Buffer::zeroed(5 * MIB as usize);
        let ops = [
            read(&buffer, 0, 5 * MIB - 1),
            read(&buffer, 3, 4 * MIB),
            read(&buffer, 0, 4 * MIB - 1),
            read(&buffer, MIB, 4 * MIB),
        ];
        let parts = Parts::cut(&ops).expect("two of them are long");
        let expected = [
            (0, 0, 2 * MIB),
            (0, 2 * MIB, 2 * MIB),
            (0, 4 * MIB, MIB - 1),
            (1, 3, 4 * MIB),
            (2, 0, 4 * MIB - 1),
            (3, MIB, 2 * MIB),
            (3, 3 * MIB, 2 * MIB),
        ];
        assert_eq!(spans(&parts), expected);
        let starts = parts.ops().iter().map(|op| op.dst.slices()[0].as_ptr().addr());
        let starts: Vec<usize> = starts.map(|start| start - buffer.raw().as_ptr().addr()).collect();
        let at = |mib: u64| (mib * MIB) as usize;
        assert_eq!(starts, [0, at(2), at(4), 0, 0, 0, at(2)]);
    }

    #[test]
    fn nothing_is_cut_where_no_read_is_long() {
        let buffer = Buffer::zeroed(5 * MIB as usize);
        let mut ops = vec![read(&buffer, 0, 5 * MIB), read(&buffer, 0, MIB)];
        assert!(Parts::cut(&ops).is_some() && Parts::cut(&ops[1..]).is_none());
        ops[0].dst = buffer.raw().sub(0, 7).into();
        assert!(Parts::cut(&ops).is_none(), "its memory has another length");
    }

    #[test]
    fn a_read_failed_if_a_part_of_it_did() {
        let buffer = Buffer::zeroed(5 * MIB as usize);
        let ops = [read(&buffer, 0, 5 * MIB), read(&buffer, 0, MIB), read(&buffer, 0, 5 * MIB)];
        let parts = Parts::cut(&ops).expect("two of them are long");
        let gone = TransferError::Refused(ErrorCode::SegmentNotFound);
        let stale = TransferError::Stale;
        let (own, host, tcp) = (Ok(Source::Own), Ok(Source::Host), Ok(Source::Tcp));
        let of_parts = vec![
            own.clone(),
            Err(stale.clone()),
            Err(gone),
            host.clone(),
            host.clone(),
            tcp.clone(),
            own,
        ];
        assert_eq!(parts.join(of_parts), [Err(stale), host, tcp]);
    }
}
