//! The phases of recovery. *Former routes* are routes that readers got from earlier leaders.

use std::collections::BTreeSet;

use mooncake_types::mutation::{Rule, is_broken};
use mooncake_types::{SegmentId, Version};

use crate::segments::{Member, RecordedMembers};

/// The phases in their order. A leader may skip phases.
///
/// | phase | serves requests that change objects | takes reports of objects that it does not know from |
/// |---|---|---|
/// | `Adopting` | yes | segments that the record does not name |
/// | `AwaitingReports` | no | members that have not reported |
/// | `Marking` | no | members that have not reported |
/// | `ServingWithMissing` | yes | members that have not reported |
/// | `Over` | yes | no segment |
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The record names no earlier leader, so the leader has no promises of an earlier leader to keep. Segments may
    /// hold objects of a leader without a record.
    Adopting {
        /// Segments that the record does not name may still report.
        is_open: bool,
        /// All former routes have ended.
        are_former_routes_over: bool,
    },
    /// Readers may have former routes to versions on members that have not reported.
    AwaitingReports {
        /// Members that have not reported.
        missing: BTreeSet<SegmentId>,
        /// Those of them that the record does not mark behind.
        unmarked: BTreeSet<SegmentId>,
        /// An earlier leader marked members behind. It may have replaced or removed versions on them to which readers
        /// have routes. So the leader waits for the end of former routes, even if no member is missing.
        has_behind: bool,
        /// All former routes have ended.
        are_former_routes_over: bool,
    },
    /// Former routes are over, and no unmarked member is reporting. The leader marks the missing members behind in the
    /// record, so that later leaders believe less of them.
    Marking {
        /// Members that have not reported.
        missing: BTreeSet<SegmentId>,
        /// Those of them that the record does not mark behind yet.
        unmarked: BTreeSet<SegmentId>,
    },
    /// The leader believes reports of the missing members, except of keys that have changed since it began.
    ServingWithMissing {
        /// Members that have not reported: at least one.
        missing: BTreeSet<SegmentId>,
    },
    /// No segment may report. Objects that no segment reported are lost.
    Over,
}

impl Phase {
    /// The phase in which a leader with this record begins.
    pub(super) fn first(record: &RecordedMembers) -> Self {
        if record.fresh && record.members.is_empty() {
            return Self::Adopting { is_open: true, are_former_routes_over: false };
        }
        let those = |is_so: fn(&Member) -> bool| {
            let members = record.members.iter().filter(|member| is_so(member));
            members.map(|member| member.segment).collect::<BTreeSet<SegmentId>>()
        };
        let missing = those(|member| {
            member.behind != Some(Version::default()) || is_broken(Rule::TheUntoldStartEmpty)
        });
        let unmarked = those(|member| member.behind.is_none());
        let has_behind = record.members.iter().any(|member| member.behind.is_some());
        let are_former_routes_over = false;
        Self::AwaitingReports { missing, unmarked, has_behind, are_former_routes_over }.next()
    }

    /// The next phase if its condition holds, else this one.
    pub(super) fn next(self) -> Self {
        match self {
            Self::Adopting { is_open: false, are_former_routes_over: true } => Self::Over,
            Self::AwaitingReports { missing, unmarked, has_behind, are_former_routes_over }
                if unmarked.is_empty() && (are_former_routes_over || !has_behind) =>
            {
                Self::ServingWithMissing { missing }.next()
            }
            Self::Marking { missing, unmarked } if unmarked.is_empty() => {
                Self::ServingWithMissing { missing }.next()
            }
            Self::ServingWithMissing { missing } if missing.is_empty() => Self::Over,
            same => same,
        }
    }

    /// Former routes are over.
    pub(super) fn end_former_routes(&mut self) {
        if let Self::Adopting { are_former_routes_over, .. }
        | Self::AwaitingReports { are_former_routes_over, .. } = self
        {
            *are_former_routes_over = true;
        }
    }

    /// The members that the leader marks behind as soon as none of them is reporting.
    pub(super) fn to_mark(&self) -> Option<&BTreeSet<SegmentId>> {
        match self {
            Self::AwaitingReports { unmarked, are_former_routes_over: true, .. } => {
                Some(unmarked).filter(|unmarked| !unmarked.is_empty())
            }
            _ => None,
        }
    }

    /// Begins to mark the missing members behind, and returns those that are not.
    pub(super) fn begin_marking(&mut self) -> Vec<SegmentId> {
        let Self::AwaitingReports { missing, unmarked, .. } = self else { return Vec::new() };
        let (missing, unmarked) = (std::mem::take(missing), std::mem::take(unmarked));
        let all = unmarked.iter().copied().collect();
        *self = Self::Marking { missing, unmarked };
        all
    }

    /// The record marks a member behind.
    pub(super) fn note_marked(&mut self, id: SegmentId) {
        if let Self::AwaitingReports { unmarked, .. } | Self::Marking { unmarked, .. } = self {
            unmarked.remove(&id);
        }
    }

    /// From now on no segment outside the record may report.
    pub(super) fn close(&mut self) {
        if let Self::Adopting { is_open, .. } = self {
            *is_open = false;
        }
    }

    /// A segment has reported, or is no member any more.
    pub(super) fn forget_missing(&mut self, id: SegmentId) {
        if let Self::AwaitingReports { missing, .. }
        | Self::Marking { missing, .. }
        | Self::ServingWithMissing { missing } = self
        {
            missing.remove(&id);
        }
        self.note_marked(id);
    }

