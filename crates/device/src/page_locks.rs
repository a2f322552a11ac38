//! Pages of segments that are locked for the driver, so that devices read and write them without a detour: in pieces, as they are
//! used, and no more than a bound at a time.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use mooncake_memory::{MemoryLimit, RawSlice, Region};
use thiserror::Error;

use crate::device::{Device, lost_contexts};
use crate::error::DriverError;
use crate::load::driver;

/// Pages are locked in pieces of this length.
pub(crate) const PIECE_BYTES: usize = 64 << 20;

/// Of the memory of the machine, or of the container, this part may be locked.
const LOCKED_PART: u64 = 4;

/// The bound where the system does not say how much memory there is.
const LOCKED_BYTES: u64 = 4 << 30;

static LOCKS: Mutex<Locks> = Mutex::new(Locks::new());

/// Pieces were unlocked.
static UNLOCKED: Condvar = Condvar::new();

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
    /// A thread has the driver lock it, without the lock of the table.
    Locking,
    Locked,
    /// A thread has the driver unlock it, without the lock of the table.
    Unlocking,
    /// The driver does not take it.
    Refused,
}

/// Why pages are not locked.
#[derive(Debug, Error)]
pub(crate) enum NotLocked {
    #[error(transparent)]
    Driver(#[from] DriverError),
    #[error("the driver refused it before")]
    RefusedBefore,
    #[error("at most {0} bytes may be locked, and those that are locked are in use")]
    NoRoom(u64),
    #[error("another thread locks or unlocks it")]
    Busy,
    #[error("its bytes do not lie within the region")]
    Outside,
}

/// A piece that is to be unlocked. Until that is done, nobody can use or lock it.
struct Unlocking {
    memory: RawSlice,
    device: Arc<Device>,
}

/// Keeps pages locked.
pub(crate) struct PageLock {
    /// Where the pieces start, in order.
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

/// Has the pages of a part of a region locked. If they are not and cannot be now, its bytes go through staging memory.
pub(crate) fn lock(
    device: &Arc<Device>,
    region: &Region,
    part: RawSlice,
) -> Result<PageLock, NotLocked> {
    let whole = region.whole();
    let start = whole.as_ptr().addr();
    let from = part.as_ptr().addr().checked_sub(start).ok_or(NotLocked::Outside)?;
    let last = from.checked_add(part.len()).and_then(|end| end.checked_sub(1));
    let last = last.filter(|&last| last < whole.len()).ok_or(NotLocked::Outside)?;
    region.attach(|| Box::new(RegionLocks { start, end: start + whole.len() }));
    let mut lock = PageLock { pieces: Vec::new() };
    for index in from / PIECE_BYTES..=last / PIECE_BYTES {
        let at = index * PIECE_BYTES;
        let piece = whole.sub(at, PIECE_BYTES.min(whole.len() - at));
        // The pieces before it are released with `lock`.
        lock.pieces.push(use_piece(device, piece)?);
    }
    Ok(lock)
}

impl PageLock {
    /// How many bytes from an address on are locked by the same call of the driver.
    pub(crate) fn room_from(&self, address: usize) -> usize {
        let next = self.pieces.iter().find(|&&start| start > address);
        next.map_or(usize::MAX, |start| start - address)
    }
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
fn use_piece(device: &Arc<Device>, memory: RawSlice) -> Result<usize, NotLocked> {
    let start = memory.as_ptr().addr();
    loop {
        let mut locks = locks();
        let leaving = locks.take_lost();
        if !leaving.is_empty() {
            drop(locks);
            leaving.into_iter().for_each(Unlocking::run);
            continue;
        }
        if let Some(known) = locks.use_known(start) {
            return known;
        }
        let Some(oldest) = locks.make_room(memory.len() as u64)? else {
            locks.insert(device, memory);
            break;
        };
        drop(locks);
        oldest.run();
    }
    // Without the lock of the table, since it takes milliseconds. Meanwhile others use staging memory.
    let result = device.within(|| device.driver().host_register(memory));
    let mut locks = locks();
    let piece = locks.pieces.get_mut(&start).ok_or(NotLocked::Busy)?;
    match result {
        Ok(()) => {
            piece.state = PieceState::Locked;
            Ok(start)
        }
        Err(error) => {
            (piece.state, piece.users) = (PieceState::Refused, 0);
            locks.bytes -= memory.len() as u64;
            if !error.is_already_registered() {
                let len = memory.len();
                tracing::warn!(%error, len, "pages cannot be locked: copies of a GPU take a detour");
            }
            Err(error.into())
        }
    }
}

impl Locks {
    const fn new() -> Self {
        Self { pieces: BTreeMap::new(), bytes: 0, clock: 0, limit: 0, lost: 0 }
    }

