use std::collections::BTreeSet;

use mooncake_types::SegmentId;

use super::phase::Phase;
use crate::Meta;
use crate::check::{Check, ensure};
use crate::objects::{Object, ObjectState};
use crate::segments::{Closed, Effect};
use crate::timer::Timer;

impl Meta {
    fn has_routes(&self, id: SegmentId) -> bool {
        self.timers.iter().any(|&(_, timer)| timer == Timer::RoutesOver(id))
    }

    pub(crate) fn every_member_is_where_it_should_be(&self) -> Check {
        for (slot, segment) in self.segments.iter().filter(|(_, segment)| segment.is_mounted()) {
            let behind = self.members.is_behind(segment.id);
            ensure(
                "a mounted segment is a member, and takes no puts if it is behind",
                behind.is_some_and(|behind| behind <= segment.is(Closed::Behind)),
                || {
                    format!(
                        "segment slot {slot}: {:?}, behind in the record: {behind:?}",
                        segment.closed
                    )
                },
            )?;
            let is_recovering = segment.is(Closed::Recovering);
            let is_told_of = segment.recovering.is_some();
            ensure(
                "a segment recovers, or is under review, until its last page",
                is_recovering == is_told_of
                    || (is_told_of && segment.is(Closed::Reviewed))
                    || segment.takes_puts(),
                || format!("segment slot {slot}: {:?}", segment.closed),
            )?;
            ensure(
                "nothing is put where not all is reserved",
                segment.recovering.is_none() || !segment.takes_puts(),
                || format!("segment slot {slot}"),
            )?;
            ensure(
                "what is struck is on its way out of the record",
                !segment.is(Closed::Struck)
                    || self.members.is_pending(Effect::Strike(segment.id))
                    || self.has_routes(segment.id),
                || format!("segment slot {slot}"),
            )?;
        }
        for &id in self.recovery.shadows.replayed() {
            let recovers = |slot: u32| {
                let segment = &self.segments[slot];
                segment.recovering.is_some() || segment.is(Closed::Struck)
            };
            ensure(
                "what is taken up from a shadow is recovering",
                self.segments.find(id).is_none_or(recovers),
                || format!("segment {id}"),
            )?;
        }
        let missing: BTreeSet<_> = self.recovery.missing().collect();
        let is_behind = |member: &crate::Member| member.behind.is_some();
        let behind: BTreeSet<_> = self.members.iter().filter(is_behind).collect();
        let behind: BTreeSet<_> = behind.into_iter().map(|member| member.segment).collect();
        ensure(
            "who serves has heard of every member, or has it marked behind",
            !self.serves() || missing.is_subset(&behind),
            || format!("{missing:?} are missing, {behind:?} are behind"),
        )
    }

    pub(crate) fn every_review_is_of_a_segment_that_takes_no_puts(&self) -> Check {
        let under_review: BTreeSet<u32> = self.reviews.slots().collect();
        let flagged = self.segments.iter().filter(|(_, segment)| segment.is(Closed::Reviewed));
        let flagged: BTreeSet<u32> =
            flagged.filter(|(_, it)| it.is_mounted()).map(|(slot, _)| slot).collect();
        ensure("what is under review takes no puts", under_review == flagged, || {
            format!("slots {under_review:?} are, {flagged:?} know of it")
        })?;
        for id in self.reviews.missed() {
            let range = self.ranges.get(id);
            let state = range.map(|range| self.objects[range.object].state);
            ensure(
                "what was missed belongs to what has not ended",
                state.is_some_and(|it| it.is_running() || it == ObjectState::Copying),
                || format!("range {id}: {range:?}, {state:?}"),
            )?;
        }
        Ok(())
    }

    pub(crate) fn every_stripe_that_waits_is_kept(&self) -> Check {
        let mut waiting = 0;
        for (version, pieces) in &self.recovery.waiting {
            waiting += 1;
            let object = self.objects.get(pieces.object);
            let is_right = object
                .is_some_and(|it| it.state == ObjectState::Gathering && it.version == *version);
            let held: BTreeSet<u32> = match is_right {
                true => self.ranges_of(pieces.object).map(|(id, _)| id).collect(),
                false => BTreeSet::new(),
            };
            let found: BTreeSet<u32> = pieces.found.iter().map(|piece| piece.range).collect();
            ensure("stripes that wait belong to a record of their own", held == found, || {
                format!("{version}: {pieces:?}, {object:?}")
            })?;
            let whole = object.and_then(|object| pieces.replica(object.len));
            ensure("stripes that make up a replica do not wait", whole.is_none(), || {
                format!("{version}: {pieces:?}")
            })?;
        }
        let gathering = |object: &&Object| object.state == ObjectState::Gathering;
        let records = self.objects.iter().map(|(_, object)| object).filter(gathering).count();
        ensure("every record of stripes is known", records == waiting, || {
            format!("{records} records, {waiting} known")
        })?;
        let replacing = &self.recovery.replacing;
        let is_over = self.recovery.phase == Phase::Over;
        let is_complete =
            |&id: &u32| self.objects.get(id).is_some_and(|it| it.state == ObjectState::Complete);
        ensure(
            "only finished objects wait for older versions",
            replacing.iter().all(is_complete) && (replacing.is_empty() || !is_over),
            || format!("{replacing:?}"),
        )
    }
}
