//! Turns reported entries into objects, replicas or tombstones.

use mooncake_types::mutation::{Rule, is_broken};
use mooncake_types::{EntryState, InventoryEntry, PutMode, Tick};
use smallvec::smallvec;

use super::attributes::Attributes;
use super::belief::{Belief, FoundVersion};
use super::entry::ImplausibleReport;
use crate::Meta;
use crate::objects::{Asked, Hashed, Object, ObjectState, Pin, QueueKind};
use crate::segments::Piece;
use crate::slab::NONE;

impl Meta {
    /// Takes a reported entry, whose range is reserved already.
    pub(super) fn take_entry(
        &mut self,
        entry: &InventoryEntry<'_>,
        piece: Piece,
        attributes: Attributes<'_>,
    ) -> Result<(), ImplausibleReport> {
        let (key, version, len) = (entry.key, entry.version, entry.object_len);
        let found = FoundVersion { key, hash: self.index.hash(key), version, len, attributes };
        if self.is_overruled_on(piece.segment, key, version) {
            self.drop_found(&found, &[piece]);
            return Ok(());
        }
        if entry.state == EntryState::Writing {
            // No reader will ever get this entry.
            self.reserve_half_written(&found, piece);
            return Ok(());
        }
        match self.judge_entry_on(piece.segment, &found) {
            belief if entry.len == entry.object_len => self.take_replica(&found, &[piece], belief),
            Belief::Refuted => {
                self.drop_found(&found, &[piece]);
                Ok(())
            }
            _ => self.gather_stripe(&found, piece, entry),
        }
    }

    /// Reserves a half-written range as long as its writer may be at work, as for a put that is given up now. It also
    /// leaves a tombstone, so that no later leader finds the entry.
    fn reserve_half_written(&mut self, found: &FoundVersion<'_>, piece: Piece) {
        if is_broken(Rule::WritersAreWaitedFor) {
            return self.unreserve(&[piece]);
        }
        let key = Hashed { key: found.key, hash: found.hash };
        self.reserve_until(self.end_of_writers(), (key, found.version), smallvec![piece]);
    }

    /// Frees the ranges of reported entries that readers must not get, and has their nodes drop the entries.
    fn drop_found(&mut self, found: &FoundVersion<'_>, pieces: &[Piece]) {
        for piece in pieces {
            self.free_piece(piece, (found.hash, found.version));
        }
    }

    /// Takes a whole replica.
    pub(super) fn take_replica(
        &mut self,
        found: &FoundVersion<'_>,
        pieces: &[Piece],
        belief: Belief,
    ) -> Result<(), ImplausibleReport> {
        let older = match belief {
            Belief::Known(object) => return self.add_replica(object, found, pieces),
            Belief::Refuted => {
                self.drop_found(found, pieces);
                return Ok(());
            }
            Belief::Outdated => {
                let object = self.insert_readable(found, pieces);
                self.leave_leased_tombstone(object);
                return Ok(());
            }
            Belief::Beside { put } => {
                self.step_aside(put);
                None
            }
            Belief::Newest { older } => older,
        };
        let object = self.insert_readable(found, pieces);
        self.give_key(object, found.hash, older);
        self.begin_found(object, &found.attributes);
        self.note_replicas(object);
        self.note_predecessors(object);
        Ok(())
    }

    /// Inserts a record for a replica that readers may have routes to.
    fn insert_readable(&mut self, found: &FoundVersion<'_>, pieces: &[Piece]) -> u32 {
        let until = self.now.after_ms(self.config.lease_ttl_ms);
        self.insert_found(found, ObjectState::Complete, until, pieces)
    }

    /// Inserts a record for a reported version.
    pub(super) fn insert_found(
        &mut self,
        found: &FoundVersion<'_>,
        state: ObjectState,
        time: Tick,
        pieces: &[Piece],
    ) -> u32 {
        let attributes = &found.attributes;
        let record = Object {
            key: found.key.into(),
            version: found.version,
            len: found.len,
            time,
            first_range: NONE,
            writer: 0,
            group: NONE,
            state,
            pin: match attributes.lasting_soft_pin() {
                _ if attributes.hard_pin => Pin::Hard,
                Some(_) => Pin::Soft,
                None => Pin::None,
            },
            data_type: attributes.data_type,
            asked: Asked::new(PutMode::Insert, attributes.replicas),
        };
        let class = self.new_class((found.key, pieces[0].segment), found.hash, 0, false);
        self.insert_object(record, class, std::iter::once((0, pieces)))
    }

    /// Makes a reported object readable and leases it, since readers may have routes to it from the last leader.
    fn begin_found(&mut self, object: u32, attributes: &Attributes<'_>) {
        self.join_group(object, attributes.group);
        self.count_in_group(object);
        if let Some((ttl_ms, slides)) = attributes.lasting_soft_pin() {
            self.note_soft_pin(object, (ttl_ms.min(self.config.max_soft_pin_ttl_ms), slides));
            self.begin_soft_pin(object);
        }
        if attributes.replaces {
            self.note_replacing(object);
        }
        self.lease_anew(object);
    }

    /// Adds a replica to a version that the leader knows.
    ///
    /// - If key or length differ, the ranges are free again and the report makes no sense.
    /// - If it shares a segment with another replica, or no replica number is free, its node must drop it.
    fn add_replica(
        &mut self,
        object: u32,
        found: &FoundVersion<'_>,
        pieces: &[Piece],
    ) -> Result<(), ImplausibleReport> {
        let record = &self.objects[object];
        let state = record.state;
        let is_same = record.len == found.len && *record.key == *found.key;
        if !is_same || !matches!(state, ObjectState::Complete | ObjectState::Tombstone) {
            self.unreserve(pieces);
            return Err(ImplausibleReport);
        }
        let known = || [Some(object), self.copy_of(object)].into_iter().flatten();
        let shares = |piece: &Piece| {
            let mut ranges = known().flat_map(|of| self.ranges_of(of));
            ranges.any(|(_, range)| range.segment == piece.segment)
        };
        let number = self.free_replica_numbers(object).next();
        let Some(number) = number.filter(|_| !pieces.iter().any(shares)) else {
            self.drop_found(found, pieces);
            return Ok(());
        };
        let added = self.append_replica(object, number, pieces);
        match state {
            ObjectState::Complete => self.lease_anew(object),
            _ => added.into_iter().for_each(|range| self.enqueue(range, QueueKind::Tombstone)),
        }
        self.note_replicas(object);
        Ok(())
    }
}
