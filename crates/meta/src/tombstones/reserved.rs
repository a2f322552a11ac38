//! Reserved memory of no object: a writer may still write there, or a reader does not let go of it. Each reservation
//! ends at a given time:
//!
//! - the ranges of a put that was never ended, `put_release_ms` after its start;
//! - the ranges of a copy that was given up, as long as those of a put that is given up now;
//! - half-written ranges that a new leader finds, for the same time;
//! - ranges that their node could not give to a writer, after a minute at most: the node could not give them to the
//!   next writer either.
//!
//! The entries there get tombstones at once, and again when the reservation ends.

use mooncake_types::Version;

use crate::segments::{Piece, Pieces};
use crate::slab::Slab;

/// Ranges of one version.
#[derive(Debug)]
pub(super) struct Reservation {
    /// The hash of the key.
    pub(super) hash: u64,
    pub(super) version: Version,
    /// The account of the tenant that pays for ranges in memory, if tenants have quotas.
    pub(super) payer: Option<u32>,
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

    /// Bytes of all reservations.
    pub(crate) fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// The account that pays for a reservation, and its ranges, of each that is paid for.
    pub(crate) fn paid(&self) -> impl Iterator<Item = (u32, &[Piece])> {
        self.known.iter().filter_map(|(_, it)| Some((it.payer?, &*it.pieces)))
    }

    /// The ranges of each reservation, and the number that its timer names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &[Piece])> {
        self.known.iter().map(|(id, reservation)| (id, &*reservation.pieces))
    }
}
