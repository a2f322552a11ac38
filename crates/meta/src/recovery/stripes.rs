//! Striped replicas: a reported stripe waits until the other stripes of its replica are reported.

use mooncake_types::{InventoryEntry, Version};

use super::attributes::Attributes;
use super::belief::{Belief, FoundVersion};
use super::entry::ImplausibleReport;
use super::waiting_stripes::{FoundPiece, WaitingStripes};
use crate::Meta;
use crate::objects::ObjectState;
use crate::segments::Piece;

impl Meta {
    /// Keeps a stripe until the others are reported, then makes a replica of them.
    pub(super) fn gather_stripe(
        &mut self,
        found: &FoundVersion<'_>,
        piece: Piece,
        entry: &InventoryEntry<'_>,
    ) -> Result<(), ImplausibleReport> {
        let range = match self.recovery.waiting.get(&found.version).map(|pieces| pieces.object) {
            Some(object) => {
                let record = &self.objects[object];
                if record.len != found.len || *record.key != *found.key {
                    self.unreserve(&[piece]);
                    return Err(ImplausibleReport);
                }
                self.append_replica(object, 0, &[piece])[0]
            }
            None => {
                let object = self.insert_found(found, ObjectState::Gathering, self.now, &[piece]);
                let attributes = entry.attributes.to_vec();
                let pieces = WaitingStripes { object, found: Vec::new(), attributes };
                self.recovery.waiting.insert(found.version, pieces);
                self.objects[object].first_range
            }
        };
        let object_offset = entry.object_offset;
        let piece = FoundPiece { object_offset, len: piece.len, segment: piece.segment, range };
        let pieces = self.recovery.waiting.get_mut(&found.version).expect("it was just put in");
        pieces.found.push(piece);
        let Some(chain) = pieces.replica(found.len) else { return Ok(()) };
        let attributes = pieces.attributes.clone();
        let whole: Vec<FoundPiece> = chain.iter().map(|&place| pieces.found[place]).collect();
        let pieces: Vec<Piece> =
            whole.iter().map(|it| self.take_piece(found.version, it.range)).collect();
        let attributes = Attributes::decode(&attributes).unwrap_or_default();
        let found = FoundVersion { attributes, ..*found };
        let mut beliefs = pieces.iter().map(|piece| self.judge_entry_on(piece.segment, &found));
        let first = beliefs.next().unwrap_or(Belief::Refuted);
        let refuted = beliefs.find(|&belief| belief == Belief::Refuted);
        self.take_replica(&found, &pieces, refuted.unwrap_or(first))
    }

    /// Removes a stripe from those that wait. Its range stays reserved.
    fn take_piece(&mut self, version: Version, range: u32) -> Piece {
        let pieces = self.recovery.waiting.get_mut(&version).expect("the piece is one of some");
        pieces.found.retain(|piece| piece.range != range);
        let (object, is_last) = (pieces.object, pieces.found.is_empty());
        let piece = self.take_range(object, range);
        if is_last {
            self.recovery.waiting.remove(&version);
            self.forget_empty(object);
        }
        piece
    }

    /// Forgets the waiting stripes on a segment.
    pub(crate) fn forget_pieces_on(&mut self, slot: u32) {
        let waiting = self.recovery.waiting.iter().flat_map(|(&version, pieces)| {
            let here = pieces.found.iter().filter(|piece| piece.segment == slot);
            here.map(move |piece| (version, piece.range)).collect::<Vec<_>>()
        });
        let waiting: Vec<(Version, u32)> = waiting.collect();
        for (version, range) in waiting {
            self.forget_piece(version, range);
        }
    }

    /// Forgets a waiting stripe and frees its range.
    pub(crate) fn forget_piece(&mut self, version: Version, range: u32) {
        let piece = self.take_piece(version, range);
        self.unreserve(&[piece]);
    }

    /// Drops all waiting stripes: no memory segment can still report the missing ones.
    pub(super) fn drop_stripes(&mut self) {
        for pieces in std::mem::take(&mut self.recovery.waiting).into_values() {
            self.drop_object(pieces.object);
        }
    }
}
