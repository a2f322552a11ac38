//! Memory that a provider knows, in pieces of bounded length.

use std::ffi::c_void;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use mooncake_memory::{DeviceRegion, Dmabuf, HeldMemory, HeldSlice, RawSlice, Registration};

use crate::call::CallError;
use crate::descriptor::{MAX_PIECES, Piece};
use crate::domain::Domain;
use crate::error::{DeviceRefusal, RegisterError};
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

/// A piece of memory of a device.
#[derive(Clone, Copy)]
pub(crate) struct DevicePiece<'m> {
    pub(crate) memory: &'m DeviceRegion,
    /// A dmabuf of all of the memory, or why there is none.
    pub(crate) dmabuf: &'m Result<Dmabuf, String>,
    pub(crate) from: usize,
    pub(crate) len: usize,
}

impl Pieces {
    /// Registers memory of the host.
    fn new(domain: &Domain, memory: RawSlice<'_>, rights: Rights) -> Result<Pieces, RegisterError> {
        Pieces::each(domain, memory.len(), |from, len| {
            let piece = memory.sub(from, len);
            domain.provider.register(piece, rights).map_err(|error| describe(piece, error))
        })
    }

    /// Registers memory of a device for requests of this process.
    fn of_device(domain: &Domain, memory: &DeviceRegion) -> Result<Pieces, RegisterError> {
        let (ordinal, bytes) = (memory.ordinal(), memory.len() as u64);
        let refused = |refusal| RegisterError::Device { ordinal, bytes, refusal };
        let provider = domain.provider.devices();
        let provider = provider.ok_or_else(|| refused(DeviceRefusal::Provider))?;
        let admitted = memory.access().admit_cards();
        admitted.map_err(|reason| refused(DeviceRefusal::Driver { reason }))?;
        // Open until all pieces are registered.
        let dmabuf = &memory.access().dmabuf();
        Pieces::each(domain, memory.len(), |from, len| {
            let piece = DevicePiece { memory, dmabuf, from, len };
            provider.register(&piece, Rights::Local).map_err(refused)
        })
    }

    /// Registers each piece of so many bytes, those of huge memory in several threads. `register` gets the first byte and
    /// the length of a piece.
    fn each(
        domain: &Domain,
        bytes: usize,
        register: impl Fn(usize, usize) -> Result<Box<dyn Registered>, RegisterError> + Sync,
    ) -> Result<Pieces, RegisterError> {
        if domain.is_forked() {
            return Err(RegisterError::Forked);
        }
        let piece_bytes = usize::try_from(domain.limits.piece_bytes).unwrap_or(usize::MAX);
        let count = bytes.div_ceil(piece_bytes);
        if count > MAX_PIECES {
            let most = domain.limits.piece_bytes * MAX_PIECES as u64;
            return Err(RegisterError::TooLong { bytes: bytes as u64, most });
        }
        let register = &|at: usize| {
            let from = at * piece_bytes;
            register(from, piece_bytes.min(bytes - from))
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

/// A region that local sides of transfers may use, of a device or where the provider asks for that. It lies in the region's
/// own table.
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
    /// The registration of the memory's region with this domain, made at the first call.
    pub(crate) fn of<'r>(
        domain: &Arc<Domain>,
        memory: &'r HeldMemory,
    ) -> Result<&'r LocalPieces, RegisterError> {
        let (number, of) = (domain.number(), Arc::clone(domain));
        let made = |pieces| LocalPieces { pieces, domain: of };
        match memory {
            HeldMemory::Host(slice) => {
                let region = slice.region();
                let register = || Pieces::new(domain, region.whole(), Rights::Local).map(made);
                region.registered(number, register)
            }
            HeldMemory::Device(slice) => {
                let region = slice.region();
                region.registered(number, || Pieces::of_device(domain, region).map(made))
            }
        }
    }

    /// The provider's name for the piece that holds an offset of the region, and the number of the piece's bytes from
    /// there on.
    pub(crate) fn at(&self, offset: usize) -> (*mut c_void, usize) {
        let piece_bytes = usize::try_from(self.domain.limits.piece_bytes).unwrap_or(usize::MAX);
        let piece = &self.pieces.pieces[offset / piece_bytes];
        (piece.descriptor(), piece_bytes - offset % piece_bytes)
    }
}
