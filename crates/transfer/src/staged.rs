//! Transfers between memory of devices and transports that only know memory of the host: the bytes pass through
//! staging memory, in parts. While the transport moves one part, the part before it is copied to the device, or the
//! next one from it.

use mooncake_device::{Copying, Direction, STAGING_BYTES, Staging, StagingBuffer};
use mooncake_memory::{Place, RawSlice, SliceList};
use mooncake_types::{Epoch, ErrorCode, RangeRead, RangeWrite};

use crate::error::of_copy;
use crate::{ReadOp, Source, TransferError, Transport, WriteOp};

/// A transport for memory of devices, on top of one for memory of the host.
pub struct StagedTransport<'a>(pub &'a dyn Transport);

impl Transport for StagedTransport<'_> {
    fn read(&self, ops: &[ReadOp]) -> Vec<Result<(), TransferError>> {
        let by_host = |ops: &[ReadOp]| -> Vec<Result<Source, TransferError>> {
            self.0.read(ops).into_iter().map(|result| result.map(|()| Source::Tcp)).collect()
        };
        let (staged, host) = by_place(ops, |op| &op.dst);
        let staged = staged_reads(ops, staged, &by_host);
        let host: Vec<_> = host.iter().map(|&at| (at, ops[at].clone())).collect();
        let read = read_some(host, &by_host);
        in_order(ops.len(), staged.into_iter().chain(read))
            .into_iter()
            .map(|result| result.map(|_| ()))
            .collect()
    }

    fn write(&self, epoch: Epoch, ops: &[WriteOp<'_>]) -> Vec<Result<(), TransferError>> {
        let by_host = |ops: &[WriteOp<'_>]| -> Vec<Result<Source, TransferError>> {
            self.0
                .write(epoch, ops)
                .into_iter()
                .map(|result| result.map(|()| Source::Tcp))
                .collect()
        };
        let (staged, host) = by_place(ops, |op| &op.src);
        let staged = staged_writes(ops, staged, &by_host);
        let some: Vec<WriteOp<'_>> = host.iter().map(|&at| ops[at].clone()).collect();
        let written = if some.is_empty() { Vec::new() } else { by_host(&some) };
        in_order(ops.len(), staged.into_iter().chain(host.into_iter().zip(written)))
            .into_iter()
            .map(|result| result.map(|_| ()))
            .collect()
    }
}

/// Positions of the operations that have memory of devices, and of the others.
fn by_place<T>(ops: &[T], memory: impl Fn(&T) -> &SliceList) -> (Vec<usize>, Vec<usize>) {
    (0..ops.len()).partition(|&at| !memory(&ops[at]).is_host())
}

fn read_some(ops: Vec<(usize, ReadOp)>, by_host: &ByHost<'_>) -> Results {
    if ops.is_empty() {
        return Vec::new();
    }
    let (positions, ops): (Vec<usize>, Vec<ReadOp>) = ops.into_iter().unzip();
    positions.into_iter().zip(by_host(&ops)).collect()
}

fn in_order(
    count: usize,
    results: impl Iterator<Item = (usize, Result<Source, TransferError>)>,
) -> Vec<Result<Source, TransferError>> {
    let refused = || Err(TransferError::Refused(ErrorCode::InternalError));
    let mut all: Vec<_> = (0..count).map(|_| refused()).collect();
    results.for_each(|(at, result)| all[at] = result);
    all
}

/// Results with the positions of their operations.
type Results = Vec<(usize, Result<Source, TransferError>)>;

/// Reads to memory of the host.
type ByHost<'a> = dyn Fn(&[ReadOp]) -> Vec<Result<Source, TransferError>> + 'a;

/// Writes from memory of the host.
type FromHost<'a> = dyn Fn(&[WriteOp<'_>]) -> Vec<Result<Source, TransferError>> + 'a;

/// A part of one operation's bytes, and where it lies in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StagedPart {
    /// Which of the wanted operations.
    index: usize,
    from: u64,
    len: u64,
    at: usize,
}

