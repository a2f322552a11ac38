//! The steps of recovery: its beginning, the events that advance it, and its end.
//!
//! The leader believes a member that reports late, except for keys that have changed since. If a member does not begin
//! to report within the window, the leader strikes it from the record. The window of disks is longer, because disks keep
//! objects longer: [`Config::disk_ttl_ms`](crate::Config::disk_ttl_ms). The leader waits for a member that is
//! [reporting](super::silence), however long that takes.

use std::collections::BTreeSet;

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

/// For how many times a client's time to live the leader waits for a member whose node pings and does not report: it
/// may never be able to.
const MOST_WINDOWS: u64 = 6;

/// How often within that time the leader looks whether such nodes still ping.
const LOOKS_A_TTL: u64 = 16;

impl Meta {
    /// A pool whose earlier leaders may have left objects in the segments that `record` names. Recovery counts from
    /// `now`, on the same clock as every later call.
    ///
    /// # Panics
    /// If the configuration does not [validate](Config::validate).
    #[must_use]
    pub fn recover(config: Config, epoch: Epoch, now: Tick, record: &RecordedMembers) -> Self {
        let members = Members::recorded(record);
        Self::begin(config, epoch, now, (members, Recovery::new(record, now)))
    }

    /// A pool without a record, led from `now` on.
    ///
    /// # Panics
    /// If the configuration does not [validate](Config::validate).
    #[must_use]
    pub fn unrecorded(config: Config, epoch: Epoch, now: Tick) -> Self {
        let record = RecordedMembers { fresh: true, ..RecordedMembers::default() };
        Self::begin(config, epoch, now, (Members::default(), Recovery::new(&record, now)))
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
        self.recovery.forget_teller(id);
        self.recovery.were_behind.remove(&id);
        self.recovery.phase.forget_missing(id);
        self.advance_recovery();
    }

    /// The record marks a member behind.
    pub(crate) fn note_marked(&mut self, id: SegmentId) {
        self.recovery.phase.note_marked(id);
    }

    /// Enters the next phase if its condition holds. Once no segment may report, drops the data that only reports
    /// need.
    pub(crate) fn advance_recovery(&mut self) {
        if self.recovery.phase == Phase::Over {
            return;
        }
        self.mark_the_silent();
        let phase = std::mem::replace(&mut self.recovery.phase, Phase::Over);
        self.recovery.phase = phase.next();
        if !self.recovery.phase.may_report() {
            self.drop_stripes();
            self.recovery.overruled.clear();
            self.recovery.shadows.forget_all();
            self.recovery.heard.clear();
        }
        if self.recovery.phase == Phase::Over {
            self.recovery.replacing.clear();
        }
    }

    /// The routes of earlier leaders are over. From now on the leader waits only for members that are reporting.
    pub(crate) fn former_routes_over_due(&mut self) {
        self.recovery.phase.end_former_routes();
        self.advance_recovery();
    }

    /// Once no route of an earlier leader is left and no member is reporting, has the missing members marked behind.
    /// Then the leader serves requests that change objects.
    fn mark_the_silent(&mut self) {
        let Some(unmarked) = self.recovery.phase.to_mark() else { return };
        if self.is_one_reporting(unmarked) {
            return self.await_silence();
        }
        for id in self.recovery.phase.begin_marking() {
            if is_broken(Rule::TheSilentAreMarked) {
                self.note_marked(id);
                continue;
            }
            self.emit(Effect::MarkBehind(id, self.term.first_grant()));
        }
    }

    /// The window in which members may begin to report is over.
    pub(crate) fn window_due(&mut self, due: Tick) {
        let ttl_ms = self.config.client_ttl_ms;
        // If nobody at all was heard of, the master was probably paused or cut off. It waits once more.
        let was_cut_off = self.was_held_up(due)
            || (self.clients.is_silent_for(self.now, ttl_ms / 2)
                && !std::mem::replace(&mut self.recovery.is_window_prolonged, true));
        if was_cut_off && !self.recovery.phase.adopts() {
            self.timers.insert((self.now.after_ms(ttl_ms), Timer::Window));
            return;
        }
        if self.recovery.missing().any(|id| self.members.is_disk(id)) {
            self.timers.insert((self.disk_window_end().max(self.now), Timer::DiskWindow));
        }
        self.recovery.is_window_over = true;
        self.give_up_silent();
    }

    fn disk_window_end(&self) -> Tick {
        self.term.began_at().after_ms(self.config.disk_ttl_ms)
    }

