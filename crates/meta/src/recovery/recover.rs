//! The steps of recovery: its beginning, the events that advance it, and its end.
//!
//! The leader believes a member that reports late, except for keys that have changed since. If a member does not
//! report within the window, the leader strikes it from the record. The window of disks is longer, because disks keep
//! objects longer: [`Config::disk_ttl_ms`](crate::Config::disk_ttl_ms).

use std::collections::BTreeSet;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use mooncake_types::mutation::{Rule, is_broken};
use mooncake_types::{Epoch, SegmentId, SegmentState, Tick};

use super::Recovery;
use super::phase::Phase;
use crate::Meta;
use crate::config::Config;
use crate::segments::{Effect, Members, RecordedMembers, Segment};
use crate::timer::Timer;

/// The share of [`Config::routes_last_ms`](crate::Config::routes_last_ms) during which a leader lets clients use its
/// routes, in tenths.
const USED_TENTHS: u64 = 9;

impl Meta {
    /// A pool whose earlier leaders may have left objects in the segments that `record` names. Recovery counts from
    /// `now`, on the same clock as every later call.
    ///
    /// # Panics
    /// If the configuration does not [validate](Config::validate).
    #[must_use]
    pub fn recover(config: Config, epoch: Epoch, now: Tick, record: &RecordedMembers) -> Self {
        let members = Members::recorded(record);
        Self::begin(config, epoch, now, (members, Recovery::new(record)))
    }

    /// A pool without a record, led from `now` on.
    ///
    /// # Panics
    /// If the configuration does not [validate](Config::validate).
    #[must_use]
    pub fn unrecorded(config: Config, epoch: Epoch, now: Tick) -> Self {
        let record = RecordedMembers { fresh: true, members: Vec::new() };
        Self::begin(config, epoch, now, (Members::default(), Recovery::new(&record)))
    }

    pub(crate) fn set_recovery_timers(&mut self) {
        if self.recovery.phase == Phase::Over {
            return;
        }
        let routes_end_ms = self.config.former_lease_ms.saturating_add(self.config.routes_last_ms);
        let routes_ms = if is_broken(Rule::RoutesAreWaitedFor) { 0 } else { routes_end_ms };
        let window_ms = self.config.lease_ttl_ms.saturating_add(self.config.client_ttl_ms);
        self.timers.insert((self.now.after_ms(routes_ms), Timer::FormerRoutesOver));
        self.timers.insert((self.now.after_ms(window_ms.max(routes_ms)), Timer::Window));
    }

    /// Sets the moment before which no other master leads, even if this leader dies now. `None`: another master may
    /// lead at once.
    pub fn set_lease_end(&mut self, lease_end: Option<Tick>) {
        self.term.set_lease_end(lease_end);
    }

    /// For how many milliseconds clients may begin reads with routes of this leader. A later leader waits longer,
    /// because clocks run at different rates.
    pub(crate) fn routes_ms(&self) -> u64 {
        let last_ms = self.config.routes_last_ms / 10 * USED_TENTHS;
        self.term.lease_end().unwrap_or(self.now).after_ms(last_ms).since_ms(self.now)
    }

    /// A member has reported its whole inventory, or is no member any more.
    pub(crate) fn on_reported(&mut self, id: SegmentId) {
        self.recovery.phase.forget_missing(id);
        self.advance_recovery();
    }

    /// Enters the next phase if its condition holds. Once no segment may report, drops the data that only reports
    /// need.
    pub(crate) fn advance_recovery(&mut self) {
        if self.recovery.phase == Phase::Over {
            return;
        }
        let phase = std::mem::replace(&mut self.recovery.phase, Phase::Over);
        self.recovery.phase = phase.next(|id| self.members.is_behind(*id).unwrap_or(true));
        if !self.recovery.phase.may_report() {
            self.drop_stripes();
            self.recovery.overruled = HashMap::<_, _, FixedState>::default();
        }
        if self.recovery.phase == Phase::Over {
            self.recovery.replacing.clear();
        }
    }