/// Cuts operations of these lengths into parts, and groups the parts that share a buffer. An operation that fits into
/// a buffer is not cut.
fn windows(lens: impl Iterator<Item = u64>) -> Vec<Vec<StagedPart>> {
    let mut windows: Vec<Vec<StagedPart>> = Vec::new();
    let mut room = 0;
    for (index, total) in lens.enumerate() {
        let mut from = 0;
        while from < total {
            let is_short = total <= STAGING_BYTES as u64;
            if room == 0 || (is_short && total > room as u64) {
                windows.push(Vec::new());
                room = STAGING_BYTES;
            }
            let len = (total - from).min(room as u64);
            let at = STAGING_BYTES - room;
            windows.last_mut().expect("one was pushed").push(StagedPart { index, from, len, at });
            from += len;
            room -= len as usize;
        }
    }
    windows
}

/// Staging memory for the device in which the first piece lies that is not host memory.
fn staging_for(memory: &[&SliceList]) -> Result<Staging, TransferError> {
    let places = memory.iter().flat_map(|memory| memory.pieces());
    let ordinal = places.map(|piece| piece.place()).find_map(|place| match place {
        Place::Device(ordinal) => Some(ordinal),
        Place::Host => None,
    });
    Staging::of_device(ordinal.unwrap_or(0)).map_err(|error| of_copy(&error))
}

/// The state of one staged call.
struct StagedCall<'a> {
    memory: Vec<&'a SliceList<'a>>,
    results: Vec<Result<Source, TransferError>>,
    /// Copies by buffer. A drop waits for them, before others get the staging memory.
    under_way: [Option<(Copying<'a>, Vec<StagedPart>)>; 2],
    staging: &'a Staging,
    direction: Direction,
}

impl<'a> StagedCall<'a> {
    fn new(
        (direction, staging): (Direction, &'a Staging),
        memory: Vec<&'a SliceList<'a>>,
        results: Vec<Result<Source, TransferError>>,
    ) -> Self {
        Self { memory, results, under_way: [None, None], staging, direction }
    }

    fn bytes(&self, buffer: StagingBuffer, part: &StagedPart) -> RawSlice<'a> {
        self.staging.memory(buffer).sub(part.at, part.len as usize)
    }

    fn is_good(&self, part: &StagedPart) -> bool {
        self.results[part.index].is_ok()
    }

    /// The transport moved a part. An operation counts for the farthest of its parts, or fails with the first that does.
    fn arrived(&mut self, part: &StagedPart, result: Result<Source, TransferError>) {
        let whole = &mut self.results[part.index];
        if let Ok(farthest) = whole {
            *whole = result.map(|source| source.max(*farthest));
        }
    }

    /// Begins to copy parts between a buffer and the devices.
    fn begin(&mut self, buffer: StagingBuffer, parts: Vec<StagedPart>) {
        let copying = self.copying(buffer, &parts);
        self.under_way[buffer as usize] = Some((copying, parts));
    }

    fn copying(&self, buffer: StagingBuffer, parts: &[StagedPart]) -> Copying<'a> {
        let lists: Vec<SliceList<'a>> =
            parts.iter().map(|part| self.memory[part.index].part(part.from, part.len)).collect();
        let pairs = lists.iter().zip(parts).map(|(list, part)| (list, self.bytes(buffer, part)));
        Copying::begin(self.direction, pairs, self.staging.is_locked())
    }

    /// Waits for the copies of a buffer, and returns their parts.
    fn settle(&mut self, buffer: StagingBuffer) -> Vec<StagedPart> {
        let Some((copying, parts)) = self.under_way[buffer as usize].take() else {
            return Vec::new();
        };
        if copying.wait().is_err() {
            // Copies the parts one by one, so that a faulty one does not fail the others.
            for part in &parts {
                let alone = self.copying(buffer, std::slice::from_ref(part)).wait();
                if let (Err(error), true) = (alone, self.is_good(part)) {
                    self.results[part.index] = Err(of_copy(&error));
                }
            }
        }
        parts
    }
}

