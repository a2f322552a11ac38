//! Memory that a provider knows, in pieces of bounded length.

use std::ffi::c_void;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use mooncake_memory::{HeldSlice, RawSlice, Region, Registration};

use crate::call::CallError;
use crate::descriptor::{MAX_PIECES, Piece};
use crate::domain::Domain;
use crate::error::RegisterError;
use crate::port::{Port, Registered};

/// Most threads that register pieces of one memory.
const MAX_THREADS: usize = 8;

/// What peers may do with memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read it.
    Read,
    /// Write it.
    Write,
    /// Both.
    ReadWrite,
}

/// Who may use memory that is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rights {
    /// Requests of this process.
    Local,
    /// Peers.
    Remote(Access),
}

/// Pieces of one memory. Closed on drop, which must be before the memory is unmapped.
pub(crate) struct Pieces {
    pieces: Vec<Box<dyn Registered>>,
}

impl Pieces {
    /// Registers memory, huge memory in several threads.
    fn new(domain: &Domain, memory: RawSlice<'_>, rights: Rights) -> Result<Pieces, RegisterError> {
        if domain.is_forked() {
            return Err(RegisterError::Forked);
        }
        let piece_bytes = usize::try_from(domain.limits.piece_bytes).unwrap_or(usize::MAX);
        let count = memory.len().div_ceil(piece_bytes);
        if count > MAX_PIECES {
            let most = domain.limits.piece_bytes * MAX_PIECES as u64;
            return Err(RegisterError::TooLong { bytes: memory.len() as u64, most });
        }
        let register = |at: usize| {
            let from = at * piece_bytes;
            let piece = memory.sub(from, piece_bytes.min(memory.len() - from));
            domain.provider.register(piece, rights).map_err(|error| describe(piece, error))
        };
        if count < 2 {
            return Ok(Pieces { pieces: (0..count).map(register).collect::<Result<_, _>>()? });
        }
        let made: Vec<_> = (0..count).map(|_| Mutex::new(None)).collect();
        let (threads, made_by) = (MAX_THREADS.min(count), &made);
        thread::scope(|scope| {
            for first in 0..threads {
                scope.spawn(move || {
                    for at in (first..count).step_by(threads) {
                        let piece = register(at);
                        let is_failed = piece.is_err();
                        *made_by[at].lock().unwrap_or_else(PoisonError::into_inner) = Some(piece);
                        if is_failed {
                            return;
                        }
                    }
                });
            }
        });
        let made = made
            .into_iter()
            .filter_map(|piece| piece.into_inner().unwrap_or_else(PoisonError::into_inner));
        // A thread that failed has left out pieces, but its error is among the others.
        Ok(Pieces { pieces: made.collect::<Result<_, _>>()? })
    }

    /// Ties the pieces to a port, where a provider asks for that.
    pub(crate) fn attach(&self, port: &dyn Port) -> Result<(), CallError> {
        self.pieces.iter().try_for_each(|piece| piece.attach(port))
    }

    /// How peers reach the pieces.
    pub(crate) fn described(&self, domain: &Domain, memory: RawSlice<'_>) -> Vec<Piece> {
        let is_virtual = domain.device().mr_mode.virtual_addresses;
        let base = |at: usize| match is_virtual {
            true => memory.as_ptr().addr() as u64 + at as u64 * domain.limits.piece_bytes,
            false => 0,
        };
        let pieces = self.pieces.iter().enumerate();
        pieces.map(|(at, piece)| Piece { base: base(at), keys: piece.keys() }).collect()
    }
}

fn describe(memory: RawSlice<'_>, error: CallError) -> RegisterError {
    let bytes = memory.len() as u64;
    match error.number {
        libc::ENOMEM => RegisterError::LockedMemory { bytes, error },
        _ => RegisterError::Call { bytes, error },
    }
}

/// Registers memory that peers may reach.
pub(crate) fn expose(
    domain: &Domain,
    memory: &HeldSlice,
    access: Access,
) -> Result<Pieces, RegisterError> {
    Pieces::new(domain, memory.raw(), Rights::Remote(access))
}

/// A region that local sides of transfers may use, where the provider asks for that. It lies in the region's own table.
pub(crate) struct LocalPieces {
    pieces: Pieces,
    // Dropped after the pieces.
    domain: Arc<Domain>,
}

impl Registration for LocalPieces {}

impl fmt::Debug for LocalPieces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalPieces({} of {:?})", self.pieces.pieces.len(), self.domain)
    }
}

impl LocalPieces {
    /// The registration of a region with this domain, made at the first call.
    pub(crate) fn of<'r>(
        domain: &Arc<Domain>,
        region: &'r Region,
    ) -> Result<&'r LocalPieces, RegisterError> {
        region.registered(domain.number(), || {
            let pieces = Pieces::new(domain, region.whole(), Rights::Local)?;
            Ok(LocalPieces { pieces, domain: Arc::clone(domain) })
        })
    }

    /// The provider's name for the piece that holds an offset of the region, and the number of the piece's bytes from
    /// there on.
    pub(crate) fn at(&self, offset: usize) -> (*mut c_void, usize) {
        let piece_bytes = usize::try_from(self.domain.limits.piece_bytes).unwrap_or(usize::MAX);
        let piece = &self.pieces.pieces[offset / piece_bytes];
        (piece.descriptor(), piece_bytes - offset % piece_bytes)
    }
}
