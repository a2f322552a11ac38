use std::ops::Deref;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use mooncake_memory::{HeldSlice, Region};
use mooncake_types::ErrorCode;

use crate::TransferError;

/// Most buffers. A call that finds none waits for another to end.
const MAX_BUFFERS: usize = 8;

/// Room for slots, in each buffer.
const SLOTS_BYTES: usize = 1 << 20;

/// The length of each of the two halves of a buffer for payload.
pub(super) const HALF_BYTES: usize = 2 << 20;

/// Memory that the carrier's device knows. Callers' memory is copied through it. A buffer is registered when it is first
/// used, and stays so.
#[derive(Default)]
pub(super) struct StagingPool {
    state: Mutex<PoolState>,
    returned: Condvar,
}

#[derive(Default)]
struct PoolState {
    free: Vec<StagingBuffer>,
    made: usize,
}

/// One buffer: room for slots, and two halves, so that one is copied while the other is in flight.
pub(super) struct StagingBuffer {
    pub(super) slots: HeldSlice,
    pub(super) halves: [HeldSlice; 2],
}

/// The use of a buffer, which returns to its pool on drop.
pub(super) struct StagingLease<'p> {
    pool: &'p StagingPool,
    buffer: Option<StagingBuffer>,
}

impl StagingPool {
    /// A buffer; waits for one if all are in use. A call never holds two.
    pub(super) fn lease(&self) -> Result<StagingLease<'_>, TransferError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(buffer) = state.free.pop() {
                return Ok(StagingLease { pool: self, buffer: Some(buffer) });
            }
            if state.made < MAX_BUFFERS {
                let buffer = StagingBuffer::new()?;
                state.made += 1;
                return Ok(StagingLease { pool: self, buffer: Some(buffer) });
            }
            state = self.returned.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl StagingBuffer {
    fn new() -> Result<Self, TransferError> {
        let region = Region::anonymous((SLOTS_BYTES + 2 * HALF_BYTES) as u64);
        let region = region.map_err(|error| {
            tracing::warn!(%error, "no memory for transfers to other hosts");
            TransferError::Refused(ErrorCode::InternalError)
        })?;
        let whole = HeldSlice::whole(Arc::new(region));
        let half = |number: usize| whole.sub(SLOTS_BYTES + number * HALF_BYTES, HALF_BYTES);
        Ok(Self { slots: whole.sub(0, SLOTS_BYTES), halves: [half(0), half(1)] })
    }
}

impl Deref for StagingLease<'_> {
    type Target = StagingBuffer;

    fn deref(&self) -> &StagingBuffer {
        self.buffer.as_ref().expect("a lease holds its buffer until it is dropped")
    }
}

impl Drop for StagingLease<'_> {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            self.pool.state.lock().unwrap_or_else(PoisonError::into_inner).free.push(buffer);
            self.pool.returned.notify_one();
        }
    }
}

/// A part of an operation, and where it lies in a half of a staging buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StagedPiece {
    /// Which of the operations.
    pub(super) index: usize,
    pub(super) from: u64,
    pub(super) len: u64,
    pub(super) at: usize,
}

/// Cuts operations of these lengths into pieces, and groups those that fit into half a staging buffer.
pub(super) fn windows(lens: impl Iterator<Item = u64>) -> Vec<Vec<StagedPiece>> {
    let mut windows: Vec<Vec<StagedPiece>> = Vec::new();
    let mut room = 0;
    for (index, total) in lens.enumerate() {
        let mut from = 0;
        while from < total {
            if room == 0 {
                windows.push(Vec::new());
                room = HALF_BYTES;
            }
            let len = (total - from).min(room as u64);
            let piece = StagedPiece { index, from, len, at: HALF_BYTES - room };
            windows.last_mut().expect("one was pushed").push(piece);
            from += len;
            room -= len as usize;
        }
    }
    windows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_cut_where_a_half_is_full() {
        const HALF: u64 = HALF_BYTES as u64;
        let cut = |lens: &[u64]| -> Vec<Vec<(usize, u64, u64, usize)>> {
            let windows = windows(lens.iter().copied()).into_iter();
            let each = |piece: StagedPiece| (piece.index, piece.from, piece.len, piece.at);
            windows.map(|window| window.into_iter().map(each).collect()).collect()
        };
        assert_eq!(cut(&[]), Vec::<Vec<_>>::new());
        assert_eq!(cut(&[0, 5, 0, 7]), [[(1, 0, 5, 0), (3, 0, 7, 5)]]);
        let expected = vec![
            vec![(0, 0, 1, 0), (1, 0, HALF - 1, 1)],
            vec![(1, HALF - 1, HALF, 0)],
            vec![(1, 2 * HALF - 1, 1, 0), (2, 0, 3, 1)],
        ];
        assert_eq!(cut(&[1, 2 * HALF, 3]), expected);
    }

    #[test]
    fn a_buffer_that_was_returned_is_used_again() {
        let pool = StagingPool::default();
        let leases: Vec<_> = (0..MAX_BUFFERS).map(|_| pool.lease().unwrap()).collect();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| pool.lease().is_ok());
            drop(leases);
            assert!(waiting.join().unwrap());
        });
        let state = pool.state.lock().unwrap();
        assert_eq!((state.made, state.free.len()), (MAX_BUFFERS, MAX_BUFFERS));
    }
}
