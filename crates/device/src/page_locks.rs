//! Pages of segments that are locked for the driver, so that devices read and write them without a detour: in pieces, as they are
//! used, and no more than a bound at a time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mooncake_memory::{MemoryLimit, RawSlice, Region};

use crate::device::{Device, lost_contexts};
use crate::driver::driver;

/// Pages are locked in pieces of this length.
const PIECE_BYTES: usize = 64 << 20;

/// Of the memory of the machine, or of the container, this part may be locked.
const LOCKED_PART: u64 = 4;

/// The bound where the system does not say how much memory there is.
const LOCKED_BYTES: u64 = 4 << 30;

static LOCKS: Mutex<Locks> = Mutex::new(Locks::new());

struct Locks {
    /// By the address of their first byte.
    pieces: BTreeMap<usize, LockedPiece>,
    bytes: u64,
    /// Counts uses.
    clock: u64,
    /// Zero until it is known.
    limit: u64,
    /// Contexts that were lost when the table was last looked through.
    lost: u64,
}

struct LockedPiece {
    memory: RawSlice,
    state: PieceState,
    device: Arc<Device>,
    users: usize,
    last_use: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PieceState {
    /// Somebody is at it, without the lock of the table.
    Locking,
    Locked,
    /// The driver does not take it.
    Refused,
}

/// Keeps pages locked.
pub(crate) struct PageLock {
    /// Where the pieces start.
    pieces: Vec<usize>,
}

/// Goes with a region: its pages must not stay locked once they are unmapped.
#[derive(Debug)]
struct RegionLocks {
    start: usize,
    end: usize,
}

fn locks() -> MutexGuard<'static, Locks> {
    LOCKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes that are locked at the moment.
#[must_use]
pub fn locked_bytes() -> u64 {
    locks().bytes
}

/// Has the pages of a part of a region locked. `None` if they are not and cannot be now: its bytes go through staging memory.
pub(crate) fn lock(device: &Arc<Device>, region: &Region, part: RawSlice) -> Option<PageLock> {
    let whole = region.whole();
    let start = whole.as_ptr().addr();
    let from = part.as_ptr().addr().checked_sub(start)?;
    let last = from.checked_add(part.len())?.checked_sub(1).filter(|&last| last < whole.len())?;
    region.attach(|| Box::new(RegionLocks { start, end: start + whole.len() }));
    let mut lock = PageLock { pieces: Vec::new() };
    for index in from / PIECE_BYTES..=last / PIECE_BYTES {
        let at = index * PIECE_BYTES;
        let piece = whole.sub(at, PIECE_BYTES.min(whole.len() - at));
        // The pieces before it are released with `lock`.
        lock.pieces.push(use_piece(device, piece)?);
    }
    Some(lock)
}

impl Drop for PageLock {
    fn drop(&mut self) {
        let mut locks = locks();
        for start in &self.pieces {
            if let Some(piece) = locks.pieces.get_mut(start) {
                piece.users = piece.users.saturating_sub(1);
            }
        }
    }
}

/// Counts a user of a piece, and locks it first if need be.
fn use_piece(device: &Arc<Device>, memory: RawSlice) -> Option<usize> {
    let start = memory.as_ptr().addr();
    {
        let mut locks = locks();
        locks.forget_lost();
        locks.clock += 1;
        let now = locks.clock;
        if locks.pieces.get(&start).is_some_and(LockedPiece::is_forgotten) {
            locks.unlock(start);
        }
        if let Some(piece) = locks.pieces.get_mut(&start) {
            if piece.device.is_lost() {
                return None;
            }
            if piece.state != PieceState::Locked {
                return None;
            }
            (piece.users, piece.last_use) = (piece.users + 1, now);
            return Some(start);
        }
        if !locks.make_room(memory.len() as u64) {
            return None;
        }
        locks.bytes += memory.len() as u64;
        let (state, device) = (PieceState::Locking, Arc::clone(device));
        let piece = LockedPiece { memory, state, device, users: 1, last_use: now };
        locks.pieces.insert(start, piece);
    }
    // Without the lock of the table, since it takes milliseconds. Meanwhile others use staging memory.
    let result = device.within(|| device.driver().host_register(memory));
    let mut locks = locks();
    let piece = locks.pieces.get_mut(&start)?;
    match result {
        Ok(()) => {
            piece.state = PieceState::Locked;
            Some(start)
        }
        Err(error) => {
            (piece.state, piece.users) = (PieceState::Refused, 0);
            locks.bytes -= memory.len() as u64;
            if !error.is_already_registered() {
                let len = memory.len();
                tracing::warn!(%error, len, "pages cannot be locked: copies of a GPU take a detour");
            }
            None
        }
    }
}

impl Locks {
    const fn new() -> Self {
        Self { pieces: BTreeMap::new(), bytes: 0, clock: 0, limit: 0, lost: 0 }
    }

    /// Unlocks what was not used for the longest time, until there is room for so many bytes more.
    fn make_room(&mut self, len: u64) -> bool {
        if self.limit == 0 {
            self.limit = limit();
        }
        while self.bytes + len > self.limit {
            let unused = self.pieces.iter().filter(|(_, piece)| piece.is_unused());
            let oldest = unused.min_by_key(|(_, piece)| piece.last_use).map(|(&start, _)| start);
            let Some(oldest) = oldest else { return false };
            self.unlock(oldest);
        }
        true
    }

    /// Gives up what contexts may have had locked that are lost since.
    fn forget_lost(&mut self) {
        let lost = lost_contexts();
        if self.lost == lost {
            return;
        }
        self.lost = lost;
        let is_idle = |piece: &LockedPiece| piece.users == 0;
        let idle = self.pieces.iter().filter(|(_, piece)| is_idle(piece));
        let idle: Vec<usize> = idle.map(|(&start, _)| start).collect();
        idle.into_iter().for_each(|start| self.unlock(start));
    }

    fn unlock(&mut self, start: usize) {
        let Some(piece) = self.pieces.remove(&start) else { return };
        if piece.state == PieceState::Refused {
            return;
        }
        self.bytes -= piece.memory.len() as u64;
        let unlocked = piece.device.within(|| piece.device.driver().host_unregister(piece.memory));
        if let Err(error) = unlocked {
            tracing::debug!(%error, "pages were not unlocked");
        }
    }
}

impl LockedPiece {
    /// The driver has it no longer, and nobody uses it.
    fn is_forgotten(&self) -> bool {
        self.users == 0 && self.device.is_lost()
    }

    fn is_unused(&self) -> bool {
        self.state == PieceState::Locked && self.users == 0
    }
}

fn limit() -> u64 {
    MemoryLimit::look().map_or(LOCKED_BYTES, |limit| limit.bytes / LOCKED_PART)
}

impl Drop for RegionLocks {
    fn drop(&mut self) {
        // In a child nothing is locked.
        if driver().is_none() {
            return;
        }
        let mut locks = locks();
        let of_region: Vec<usize> =
            locks.pieces.range(self.start..self.end).map(|(&start, _)| start).collect();
        of_region.into_iter().for_each(|start| locks.unlock(start));
    }
}
