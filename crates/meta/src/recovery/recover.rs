//! The beginning of a leader that is not the first: from whom it has to hear before it serves, and what it remembers
//! until everybody has reported.
//!
//! Look-ups are answered at once, from what was reported. What changes objects is refused until every member has
//! reported; if some don't, or are marked behind, until nobody has a route from under the last leader any more (see
//! [`Config::routes_last_ms`]) and all missing ones are marked behind. A member that reports later is believed, but for the keys that were
//! touched since. One that does not report within the window is struck.

use std::collections::{BTreeMap, BTreeSet};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use mooncake_types::mutation::{Rule, is_broken};
use mooncake_types::{
    Epoch, MountOutcome, MountSegment, Request, SegmentId, SegmentState, Tick, Version,
};

use super::pieces::Pieces;
use super::replacing::Replacing;
use super::replay::Shadows;
use crate::Meta;
use crate::config::Config;
use crate::segments::{Closed, Effect, Members, Progress, Record, Segment};
use crate::slab::NONE;
use crate::timeout::Timer;

/// The part of the time for which routes last that a leader lets them be used, in tenths.
const USED_TENTHS: u64 = 9;

/// Most keys that are remembered while members are missing. Once there are more, the missing are struck.
const MOST_TOUCHED: usize = 1_000_000;

/// What a leader knows of how far its recovery is.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    /// The record knew of nobody who led before, so segments that it does not name may be what an earlier leader left.
    is_fresh: bool,
    /// Members that have not reported all that they hold, but for those that were marked behind by an earlier leader.
    missing: BTreeSet<SegmentId>,
    pub(crate) serves: bool,
    /// An earlier leader marked members behind: it may have replaced or removed what they hold, and readers have routes to that.
    has_behind: bool,
    /// Nobody has a route from under an earlier leader any more.
    has_settled: bool,
    /// Members may still report, and unknown segments be adopted.
    is_open: bool,
    /// Hashes of the keys that were put, removed, cleared or lost while members were missing, each with the version below
    /// which nothing is believed any more.
    touched: HashMap<u64, Version, FixedState>,
    pub(crate) replacing: Replacing,
    /// Stripes that have not found all their neighbours, by the version of their object.
    pub(crate) pieces: BTreeMap<Version, Pieces>,
    pub(crate) shadows: Shadows,
}

impl Recovery {
    fn new(record: &Record) -> Self {
        let in_step = record.members.iter().filter(|member| !member.behind);
        let missing: BTreeSet<SegmentId> = in_step.map(|member| member.segment).collect();
        let has_behind = !record.fresh && record.members.iter().any(|member| member.behind);
        let has_settled = !record.fresh && missing.is_empty() && !has_behind;
        Self {
            is_fresh: record.fresh,
            serves: record.fresh || has_settled,
            has_behind,
            has_settled,
            is_open: record.fresh || !missing.is_empty(),
            missing,
            ..Self::default()
        }
    }

    /// Whether what was reported of a key with this hash is older than what became of it while members were missing.
    fn is_overruled(&self, hash: u64, version: Version) -> bool {
        self.touched.get(&hash).is_some_and(|&below| version < below)
    }

    /// Whether nobody has a route from under an earlier leader any more.
    pub(crate) fn has_settled(&self) -> bool {
        self.has_settled
    }

    /// Whether, beyond that, no later leader believes what this one has not heard of.
    pub(crate) fn is_settled(&self) -> bool {
        self.has_settled && self.serves
    }

    /// Whether anybody may report what this leader does not know yet.
    pub(crate) fn may_report(&self) -> bool {
        self.is_open && (self.is_fresh || !self.missing.is_empty())
    }

    /// Whether any segment may tell what it holds.
    pub(crate) fn may_be_told(&self) -> bool {
        self.is_open
    }

    /// Whether segments that nobody knows may tell what an earlier leader left there.
    fn adopts(&self) -> bool {
        self.is_fresh && self.is_open
    }

    /// Whether everybody has reported, and nobody unknown may any more: what was not reported is lost.
    pub(crate) fn is_over(&self) -> bool {
        self.serves && self.missing.is_empty() && !self.adopts()
    }

    /// Members that have not reported.
    pub(crate) fn missing(&self) -> &BTreeSet<SegmentId> {
        &self.missing
    }
}

impl Meta {
    /// A pool whose leader before may have left something in the segments that `record` names. `now` is the moment from
    /// which recovery counts, on the same clock as every later call.
    ///
    /// # Panics
    /// If the configuration does not [validate](Config::validate).
    #[must_use]
    pub fn recover(config: Config, epoch: Epoch, now: Tick, record: &Record) -> Self {
        let members = Members::recorded(record);
        Self::begin(config, epoch, now, (members, Recovery::new(record)))
    }