/// Reads to memory of devices, the operations at these positions.
pub(crate) fn staged_reads(ops: &[ReadOp], positions: Vec<usize>, by_host: &ByHost<'_>) -> Results {
    if positions.is_empty() {
        return Vec::new();
    }
    let wanted: Vec<&ReadOp> = positions.iter().map(|&at| &ops[at]).collect();
    let check = |op: &&ReadOp| fits(op.dst.total_len(), op.range.len).map(|()| Source::Own);
    let memory: Vec<_> = wanted.iter().map(|op| &op.dst).collect();
    let staging = match staging_for(&memory) {
        Ok(staging) => staging,
        Err(error) => return positions.into_iter().map(|at| (at, Err(error.clone()))).collect(),
    };
    let results = wanted.iter().map(check).collect();
    let mut call = StagedCall::new((Direction::ToDevice, &staging), memory, results);
    let mut buffer = StagingBuffer::Front;
    for window in windows(wanted.iter().map(|op| op.range.len)) {
        call.settle(buffer);
        let window: Vec<StagedPart> =
            window.into_iter().filter(|part| call.is_good(part)).collect();
        let host = window.iter().map(|part| {
            let ReadOp { endpoint, range, .. } = wanted[part.index];
            let range = RangeRead { from: range.from + part.from, len: part.len, ..*range };
            let dst = call.bytes(buffer, part).into();
            ReadOp { endpoint: endpoint.clone(), range, dst }
        });
        let host: Vec<ReadOp> = host.collect();
        for (part, result) in window.iter().zip(by_host(&host)) {
            call.arrived(part, result);
        }
        let arrived = window.into_iter().filter(|part| call.is_good(part)).collect();
        call.begin(buffer, arrived);
        buffer = buffer.other();
    }
    call.settle(buffer);
    call.settle(buffer.other());
    positions.into_iter().zip(call.results).collect()
}

/// Writes from memory of devices, the operations at these positions.
pub(crate) fn staged_writes(
    ops: &[WriteOp<'_>],
    positions: Vec<usize>,
    by_host: &FromHost<'_>,
) -> Results {
    if positions.is_empty() {
        return Vec::new();
    }
    let wanted: Vec<&WriteOp<'_>> = positions.iter().map(|&at| &ops[at]).collect();
    let check = |op: &&WriteOp<'_>| fits(op.src.total_len(), op.range.len).map(|()| Source::Own);
    let memory: Vec<_> = wanted.iter().map(|op| &op.src).collect();
    let staging = match staging_for(&memory) {
        Ok(staging) => staging,
        Err(error) => return positions.into_iter().map(|at| (at, Err(error.clone()))).collect(),
    };
    let results = wanted.iter().map(check).collect();
    let mut call = StagedCall::new((Direction::ToHost, &staging), memory, results);
    let good = |call: &StagedCall<'_>, window: Vec<StagedPart>| -> Vec<StagedPart> {
        window.into_iter().filter(|part| call.is_good(part)).collect()
    };
    let mut windows = windows(wanted.iter().map(|op| op.range.len)).into_iter();
    let mut buffer = StagingBuffer::Front;
    let mut next = windows.next();
    if let Some(first) = next.take() {
        let first = good(&call, first);
        call.begin(buffer, first);
        next = windows.next();
    }
    loop {
        let copied = call.settle(buffer);
        let is_last = next.is_none();
        if let Some(window) = next.take() {
            let window = good(&call, window);
            call.begin(buffer.other(), window);
            next = windows.next();
        }
        let copied = good(&call, copied);
        let host = copied.iter().map(|part| {
            let WriteOp { endpoint, range, .. } = wanted[part.index];
            let range = RangeWrite { from: range.from + part.from, len: part.len, ..*range };
            WriteOp { endpoint: endpoint.clone(), range, src: call.bytes(buffer, part).into() }
        });
        let host: Vec<WriteOp<'_>> = host.collect();
        if !host.is_empty() {
            for (part, result) in copied.iter().zip(by_host(&host)) {
                call.arrived(part, result);
            }
        }
        if is_last {
            break;
        }
        buffer = buffer.other();
    }
    positions.into_iter().zip(call.results).collect()
}

fn fits(memory: u64, range: u64) -> Result<(), TransferError> {
    if memory == range { Ok(()) } else { Err(TransferError::Refused(ErrorCode::InvalidParams)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_fill_one_buffer_after_the_other() {
        let all = STAGING_BYTES as u64;
        let part = |index, from, len, at| StagedPart { index, from, len, at };
        let cut = windows([10, 0, 2 * all, 5, all - 14, 20].into_iter());
        let expected = vec![
            vec![part(0, 0, 10, 0), part(2, 0, all - 10, 10)],
            vec![part(2, all - 10, all, 0)],
            vec![part(2, 2 * all - 10, 10, 0), part(3, 0, 5, 10)],
            vec![part(4, 0, all - 14, 0)],
            vec![part(5, 0, 20, 0)],
        ];
        assert_eq!(cut, expected);
        assert_eq!(windows([].into_iter()), Vec::<Vec<StagedPart>>::new());
    }
}