    /// The routes of earlier leaders are over. The leader has the missing members marked behind, and then serves
    /// requests that change objects.
    pub(crate) fn former_routes_over_due(&mut self) {
        self.recovery.phase.end_former_routes();
        for id in self.recovery.missing().collect::<Vec<_>>() {
            self.emit(Effect::MarkBehind(id));
        }
        self.advance_recovery();
    }

    /// The window ends: memory segments that have not reported start empty. The leader still waits for disks, whose
    /// next process may take longer to start.
    pub(crate) fn window_due(&mut self) {
        let disks = self.recovery.missing().filter(|id| self.members.is_disk(*id));
        let disks: BTreeSet<SegmentId> = disks.collect();
        if !disks.is_empty() {
            let due = self.term.began_at().after_ms(self.config.disk_ttl_ms).max(self.now);
            self.timers.insert((due, Timer::DiskWindow));
        }
        self.end_window(&disks);
        self.recovery.is_window_over = true;
    }

    /// The longer window of disks ends: disks that have not reported start empty, too.
    pub(crate) fn disk_window_due(&mut self) {
        if self.recovery.missing().len() > 0 {
            self.close_window();
        }
    }

    /// A scan will remove objects, and absent disks may hold objects that the leader does not know. So these disks
    /// start empty.
    pub(crate) fn give_up_absent_disks(&mut self) {
        let missing = self.recovery.missing();
        if !self.recovery.is_window_over || missing.len() == 0 {
            return;
        }
        let telling: BTreeSet<SegmentId> =
            missing.filter(|&id| self.segments.find(id).is_some()).collect();
        self.end_window(&telling);
    }

    /// Segments that the record does not name start empty from now on.
    pub(crate) fn adopt_no_more(&mut self) {
        if self.recovery.phase.adopts() {
            self.close_window();
        }
    }

    /// Ends the window for all members: those that have not reported start empty.
    pub(crate) fn close_window(&mut self) {
        self.end_window(&BTreeSet::new());
    }

    /// Members that have not reported start empty, except those in `awaited`.
    fn end_window(&mut self, awaited: &BTreeSet<SegmentId>) {
        self.recovery.phase.close();
        self.recovery.shadows.forget_all();
        let missing: BTreeSet<SegmentId> =
            self.recovery.missing().filter(|id| !awaited.contains(id)).collect();
        // After the first window, a segment outside `missing` may be the one of a restarted node that reports again.
        let is_late = |segment: &Segment| match self.recovery.is_window_over {
            true => missing.contains(&segment.id),
            false => !awaited.contains(&segment.id),
        };
        let unfinished = |(slot, segment): (u32, &Segment)| {
            let is_recovering = segment.state() == SegmentState::Recovering;
            (is_recovering && is_late(segment)).then_some(slot)
        };
        let unfinished: Vec<u32> = self.segments.iter().filter_map(unfinished).collect();
        for slot in unfinished {
            self.strike(slot);
        }
        for id in missing {
            self.emit(Effect::Strike(id));
        }
        // An absent member that is marked behind would make every later leader wait for former routes.
        let is_absent = |id: &SegmentId| self.segments.find(*id).is_none();
        let behind = self.members.iter().filter(|member| member.behind).map(|it| it.segment);
        let absent: Vec<SegmentId> =
            behind.filter(|id| is_absent(id) && !awaited.contains(id)).collect();
        absent.into_iter().for_each(|id| self.strike_absent(id));
        self.drop_stripes();
        if awaited.is_empty() {
            self.recovery.overruled = HashMap::default();
        }
        self.advance_recovery();
    }

    /// Strikes a member that is not mounted. If it is marked behind, it stays in the record until former routes are
    /// over. Otherwise the next leader would not wait for these routes.
    pub(crate) fn strike_absent(&mut self, id: SegmentId) {
        let is_struck = match self.members.is_behind(id) {
            None => false,
            Some(is_behind) => !is_behind || self.recovery.phase.are_former_routes_over(),
        };
        if is_struck {
            self.emit(Effect::Strike(id));
        }
    }
}
