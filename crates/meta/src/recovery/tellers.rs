//! Which segments can tell a leader what others lack: see [`written_ahead`](super::written_ahead). With a segment that
//! leaves, what it alone could tell is lost.

use std::collections::BTreeSet;

use mooncake_types::mutation::{Rule, is_broken};
use mooncake_types::{SegmentId, Version};

use super::NEWER_THAN_ALL;
use super::written_ahead::UNTOLD;
use crate::Meta;
use crate::segments::{Closed, Effect};
use crate::touched::touch;

impl Meta {
    /// Has the record strike a member; see [`Self::strike_members`].
    pub(crate) fn strike_member(&mut self, id: SegmentId) {
        self.strike_members(&BTreeSet::from([id]));
    }

    /// Has the record strike members, and with them the missing ones of which nobody else could tell this leader what
    /// they lack. Later leaders no longer know what those segments lack that are behind since before one of them.
    pub(crate) fn strike_members(&mut self, ids: &BTreeSet<SegmentId>) {
        let is_left = |id: &SegmentId| !self.members.is_pending(Effect::Strike(*id));
        let mut struck: BTreeSet<SegmentId> = ids.iter().copied().filter(is_left).collect();
        let would_tell = struck.iter().filter_map(|&id| self.missing_would_tell_before(id)).max();
        if let Some(before) = would_tell
            && !is_broken(Rule::WhoAloneKnewTakesOthersAlong)
        {
            struck.extend(self.missing_since_before(before).filter(is_left));
        }
        let tells = struck.iter().filter_map(|&id| self.tells_before(id)).max();
        if let Some(before) = tells {
            self.lose_track_but(before, &struck);
        }
        // If this leader dies meanwhile, the next one knows who could tell what the others lack until those are struck.
        let mut in_order: Vec<SegmentId> = struck.into_iter().collect();
        in_order.sort_by_key(|&id| self.members.behind_since(id).unwrap_or(NEWER_THAN_ALL));
        for id in in_order {
            if let Some(slot) = self.segments.find(id) {
                self.segments.set(slot, Closed::Struck, true);
            }
            self.emit(Effect::Strike(id));
        }
    }

    /// A segment is lent by another process than the one that wrote its entries. The new process may lack some that had no
    /// rows, so it cannot tell of all changes that segments lack which are behind since before it.
    ///
    /// False while the record does not say so yet.
    pub(crate) fn note_restarted(&mut self, id: SegmentId) -> bool {
        if let Some(before) = self.missing_would_tell_before(id) {
            let untold: BTreeSet<SegmentId> = self.missing_since_before(before).collect();
            self.strike_members(&untold);
        }
        let Some(before) = self.tells_before(id) else { return true };
        self.lose_track_before(before);
        self.members.behind_before(before).next().is_none()
    }

    /// A segment can tell later leaders what those segments lack that are behind since before this version; none if it
    /// can tell nothing. A disk tells nothing that the record does not: what lies on disks alone was evicted from memory.
    pub(super) fn tells_before(&self, id: SegmentId) -> Option<Version> {
        match self.members.is_behind(id).filter(|_| !self.members.is_disk(id))? {
            true => self.members.behind_since(id),
            false => Some(NEWER_THAN_ALL),
        }
    }

    /// As [`Self::tells_before`], of a segment that has not reported to this leader; none if it has.
    fn missing_would_tell_before(&self, id: SegmentId) -> Option<Version> {
        let before = self.recovery.would_tell_before(id);
        self.recovery.tellers.contains(&(before, id)).then_some(before)
    }

    /// The missing segments that were behind since before a version when this leader began.
    fn missing_since_before(&self, version: Version) -> impl Iterator<Item = SegmentId> {
        let recovery = &self.recovery;
        let before = recovery.were_behind.iter().inspect(|_| touch());
        let before = before.filter(move |&(_, &since)| since < version);
        before.map(|(&id, _)| id).filter(|&id| recovery.is_missing(id))
    }

    /// From now on no later leader can tell what those segments lack that are behind since before a version.
    pub(crate) fn lose_track_before(&mut self, version: Version) {
        self.lose_track_but(version, &BTreeSet::new());
    }

    /// As [`Self::lose_track_before`], but for segments that are about to be struck.
    fn lose_track_but(&mut self, version: Version, struck: &BTreeSet<SegmentId>) {
        if is_broken(Rule::WhoAloneKnewTakesOthersAlong) {
            return;
        }
        let is_left = |id: &SegmentId| {
            !struck.contains(id)
                && !self.members.is_pending(Effect::Strike(*id))
                && !self.members.is_caught_up(*id)
        };
        for id in self.members.behind_before(version).filter(is_left).collect::<Vec<_>>() {
            self.emit(Effect::MarkBehind(id, UNTOLD));
        }
    }

    /// Whether a segment that was behind before this leader began must wait until others have reported that know what
    /// it lacks.
    pub(crate) fn awaits_others(&self, id: SegmentId) -> bool {
        let Some(&since) = self.recovery.were_behind.get(&id) else { return false };
        // What the segment itself can tell of is older still.
        let knows_more = self.recovery.tellers.last().is_some_and(|&(before, _)| before > since);
        knows_more
            && !self.members.is_pending(Effect::Strike(id))
            && !is_broken(Rule::WhoKnowsMoreReportsFirst)
    }
}