    /// A pool of which nobody keeps a record, led from `now` on.
    ///
    /// # Panics
    /// If the configuration does not [validate](Config::validate).
    #[must_use]
    pub fn unrecorded(config: Config, epoch: Epoch, now: Tick) -> Self {
        let record = Record { fresh: true, members: Vec::new() };
        Self::begin(config, epoch, now, (Members::default(), Recovery::new(&record)))
    }

    pub(crate) fn set_recovery_timers(&mut self) {
        if !self.recovery.is_open && !self.recovery.has_behind {
            return;
        }
        let routes_end_ms = self.config.former_lease_ms.saturating_add(self.config.routes_last_ms);
        let settle_ms = match is_broken(Rule::RoutesAreWaitedFor) {
            true => 0,
            false => routes_end_ms.max(self.config.recovery_grace_ms),
        };
        let window_ms = self.config.lease_ttl_ms.saturating_add(self.config.client_ttl_ms);
        self.timers.insert((self.now.after_ms(settle_ms), Timer::Settle));
        self.timers.insert((self.now.after_ms(window_ms.max(settle_ms)), Timer::Window));
    }

    /// No other master leads before this moment, even if this leader dies now; nothing if others would follow it at once.
    pub fn set_lease_end(&mut self, lease_end: Option<Tick>) {
        self.lease_end = lease_end;
    }

    /// How long reads may begin with this leader's routes, in milliseconds: a later one waits for that, and clocks do not run
    /// alike.
    pub(crate) fn routes_ms(&self) -> u64 {
        let last_ms = self.config.routes_last_ms / 10 * USED_TENTHS;
        self.lease_end.unwrap_or(self.now).after_ms(last_ms).since_ms(self.now)
    }

    /// Whether requests that change objects are answered. Look-ups always are.
    #[must_use]
    pub fn serves(&self) -> bool {
        self.recovery.serves
    }

    /// Whether a request has to wait until the leader serves.
    pub(crate) fn is_too_early(&self, request: &Request<'_>) -> bool {
        if !request.changes_objects() {
            return false;
        }
        // Keys that are not known yet cannot be remembered one by one.
        let is_scan = matches!(request, Request::Scan(_));
        !self.recovery.serves || is_scan && self.awaits_reports()
    }

    /// Whether a segment that the leader knows of has not told all that it holds.
    fn awaits_reports(&self) -> bool {
        !self.recovery.missing.is_empty()
            || self.segments.iter().any(|(_, it)| it.state() == SegmentState::Recovering)
    }

    /// Remembers that a key was changed, as long as somebody may report an older version of it.
    pub(crate) fn touch(&mut self, key: &str) {
        // All that is reported is of earlier leaders.
        let newest = Version { epoch: self.epoch, counter: 0 };
        if self.recovery.may_report() {
            self.touch_below(self.index.hash(key), newest);
        }
    }

    /// Remembers that nothing of a key with this hash is believed below a version.
    pub(crate) fn touch_below(&mut self, hash: u64, version: Version) {
        if !self.recovery.may_report() {
            return;
        }
        let below = self.recovery.touched.entry(hash).or_default();
        *below = version.max(*below);
        if self.recovery.touched.len() >= MOST_TOUCHED {
            self.close_window();
        }
    }

    /// What a segment that is not mounted is told.
    pub(crate) fn admit(&self, mount: &MountSegment<'_>) -> MountOutcome {
        let id = mount.id;
        if self.members.is_pending(Effect::Strike(id)) || self.disowned.contains(id) {
            return MountOutcome::StartEmpty;
        }
        let may_report = match self.members.is_behind(id) {
            // Until the node has seen this epoch, writes of an earlier leader may begin there.
            Some(_) if mount.is_empty && mount.seen_epoch >= self.epoch => {
                return MountOutcome::Ready;
            }
            // Under a leader that adopts, who is behind and not mounted is about to be adopted.
            Some(is_behind) => {
                !is_behind || self.recovery.missing.contains(&id) || self.recovery.adopts()
            }
            None if mount.is_empty => return MountOutcome::Ready,
            None => self.recovery.adopts(),
        };
        match may_report {
            true => MountOutcome::WantsInventory,
            false => MountOutcome::StartEmpty,
        }
    }

