//! What went wrong in the pool of late, so that one line a cause is logged, and operators can ask for it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use mooncake_types::{ErrorCode, LogLimiter, Tick};
use tracing::warn;

use crate::problems::Problem;

/// How long a trouble is told to operators after it was seen.
const TOLD_MS: u64 = 3_600_000;
/// Parts into which this time is divided.
const PART_MS: u64 = 60_000;
/// Losses within this time are logged in one line.
const GATHERED_MS: u64 = 1_000;
/// Most segments whose failed copies are remembered.
const MOST_SEGMENTS: usize = 1_024;

/// How often something happened in the last hour.
#[derive(Debug, Default)]
struct RecentCount(VecDeque<(u64, u64)>);

impl RecentCount {
    fn add(&mut self, now: Tick, count: u64) {
        let part = now.0 / PART_MS;
        match self.0.back_mut() {
            Some((last, sum)) if *last == part => *sum += count,
            _ => self.0.push_back((part, count)),
        }
        self.forget(now);
    }

    fn forget(&mut self, now: Tick) {
        while self.0.front().is_some_and(|&(part, _)| is_old(part, now)) {
            self.0.pop_front();
        }
    }

    fn get(&self, now: Tick) -> u64 {
        let recent = self.0.iter().filter(|&&(part, _)| !is_old(part, now));
        recent.map(|&(_, count)| count).sum()
    }
}

fn is_old(part: u64, now: Tick) -> bool {
    now.0 / PART_MS >= part + TOLD_MS / PART_MS
}

/// Copies to a disk that failed.
#[derive(Debug)]
struct FailedCopies {
    count: RecentCount,
    last: ErrorCode,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Troubles {
    /// Objects lost so far, as far as they were noted.
    lost: u64,
    losses: RecentCount,
    /// Losses that were not logged yet, and when they are.
    unlogged: Option<(u64, Tick)>,
    failed_copies: BTreeMap<Arc<str>, FailedCopies>,
    logged_copies: LogLimiter<(Arc<str>, ErrorCode)>,
    /// Segments that failed: when, their names, and why.
    failed_segments: VecDeque<(Tick, Arc<str>, Box<str>)>,
}

impl Troubles {
    /// Notes how many objects this leader has lost so far.
    pub(crate) fn note_lost(&mut self, now: Tick, lost: u64) {
        let more = lost - self.lost;
        if more > 0 {
            self.lost = lost;
            self.losses.add(now, more);
            let due = now.after_ms(GATHERED_MS);
            let (count, _) = self.unlogged.get_or_insert((0, due));
            *count += more;
        }
    }

    /// Whether more objects were lost than were noted.
    pub(crate) fn are_behind(&self, lost: u64) -> bool {
        lost > self.lost
    }

    /// Notes that a copy to a segment of a disk failed.
    pub(crate) fn note_failed_copy(&mut self, now: Tick, segment: &Arc<str>, code: ErrorCode) {
        let known = self.failed_copies.contains_key(segment);
        if known || self.failed_copies.len() < MOST_SEGMENTS {
            let first = || FailedCopies { count: RecentCount::default(), last: code };
            let failed = self.failed_copies.entry(Arc::clone(segment)).or_insert_with(first);
            failed.count.add(now, 1);
            failed.last = code;
        }
        if let Some(further) = self.logged_copies.admit((Arc::clone(segment), code), Instant::now())
        {
            warn!(%segment, %code, further, "an object was not copied to a disk; the log of its node says why");
        }
    }

    /// Notes that a segment failed, and is lent no more.
    pub(crate) fn note_failed_segment(&mut self, now: Tick, segment: &Arc<str>, failure: &str) {
        if self.failed_segments.len() == MOST_SEGMENTS {
            self.failed_segments.pop_front();
        }
        warn!(%segment, failure, "a disk has failed, and its node lends it no more");
        self.failed_segments.push_back((now, Arc::clone(segment), failure.into()));
    }

    /// When there is something to log.
    pub(crate) fn due(&self) -> Option<Tick> {
        self.unlogged.map(|(_, due)| due)
    }

