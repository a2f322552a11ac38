//! Begins and ends reservations.

use mooncake_types::{Tick, Version};

use super::reserved::Reservation;
use crate::Meta;
use crate::objects::Hashed;
use crate::segments::Pieces;
use crate::timer::Timer;

/// How long ranges stay reserved that their node could not give to a writer. Less if ranges of puts that are given up
/// are free sooner.
const HELD_MS: u64 = 60_000;

impl Meta {
    /// Keeps ranges that belong to no object reserved until a time. The tenant of the key pays for them.
    pub(crate) fn reserve_until(
        &mut self,
        until: Tick,
        (Hashed { key, hash }, version): (Hashed<'_>, Version),
        pieces: Pieces,
    ) {
        let payer = self.charge_pieces(key, &pieces);
        for piece in &pieces {
            self.tombstones.reserved.len_bytes += piece.len;
            self.leave_tombstone_in(piece, (hash, version));
        }
        let id =
            self.tombstones.reserved.known.insert(Reservation { hash, version, payer, pieces });
        self.timers.insert((until, Timer::Release(id)));
    }

    /// Takes the replicas in `set` (bits) from a put or a copy, and keeps their ranges reserved until a time. The put
    /// must have left its queue. Ranges on unmounted segments stay with it.
    pub(crate) fn reserve_replicas(&mut self, object: u32, set: u32, until: Tick) {
        if set == 0 {
            return;
        }
        let mut ids = self.range_ids(object, set);
        ids.retain(|id| self.segments[self.ranges[*id].segment].is_mounted());
        if ids.is_empty() {
            return;
        }
        let (key, version) = (self.objects[object].key.clone(), self.objects[object].version);
        let pieces = ids.into_iter().map(|id| self.take_range(object, id)).collect();
        self.reserve_until(until, (self.index.hashed(&key), version), pieces);
    }

    /// The time until which ranges stay reserved that are given up now: their writer may write until then.
    pub(crate) fn end_of_writers(&self) -> Tick {
        self.now.after_ms(self.config.put_release_ms - self.config.put_discard_ms)
    }

    /// The time until which ranges stay reserved that their node could not give to a writer.
    pub(crate) fn end_of_readers(&self) -> Tick {
        self.now.after_ms(HELD_MS).min(self.end_of_writers())
    }

    /// Ends a reservation and frees its ranges.
    pub(crate) fn release(&mut self, id: u32) {
        let Reservation { hash, version, payer, pieces } =
            self.tombstones.reserved.known.remove(id);
        self.refund_pieces(payer, &pieces);
        for piece in &pieces {
            self.tombstones.reserved.len_bytes -= piece.len;
            self.free_piece(piece, (hash, version));
        }
        self.counters.puts_released += 1;
    }
}