    /// What is to be recorded, in one step, before the shell hands in a mount; nothing if its segment is a member, or would
    /// not be one. What nobody knows may hold versions that were replaced or removed under this leader before it has told
    /// of them: until then it is behind.
    #[must_use]
    pub fn effects_before(&self, mount: &MountSegment<'_>) -> Vec<Effect> {
        let joins = self.check_mount(mount).is_ok()
            && self.segments.find(mount.id).is_none()
            && self.members.is_behind(mount.id).is_none();
        let in_step = vec![Effect::Join(mount.id)];
        let behind = vec![Effect::Join(mount.id), Effect::MarkBehind(mount.id)];
        match self.admit(mount) {
            MountOutcome::Ready if joins => in_step,
            MountOutcome::WantsInventory if joins => behind,
            _ => Vec::new(),
        }
    }

    /// A member has reported all that it holds, or is no member any more.
    pub(crate) fn on_reported(&mut self, id: SegmentId) {
        if self.recovery.missing.remove(&id) && self.recovery.missing.is_empty() {
            match self.recovery.has_behind {
                false => self.settle(),
                true => self.forget_all_replacing_if_due(),
            }
            if !self.recovery.is_fresh {
                self.drop_pieces();
                self.recovery.touched = HashMap::default();
            }
        }
    }

    /// Serves once everybody has reported, or the others are marked behind and their routes are over.
    pub(crate) fn begin_to_serve_if_all_are_known(&mut self) {
        if self.recovery.serves {
            return;
        }
        let is_behind = |id: &SegmentId| self.members.is_behind(*id).unwrap_or(true);
        let is_known = (self.recovery.missing.is_empty() && !self.recovery.has_behind)
            || (self.recovery.has_settled && self.recovery.missing.iter().all(is_behind));
        self.recovery.serves = is_known;
        self.forget_all_replacing_if_due();
    }

    fn settle(&mut self) {
        self.recovery.has_settled = true;
        self.forget_all_replacing_if_due();
    }

    /// Routes from under an earlier leader are over: who has not reported has to wait no longer for the missing.
    pub(crate) fn settle_due(&mut self) {
        self.settle();
        for id in self.recovery.missing.clone() {
            self.emit(Effect::MarkBehind(id));
        }
        self.begin_to_serve_if_all_are_known();
    }

    /// Segments that nobody knows come back empty from now on.
    pub(crate) fn adopt_no_more(&mut self) {
        if self.recovery.is_open {
            self.close_window();
        }
    }

    /// Who has not reported by now comes back empty.
    pub(crate) fn close_window(&mut self) {
        self.recovery.is_open = false;
        self.recovery.shadows.forget_all();
        let unfinished = |(slot, segment): (u32, &Segment)| {
            (segment.state() == SegmentState::Recovering).then_some(slot)
        };
        let unfinished: Vec<u32> = self.segments.iter().filter_map(unfinished).collect();
        for slot in unfinished {
            self.strike(slot);
        }
        for id in self.recovery.missing.clone() {
            self.emit(Effect::Strike(id));
        }
        // Who is behind and has not come would have every later leader wait for the routes to it.
        let is_absent = |id: &SegmentId| self.segments.find(*id).is_none();
        let behind = self.members.iter().filter(|member| member.behind).map(|it| it.segment);
        let absent: Vec<SegmentId> = behind.filter(is_absent).collect();
        absent.into_iter().for_each(|id| self.strike_absent(id));
        self.drop_pieces();
        self.recovery.touched = HashMap::default();
        self.forget_all_replacing_if_due();
    }

    /// A segment that is not mounted is no member any more. One that an earlier leader marked behind stays one until routes
    /// from under that are over: the next leader would not wait for them.
    pub(crate) fn strike_absent(&mut self, id: SegmentId) {
        let is_struck = match self.members.is_behind(id) {
            None => false,
            Some(is_behind) => !is_behind || self.recovery.has_settled,
        };
        if is_struck {
            self.emit(Effect::Strike(id));
        }
    }

    fn drop_pieces(&mut self) {
        for pieces in std::mem::take(&mut self.recovery.pieces).into_values() {
            self.drop_object(pieces.object);
        }
    }

    /// Takes up an inventory that begins.
    pub(crate) fn begin_inventory(&mut self, slot: u32) {
        self.segments[slot].recovering = Some(Progress::default());
        if is_broken(Rule::RangesAreReserved) {
            self.segments.set(slot, Closed::Recovering, false);
        }
    }

    /// Whether what was reported of a key gives way to what happened since this leader began.
    pub(crate) fn gives_way(&self, hash: u64, holder: u32, version: Version) -> bool {
        let is_current = holder != NONE && self.objects[holder].version == version;
        let is_overruled = self.recovery.is_overruled(hash, version) && !is_current;
        is_overruled && !is_broken(Rule::LatecomersGiveWay)
    }
}
