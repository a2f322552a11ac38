//! Page-locks on segments, with which devices read and write the segments directly. Pages are locked in pieces, at
//! first use, and only up to a limit.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mooncake_memory::{MemoryLimit, RawSlice, Region, Registration};
use mooncake_types::LogLimiter;
use thiserror::Error;

use crate::device::{Device, lost_contexts};
use crate::error::DriverError;
use crate::load::driver;

/// Length of the pieces in which pages are locked.
pub(crate) const PIECE_BYTES: usize = 64 << 20;

/// One part in this many of the machine's or container's memory may be locked.
const LOCKED_PART: u64 = 4;

/// The limit if the system does not tell how much memory there is.
const LOCKED_BYTES: u64 = 4 << 30;

/// After a refusal the driver is not asked about the same piece for this long. Many reasons pass, for example that other
/// programs have locked what the system lets all of them lock.
const REFUSAL: Duration = Duration::from_secs(10);

static REFUSED: LogLimiter<()> = LogLimiter::new();

static LOCKS: Mutex<Locks> = Mutex::new(Locks::new());

/// Signalled when a piece was unlocked.
static UNLOCKED: Condvar = Condvar::new();

struct Locks {
    /// All pieces in the table, by the address of their first byte.
    pieces: BTreeMap<usize, LockedPiece>,
    bytes: u64,
    /// A counter of uses, for the order of eviction.
    clock: u64,
    /// The limit in bytes; zero until it is known.
    limit: u64,
    /// The value of [`lost_contexts`] when the table was last checked for lost contexts.
    lost: u64,
}

struct LockedPiece {
    len: usize,
    state: PieceState,
    device: Arc<Device>,
    users: usize,
    last_use: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PieceState {
    /// A thread is locking the piece in the driver, without the table's lock.
    Locking,
    Locked,
    /// A thread is unlocking the piece in the driver, without the table's lock.
    Unlocking,
    /// The driver refused to lock the piece. It is asked again after this time.
    Refused {
        until: Instant,
    },
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

/// A piece that is about to be unlocked. Until then no thread can use or lock it.
struct Unlocking {
    start: usize,
    len: usize,
    device: Arc<Device>,
}

/// Keeps pages locked until it is dropped.
pub(crate) struct PageLock {
    /// Start addresses of the pieces, ascending.
    pieces: Vec<usize>,
}

/// A region's registration with the driver: unlocks its pages before they are unmapped.
#[derive(Debug)]
struct RegionLocks {
    start: usize,
    end: usize,
}

impl Registration for RegionLocks {}

/// The process has one driver, whatever the number of its devices.
const THE_DRIVER: u32 = 0;

fn locks() -> MutexGuard<'static, Locks> {
    LOCKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many bytes are locked now.
#[must_use]
pub fn locked_bytes() -> u64 {
    locks().bytes
}

/// Lets the time pass for which refusals are remembered.
#[cfg(feature = "testing")]
pub(crate) fn end_refusals() {
    let now = Instant::now();
    for piece in locks().pieces.values_mut() {
        if let PieceState::Refused { until } = &mut piece.state {
            *until = now;
        }
    }
}

/// Locks the pages of a part of a region. On failure the caller copies through staging memory.
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
    let locks = || Ok::<_, NotLocked>(RegionLocks { start, end: start + whole.len() });
    region.registered(THE_DRIVER, locks)?;
    let mut lock = PageLock { pieces: Vec::new() };
    for index in from / PIECE_BYTES..=last / PIECE_BYTES {
        let at = index * PIECE_BYTES;
        let piece = whole.sub(at, PIECE_BYTES.min(whole.len() - at));
        // On an error, dropping `lock` releases the earlier pieces.
        lock.pieces.push(use_piece(device, piece)?);
    }
    Ok(lock)
}

impl PageLock {
    /// How many bytes from an address on belong to the same page-lock. Unbounded in the last one.
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

/// Counts a user of a piece. Locks the piece first if it is not in the table.
fn use_piece(device: &Arc<Device>, memory: RawSlice<'_>) -> Result<usize, NotLocked> {
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
    // Without the table's lock, because this takes milliseconds. Other threads use staging memory meanwhile.
    let result = device.within(|| device.driver().host_register(memory));
    let mut locks = locks();
    let piece = locks.pieces.get_mut(&start).ok_or(NotLocked::Busy)?;
    match result {
        Ok(()) => {
            piece.state = PieceState::Locked;
            Ok(start)
        }
        Err(error) => {
            let now = Instant::now();
            (piece.state, piece.users) = (PieceState::Refused { until: now + REFUSAL }, 0);
            locks.bytes -= memory.len() as u64;
            if !error.is_already_registered()
                && let Some(more) = REFUSED.admit((), now)
            {
                let len = memory.len();
                tracing::warn!(%error, len, more, "pages cannot be locked: copies of a GPU take a detour");
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
            PieceState::Refused { until } if Instant::now() < until => {
                Err(NotLocked::RefusedBefore)
            }
            PieceState::Refused { .. } => {
                self.pieces.remove(&start);
                return None;
            }
            // Users from before the loss of the context still hold it. It must be unlocked first.
            PieceState::Locked if piece.device.is_lost() => Err(NotLocked::Busy),
            PieceState::Locked => {
                self.clock += 1;
                (piece.users, piece.last_use) = (piece.users + 1, self.clock);
                Ok(start)
            }
        })
    }

    fn insert(&mut self, device: &Arc<Device>, memory: RawSlice<'_>) {
        self.clock += 1;
        self.bytes += memory.len() as u64;
        let (state, device) = (PieceState::Locking, Arc::clone(device));
        let piece =
            LockedPiece { len: memory.len(), state, device, users: 1, last_use: self.clock };
        self.pieces.insert(memory.as_ptr().addr(), piece);
    }

    /// Checks for room for `len` more bytes. If there is none, returns the least recently used piece, which the caller
    /// must unlock.
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

    /// Takes the pieces whose locks may be lost with a context. After a loss, these are all unused pieces. Later,
    /// these are pieces of lost contexts whose last user is gone.
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

    /// Takes a piece to unlock it. Forgets a piece that the driver refused, and leaves a piece alone that is being
    /// unlocked.
    fn take(&mut self, start: usize) -> Option<Unlocking> {
        let piece = self.pieces.get_mut(&start)?;
        match piece.state {
            PieceState::Unlocking => None,
            PieceState::Refused { .. } => {
                self.pieces.remove(&start);
                None
            }
            PieceState::Locking | PieceState::Locked => {
                piece.state = PieceState::Unlocking;
                Some(Unlocking { start, len: piece.len, device: Arc::clone(&piece.device) })
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
    /// Unlocks the piece, without the table's lock, because this takes milliseconds.
    fn run(self) {
        let unlocked = self.device.within(|| self.device.driver().host_unregister(self.start));
        if let Err(error) = unlocked {
            tracing::debug!(%error, "pages were not unlocked");
        }
        let mut locks = locks();
        if locks.pieces.remove(&self.start).is_some() {
            locks.bytes -= self.len as u64;
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
        // A forked child holds no page-locks.
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
        // Wait for the pieces that other threads are unlocking to make room.
        let mut locks = self::locks();
        while locks.pieces.range(self.start..self.end).next().is_some() {
            locks = UNLOCKED.wait(locks).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
