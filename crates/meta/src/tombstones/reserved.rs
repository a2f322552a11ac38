//! Memory that belongs to no object and stays reserved until a given time, because a writer may be at work there or a
//! reader does not let go of it:
//!
//! - the ranges of a put that nobody ended, until `put_release_ms` after its start;
//! - those of a copy that was given up, and what a new leader finds half written, for as long as a put that is given up now
//!   keeps its own;
//! - those that their node could not let a writer have, for a minute at most: the next writer could not have them either.
//!
//! There is a tombstone for what lies there at once, and once more when the time is over.

use mooncake_types::{Tick, Version};
use smallvec::SmallVec;

use crate::Meta;
use crate::placement::{Piece, Pieces};
use crate::slab::Slab;
use crate::timeout::Timer;

/// How long ranges stay reserved that their node could not let a writer have, unless puts that are given up free theirs
/// sooner.
const HELD_MS: u64 = 60_000;

/// Ranges of one version.
#[derive(Debug)]
struct Reservation {
    /// Of the key.
    hash: u64,
    version: Version,
    pieces: Pieces,
}

/// All reservations, each with a [timer](Timer::Release).
#[derive(Debug, Default)]
pub(crate) struct Reservations {
    known: Slab<Reservation>,
    len_bytes: u64,
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

impl Meta {
    /// Keeps ranges reserved, which are no object's, until then.
    pub(crate) fn reserve_until(
        &mut self,
        until: Tick,
        (hash, version): (u64, Version),
        pieces: Pieces,
    ) {
        for piece in &pieces {
            self.tombstones.reserved.len_bytes += piece.len;
            self.leave_tombstone_in(piece, (hash, version));
        }
        let id = self.tombstones.reserved.known.insert(Reservation { hash, version, pieces });
        self.timers.insert((until, Timer::Release(id)));
    }

    /// Takes the replicas in `set` (bits) from a put or a copy, and keeps their ranges reserved until then. The put must have
    /// left its queue. It keeps what lies on unmounted segments.
    pub(crate) fn reserve_replicas(&mut self, object: u32, set: u32, until: Tick) {
        if set == 0 {
            return;
        }
        let in_set = self.ranges_of(object).filter(|(_, range)| set & 1 << range.replica != 0);
        let mounted = in_set.filter(|(_, range)| self.segments[range.segment].is_mounted());
        let ids: SmallVec<[u32; 1]> = mounted.map(|(id, _)| id).collect();
        if ids.is_empty() {
            return;
        }
        let record = &self.objects[object];
        let of = (self.index.hash(&record.key), record.version);
        let pieces = ids.into_iter().map(|id| self.take_range(object, id)).collect();
        self.reserve_until(until, of, pieces);
    }

    /// Until when the ranges stay reserved of what is given up now: its writer may be at work until then.
    pub(crate) fn end_of_writers(&self) -> Tick {
        self.now.after_ms(self.config.put_release_ms - self.config.put_discard_ms)
    }

    /// Until when ranges stay reserved that their node could not let a writer have.
    pub(crate) fn end_of_readers(&self) -> Tick {
        self.now.after_ms(HELD_MS).min(self.end_of_writers())
    }

    /// The time of a reservation is over.
    pub(crate) fn release(&mut self, id: u32) {
        let Reservation { hash, version, pieces } = self.tombstones.reserved.known.remove(id);
        for piece in &pieces {
            self.tombstones.reserved.len_bytes -= piece.len;
            self.free_piece(piece, (hash, version));
        }
        self.counters.puts_released += 1;
    }
}