    /// Logs what is due.
    pub(crate) fn log(&mut self, now: Tick) {
        if let Some((objects, _)) = self.unlogged.take_if(|(_, due)| *due <= now) {
            warn!(
                objects,
                "objects are lost: the last segment that held them is gone, or holds them no more"
            );
        }
    }

    /// The troubles of the last hour, in words.
    pub(crate) fn recent(&self, now: Tick) -> Vec<Problem> {
        let mut recent = Vec::new();
        let lost = self.losses.get(now);
        if lost > 0 {
            let text = format!(
                "{lost} objects were lost in the last hour, with the last segment that held them"
            );
            let remedy =
                "have puts make two replicas, or nodes keep theirs in a file (--segment_path)";
            recent.push(Problem::new(text, remedy));
        }
        for (segment, FailedCopies { count, last }) in &self.failed_copies {
            let count = count.get(now);
            if count > 0 {
                let text = format!(
                    "{count} copies of objects to {segment} failed in the last hour, the last with {last}"
                );
                recent.push(Problem::new(
                    text,
                    "its disk is full or fails: the log of the node says which",
                ));
            }
        }
        let is_recent = |seen: &Tick| !is_old(seen.0 / PART_MS, now);
        for (_, segment, failure) in self.failed_segments.iter().filter(|it| is_recent(&it.0)) {
            let text = format!(
                "the disk of {segment} has failed in the last hour and is lent no more: {failure}"
            );
            recent.push(Problem::new(text, "replace the disk, and start the node again"));
        }
        recent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The troubles of the last hour, without the remedies, of which each has one.
    fn recent(troubles: &Troubles, now: u64) -> Vec<String> {
        let recent = troubles.recent(Tick(now));
        assert!(recent.iter().all(|problem| !problem.remedy.is_empty()));
        recent.into_iter().map(|problem| problem.text).collect()
    }

    #[test]
    fn a_loss_is_told_for_an_hour_and_logged_once() {
        let mut troubles = Troubles::default();
        troubles.note_lost(Tick(0), 0);
        assert_eq!((troubles.due(), recent(&troubles, 0)), (None, vec![]));
        troubles.note_lost(Tick(5), 3);
        troubles.note_lost(Tick(900), 7);
        assert_eq!(troubles.due(), Some(Tick(1_005)));
        troubles.log(Tick(1_004));
        assert_eq!(troubles.unlogged, Some((7, Tick(1_005))));
        troubles.log(Tick(1_005));
        assert_eq!(troubles.due(), None);
        let told = vec![
            "7 objects were lost in the last hour, with the last segment that held them".to_owned(),
        ];
        for (now, expected) in [(1_005, &told), (TOLD_MS - 1, &told), (TOLD_MS, &vec![])] {
            assert_eq!(&recent(&troubles, now), expected, "{now}");
        }
    }

    #[test]
    fn a_failed_disk_is_told_for_an_hour_with_the_reason() {
        let mut troubles = Troubles::default();
        troubles.note_failed_segment(Tick(5), &Arc::from("n1:1"), "its reads keep failing");
        let told = "the disk of n1:1 has failed in the last hour and is lent no more: its reads keep failing";
        assert_eq!(recent(&troubles, TOLD_MS - 1), [told]);
        assert_eq!(recent(&troubles, TOLD_MS), [""; 0]);
    }

    #[test]
    fn copies_that_fail_are_told_by_disk() {
        let mut troubles = Troubles::default();
        let (full, other): (Arc<str>, Arc<str>) = (Arc::from("n1:1"), Arc::from("n2:1"));
        for minute in 0..90 {
            troubles.note_failed_copy(Tick(minute * PART_MS), &full, ErrorCode::NoAvailableHandle);
        }
        troubles.note_failed_copy(Tick(0), &other, ErrorCode::TransferFail);
        assert_eq!(
            recent(&troubles, 89 * PART_MS),
            [
                "60 copies of objects to n1:1 failed in the last hour, the last with NO_AVAILABLE_HANDLE \
                 (-200)"
            ]
        );
    }
}