    /// After the window, members that are silent start empty. The leader still waits for those that are reporting, for
    /// those whose nodes ping and are about to report, and until a later time for disks, whose next process may take
    /// longer to start.
    pub(crate) fn give_up_silent(&mut self) {
        if !self.recovery.is_window_over {
            return;
        }
        let is_reporting = |it: &Meta, id| {
            it.segments.find(id).is_some_and(|slot| it.is_reporting(&it.segments[slot]))
        };
        let awaits_disks = self.now < self.disk_window_end();
        let ttl_ms = self.config.client_ttl_ms;
        let is_early = self.now.since_ms(self.term.began_at()) < MOST_WINDOWS * ttl_ms;
        let is_heard = |it: &Meta, id: SegmentId| {
            let heard = it.recovery.heard.get(&id);
            heard.is_some_and(|&heard| it.now.since_ms(heard) < ttl_ms)
                && !is_broken(Rule::TheHeardAreAwaited)
                && (is_early || it.awaits_others(id))
        };
        let is_awaited = |id: &SegmentId| {
            (awaits_disks && self.members.is_disk(*id))
                || is_reporting(self, *id)
                || is_heard(self, *id)
        };
        let mut awaited: BTreeSet<SegmentId> = self.recovery.missing().filter(is_awaited).collect();
        // A leader without a record does not know the members that it misses.
        if self.recovery.phase.adopts() {
            let reporting = self.segments.iter().filter(|(_, it)| self.is_reporting(it));
            awaited.extend(reporting.map(|(_, segment)| segment.id));
        }
        if awaited.iter().any(|id| is_reporting(self, *id)) {
            self.await_silence();
        } else if awaited.iter().any(|id| is_heard(self, *id)) {
            self.look_for_silence_at(self.now.after_ms(ttl_ms / LOOKS_A_TTL + 1));
        }
        self.end_window(&awaited);
    }

    /// All objects of the pool are about to be removed by force, so nothing is to stay on members that have not reported.
    /// After the window the removal does not wait for those that are absent: they start empty.
    pub(crate) fn give_up_absent(&mut self) {
        let missing = self.recovery.missing();
        if !self.recovery.is_window_over || missing.len() == 0 {
            return;
        }
        let mounted: BTreeSet<SegmentId> =
            missing.filter(|&id| self.segments.find(id).is_some()).collect();
        self.end_window(&mounted);
    }

    /// Segments that the record does not name start empty from now on.
    pub(crate) fn adopt_no_more(&mut self) {
        if self.recovery.phase.adopts() {
            self.end_window(&BTreeSet::new());
        }
    }

    /// Members that have not reported start empty, except those in `awaited`.
    fn end_window(&mut self, awaited: &BTreeSet<SegmentId>) {
        let adopts = self.recovery.phase.adopts();
        if awaited.is_empty() {
            self.recovery.phase.close();
        }
        // Only segments in memory hold stripes.
        if awaited.iter().all(|&id| self.members.is_disk(id)) {
            self.drop_stripes();
        }
        let missing: BTreeSet<SegmentId> =
            self.recovery.missing().filter(|id| !awaited.contains(id)).collect();
        // A segment that is not missing may be the one of a restarted node that reports again.
        let is_late = |segment: &Segment| {
            missing.contains(&segment.id) || (adopts && !awaited.contains(&segment.id))
        };
        let unfinished = |(slot, segment): (u32, &Segment)| {
            let is_recovering = segment.state() == SegmentState::Recovering;
            (is_recovering && is_late(segment)).then_some(slot)
        };
        let unfinished: Vec<u32> = self.segments.iter().filter_map(unfinished).collect();
        let unfinished = unfinished.into_iter().map(|slot| self.segments[slot].id);
        let late: BTreeSet<SegmentId> = unfinished.chain(missing).collect();
        for &id in &late {
            self.recovery.shadows.forget(id);
        }
        self.strike_members(&late);
        // An absent member that is marked behind would make every later leader wait for former routes.
        let is_absent = |id: &SegmentId| self.segments.find(*id).is_none();
        let behind = self.members.iter().filter(|member| member.behind.is_some());
        let behind = behind.map(|member| member.segment);
        let absent: Vec<SegmentId> =
            behind.filter(|id| is_absent(id) && !awaited.contains(id)).collect();
        absent.into_iter().for_each(|id| self.strike_absent(id));
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
            self.strike_member(id);
        }
    }
}
