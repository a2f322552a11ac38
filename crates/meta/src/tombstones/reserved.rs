//! Memory that belongs to no object and stays reserved until a given time, because a writer may be at work there or a
//! reader does not let go of it:
//!
//! - the ranges of a put that nobody ended, until `put_release_ms` after its start;
//! - those of a copy that was given up, and what a new leader finds half written, for as long as a put that is given up now
//!   keeps its own;
//! - those that their node could not let a writer have, for a minute at most: the next writer could not have them either.
//!
//! There is a tombstone for what lies there at once, and once more when the time is over.

use mooncake_types::Version;

use crate::segments::{Piece, Pieces};
use crate::slab::Slab;

/// Ranges of one version.
#[derive(Debug)]
pub(super) struct Reservation {
    /// Of the key.
    pub(super) hash: u64,
    pub(super) version: Version,
    pub(super) pieces: Pieces,
}

/// All reservations, each with a [timer](crate::timer::Timer::Release).
#[derive(Debug, Default)]
pub(crate) struct Reservations {
    pub(super) known: Slab<Reservation>,
    pub(super) len_bytes: u64,
}

impl Reservations {
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    /// Bytes of all of them.
    pub(crate) fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// The ranges of each, and the number that its timer names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &[Piece])> {
        self.known.iter().map(|(id, reservation)| (id, &*reservation.pieces))
    }
}