    /// Counts a user of a piece that is in the table.
    fn use_known(&mut self, start: usize) -> Option<Result<usize, NotLocked>> {
        let piece = self.pieces.get_mut(&start)?;
        Some(match piece.state {
            PieceState::Locking | PieceState::Unlocking => Err(NotLocked::Busy),
            PieceState::Refused => Err(NotLocked::RefusedBefore),
            // Whoever was using it when its context was lost still does.
            PieceState::Locked if piece.device.is_lost() => Err(NotLocked::Busy),
            PieceState::Locked => {
                self.clock += 1;
                (piece.users, piece.last_use) = (piece.users + 1, self.clock);
                Ok(start)
            }
        })
    }

    fn insert(&mut self, device: &Arc<Device>, memory: RawSlice) {
        self.clock += 1;
        self.bytes += memory.len() as u64;
        let (state, device) = (PieceState::Locking, Arc::clone(device));
        let piece = LockedPiece { memory, state, device, users: 1, last_use: self.clock };
        self.pieces.insert(memory.as_ptr().addr(), piece);
    }

    /// What was not used for the longest time, to be unlocked, if there is no room for so many bytes more.
    fn make_room(&mut self, len: u64) -> Result<Option<Unlocking>, NotLocked> {
        if self.limit == 0 {
            self.limit = limit();
        }
        if self.bytes + len <= self.limit {
            return Ok(None);
        }
        let unused = self.pieces.iter().filter(|(_, piece)| piece.is_unused());
        let oldest = unused.min_by_key(|(_, piece)| piece.last_use).map(|(&start, _)| start);
        let oldest = oldest.and_then(|start| self.take(start));
        oldest.map(Some).ok_or(NotLocked::NoRoom(self.limit))
    }

    /// What contexts may have had locked that are lost: all that nobody uses if one was lost since the last look, and what was in
    /// use then and is no longer.
    fn take_lost(&mut self) -> Vec<Unlocking> {
        let lost = lost_contexts();
        let is_new = self.lost != lost;
        self.lost = lost;
        if lost == 0 {
            return Vec::new();
        }
        let is_over = |piece: &LockedPiece| piece.users == 0 && (is_new || piece.device.is_lost());
        let over = self.pieces.iter().filter(|(_, piece)| is_over(piece));
        let over: Vec<usize> = over.map(|(&start, _)| start).collect();
        over.into_iter().filter_map(|start| self.take(start)).collect()
    }

    /// A piece that is to be unlocked. One that the driver did not take is forgotten, and one that is being unlocked left alone.
    fn take(&mut self, start: usize) -> Option<Unlocking> {
        let piece = self.pieces.get_mut(&start)?;
        match piece.state {
            PieceState::Unlocking => None,
            PieceState::Refused => {
                self.pieces.remove(&start);
                None
            }
            PieceState::Locking | PieceState::Locked => {
                piece.state = PieceState::Unlocking;
                Some(Unlocking { memory: piece.memory, device: Arc::clone(&piece.device) })
            }
        }
    }
}

impl LockedPiece {
    fn is_unused(&self) -> bool {
        self.state == PieceState::Locked && self.users == 0
    }
}

impl Unlocking {
    /// Without the lock of the table, since it takes milliseconds.
    fn run(self) {
        let unlocked = self.device.within(|| self.device.driver().host_unregister(self.memory));
        if let Err(error) = unlocked {
            tracing::debug!(%error, "pages were not unlocked");
        }
        let mut locks = locks();
        if locks.pieces.remove(&self.memory.as_ptr().addr()).is_some() {
            locks.bytes -= self.memory.len() as u64;
        }
        drop(locks);
        UNLOCKED.notify_all();
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
        let leaving: Vec<Unlocking> =
            of_region.into_iter().filter_map(|start| locks.take(start)).collect();
        drop(locks);
        leaving.into_iter().for_each(Unlocking::run);
        // Those that another thread unlocks, to make room.
        let mut locks = self::locks();
        while locks.pieces.range(self.start..self.end).next().is_some() {
            locks = UNLOCKED.wait(locks).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