    /// Members that have not reported.
    pub(super) fn missing(&self) -> Option<&BTreeSet<SegmentId>> {
        match self {
            Self::AwaitingReports { missing, .. }
            | Self::Marking { missing, .. }
            | Self::ServingWithMissing { missing } => Some(missing),
            Self::Adopting { .. } | Self::Over => None,
        }
    }

    /// Whether the leader answers requests that change objects.
    pub(super) fn serves(&self) -> bool {
        !matches!(self, Self::AwaitingReports { .. } | Self::Marking { .. })
    }

    /// Whether all former routes have ended.
    pub(super) fn are_former_routes_over(&self) -> bool {
        !matches!(
            self,
            Self::Adopting { are_former_routes_over: false, .. }
                | Self::AwaitingReports { are_former_routes_over: false, .. }
        )
    }

    /// Whether segments that the record does not name may report objects of an earlier leader.
    pub(super) fn adopts(&self) -> bool {
        matches!(self, Self::Adopting { is_open: true, .. })
    }

    /// Whether any segment may report objects that the leader does not know.
    pub(super) fn may_report(&self) -> bool {
        self.adopts() || self.missing().is_some_and(|missing| !missing.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mooncake_types::Epoch;

    const A: SegmentId = SegmentId(1);
    const B: SegmentId = SegmentId(2);
    const SINCE: Option<Version> = Some(Version { epoch: Epoch(3), counter: 7 });
    const UNTOLD: Option<Version> = Some(Version { epoch: Epoch(0), counter: 0 });

    fn first(fresh: bool, members: &[(SegmentId, Option<Version>)]) -> Phase {
        let member = |&(segment, behind): &(SegmentId, Option<Version>)| Member {
            segment,
            behind,
            is_disk: false,
        };
        let members = members.iter().map(member).collect();
        Phase::first(&RecordedMembers { fresh, members, ..RecordedMembers::default() })
    }

    fn hearing(unmarked: &[SegmentId], behind: &[SegmentId], has_behind: bool) -> Phase {
        Phase::AwaitingReports {
            missing: unmarked.iter().chain(behind).copied().collect(),
            unmarked: unmarked.iter().copied().collect(),
            has_behind,
            are_former_routes_over: false,
        }
    }

    #[test]
    fn a_leader_hears_the_members_in_step_and_waits_for_routes_to_the_others() {
        let adopting = Phase::Adopting { is_open: true, are_former_routes_over: false };
        let cases = [
            (first(true, &[]), adopting),
            (first(false, &[]), Phase::Over),
            (first(false, &[(A, None), (B, SINCE)]), hearing(&[A], &[B], true)),
            (first(false, &[(A, None), (B, UNTOLD)]), hearing(&[A], &[], true)),
            (first(false, &[(A, None)]), hearing(&[A], &[], false)),
            (first(false, &[(B, SINCE)]), hearing(&[], &[B], true)),
        ];
        for (found, expected) in cases {
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn recovery_is_over_at_once_when_all_have_reported_and_nobody_was_behind() {
        for (has_behind, is_over) in [(false, true), (true, false)] {
            let mut phase = hearing(&[A, B], &[], has_behind);
            phase.forget_missing(A);
            phase = phase.next();
            assert!(!phase.serves() && !phase.are_former_routes_over());
            phase.forget_missing(B);
            phase = phase.next();
            assert_eq!((phase == Phase::Over, phase.may_report()), (is_over, false));
        }
    }

    #[test]
    fn the_missing_are_marked_before_the_leader_serves_and_may_report_after_it() {
        let mut phase = hearing(&[A, B], &[], false);
        assert_eq!(phase.to_mark(), None);
        phase.end_former_routes();
        phase = phase.next();
        assert!(!phase.serves() && phase.are_former_routes_over());
        assert_eq!(phase.begin_marking(), [A, B]);
        phase.note_marked(A);
        phase = phase.next();
        assert!(!phase.serves() && phase.are_former_routes_over());
        phase.note_marked(B);
        phase = phase.next();
        assert!(phase.serves() && phase.may_report());
        phase.forget_missing(A);
        phase.forget_missing(B);
        assert_eq!(phase.next(), Phase::Over);
    }

    #[test]
    fn a_leader_serves_without_those_that_were_behind_before_it_and_believes_them_late() {
        let mut phase = hearing(&[A], &[B], true);
        phase.forget_missing(A);
        phase.end_former_routes();
        assert_eq!(phase.to_mark(), None);
        phase = phase.next();
        assert!(phase.serves() && phase.may_report());
        phase.forget_missing(B);
        assert_eq!(phase.next(), Phase::Over);
    }

    #[test]
    fn a_leader_marks_no_member_that_has_reported_or_left() {
        let mut phase = hearing(&[A, B], &[], true);
        phase.end_former_routes();
        phase.forget_missing(A);
        assert_eq!(phase.begin_marking(), [B]);
        phase.forget_missing(B);
        assert_eq!(phase.next(), Phase::Over);
    }

    #[test]
    fn the_first_leader_serves_at_once_and_is_done_once_its_window_and_all_routes_are_over() {
        let steps: [fn(&mut Phase); 2] = [Phase::end_former_routes, Phase::close];
        for [one, other] in [steps, [steps[1], steps[0]]] {
            let mut phase = first(true, &[]);
            assert!(phase.serves() && phase.adopts() && !phase.are_former_routes_over());
            one(&mut phase);
            phase = phase.next();
            assert!(phase != Phase::Over && phase.serves());
            other(&mut phase);
            assert_eq!(phase.next(), Phase::Over);
        }
    }
}
