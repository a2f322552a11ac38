use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use mooncake_types::{Chance, ErrorCode, Located, SegmentAddress, SegmentId, Tick};

use super::route::{ReplicaStart, Route};
use super::want::Want;
use crate::op::{MoveError, RangeToRead};
use crate::retry::RetryPolicy;
use crate::span::{Span, spans};

/// The state of one item of a get.
#[derive(Debug)]
pub(super) struct InGet {
    pub(super) position: usize,
    pub(super) route: Option<Arc<Route>>,
    /// The route came from the route cache.
    pub(super) is_cached: bool,
    /// Routes to newer versions. Each is used once all replicas of the version before it were found dropped.
    successors: VecDeque<Arc<Route>>,
    /// The lookup that named this route named newer versions too.
    is_being_replaced: bool,
    /// The placements of the route that are being read.
    pub(super) reading: Range<usize>,
    /// The number of ranges to read there.
    pub(super) fetches: usize,
    /// Replicas that could not be read, each with whether its node had dropped the version. Cleared when all have
    /// failed and the object is looked up again.
    failed: Vec<(ReplicaStart, bool)>,
    /// The last looked-up route of which all replicas failed.
    exhausted: Option<Arc<Route>>,
    pub(super) idle_lookups: u32,
    /// How often a node did not drop an older version, or did not know the master's seals.
    failed_drops: u32,
    pub(super) attempts: u32,
    /// The error to return once nothing is left to try.
    pub(super) verdict: ErrorCode,
}

/// What the results of one lookup share.
pub(super) struct RouteTerms {
    pub(super) segments: Arc<[SegmentAddress]>,
    pub(super) lease_end: Tick,
}

impl InGet {
    pub(super) fn new(position: usize) -> Self {
        Self {
            position,
            route: None,
            is_cached: false,
            successors: VecDeque::new(),
            is_being_replaced: false,
            reading: 0..0,
            fetches: 0,
            failed: Vec::new(),
            exhausted: None,
            idle_lookups: 0,
            failed_drops: 0,
            attempts: 0,
            verdict: ErrorCode::ObjectNotFound,
        }
    }

    /// An item with a route from the caller, the only one that it may use.
    pub(super) fn held(position: usize, route: Arc<Route>) -> Self {
        let exhausted = Some(Arc::clone(&route));
        Self { route: Some(route), exhausted, ..Self::new(position) }
    }

    pub(super) fn begin_with(&mut self, route: Arc<Route>) {
        (self.route, self.is_cached) = (Some(route), true);
    }

    pub(super) fn route(&self) -> &Route {
        self.route.as_ref().expect("an item that is read has a route")
    }

    /// The route, if it was looked up and may be used again.
    pub(super) fn lasting_route(&self) -> Option<Arc<Route>> {
        let is_new = !self.is_cached && !self.is_being_replaced;
        // An object that lies on disks alone is looked up each time: the master counts the uses, and may have
        // promoted it.
        self.route.as_ref().filter(|route| is_new && route.is_in_memory()).map(Arc::clone)
    }

    /// Drops the route if its lease has ended, and tells whether it did.
    pub(super) fn drop_expired(&mut self, now: Tick) -> bool {
        let expired = self.route.take_if(|route| now >= route.lease_end());
        if expired.is_some() {
            self.successors.clear();
        }
        expired.is_some()
    }

    pub(super) fn take_route(
        &mut self,
        located: Located,
        newer: Vec<Located>,
        terms: &RouteTerms,
    ) -> Result<(), ErrorCode> {
        self.idle_lookups += 1;
        let make = |located| Route::new(located, &terms.segments, terms.lease_end).map(Arc::new);
        let route = make(located)?;
        let newer = newer.into_iter().map(make).collect::<Result<VecDeque<_>, _>>()?;
        (self.is_cached, self.is_being_replaced) = (false, !newer.is_empty());
        (self.route, self.successors) = (Some(route), newer);
        Ok(())
    }

    /// Drops the route, since a node did not drop an older version, or did not know the master's seals. Tells whether
    /// another lookup is allowed.
    pub(super) fn look_up_again(&mut self) -> bool {
        self.route = None;
        self.successors.clear();
        self.failed.clear();
        self.idle_lookups = 0;
        self.failed_drops += 1;
        RetryPolicy::OLDER_VERSION.allows(self.failed_drops)
    }

    /// Chooses the replica to read next. When all have failed, it drops the route, so that the object is looked up
    /// again: once, and then as long as each lookup names a newer version or another place. After that the item has
    /// failed for good.
    pub(super) fn choose(
        &mut self,
        own: &[SegmentId],
        chance: &mut Chance,
        want: &Want<'_>,
    ) -> Result<(), ErrorCode> {
        while let Some(route) = &self.route {
            if !want.fits(route.object_len()) {
                return Err(ErrorCode::InvalidParams);
            }
            if let Some(reading) = route.choose(own, chance, |place| self.has_failed(place)) {
                self.reading = reading;
                return Ok(());
            }
            if self.is_dropped()
                && let Some(newer) = self.successors.pop_front()
            {
                self.route = Some(newer);
                continue;
            }
            return self.drop_route();
        }
        Ok(())
    }

    fn has_failed(&self, place: &ReplicaStart) -> bool {
        self.failed.iter().any(|(failed, _)| failed == place)
    }

    /// Whether all replicas of the route were found dropped.
    fn is_dropped(&self) -> bool {
        self.route().replica_starts().all(|place| self.failed.contains(&(place, true)))
    }

    fn drop_route(&mut self) -> Result<(), ErrorCode> {
        let route = self.route.take().expect("an item that is read has a route");
        if !self.successors.is_empty() {
            // The older version still exists somewhere, but cannot be read.
            self.verdict = match self.verdict {
                ErrorCode::ObjectNotFound => ErrorCode::ObjectReplicaBusy,
                verdict => verdict,
            };
        }
        self.successors.clear();
        let told_news =
            self.exhausted.as_ref().is_none_or(|before| leads_elsewhere(&route, before));
        let may_look = self.is_cached || told_news;
        if !may_look || !RetryPolicy::GET.allows(self.attempts) {
            return Err(self.verdict);
        }
        if !self.is_cached {
            self.exhausted = Some(route);
        }
        self.is_cached = false;
        self.failed.clear();
        Ok(())
    }

    /// Notes that the chosen replica failed; with `is_dropped`, because its nodes dropped every range that was asked
    /// for.
    pub(super) fn fail_replica(&mut self, error: MoveError, is_dropped: bool) {
        let place = self.route().replica_start(&self.reading);
        self.failed.push((place, is_dropped));
        match error {
            // A stale route, or a node without the segment, does not replace a worse error of another replica.
            MoveError::Stale | MoveError::Refused(ErrorCode::SegmentNotFound) => {}
            MoveError::Refused(ErrorCode::Ok) => self.verdict = ErrorCode::InternalError,
            MoveError::Refused(code) => self.verdict = code,
            MoveError::Broken => self.verdict = ErrorCode::TransferFail,
        }
    }

    pub(super) fn fetches_into(&mut self, want: &Want<'_>, fetches: &mut Vec<RangeToRead>) {
        let before = fetches.len();
        let route = self.route();
        match want {
            Want::Whole { .. } => {
                let whole = [Span::whole(route.object_len())];
                route.fetches_into(self.position, &self.reading, &whole, fetches);
            }
            Want::Parts(parts) => {
                let spans = spans(parts, route.object_len());
                route.fetches_into(self.position, &self.reading, &spans, fetches);
            }
        }
        self.fetches = fetches.len() - before;
    }
}

/// Whether `route` names a replica that `before` did not name.
fn leads_elsewhere(route: &Route, before: &Route) -> bool {
    route.replica_starts().any(|place| before.replica_starts().all(|known| known != place))
}

/// The most serious error among the results of a replica's ranges. A stale range is the least serious.
pub(super) fn worst(results: &[Result<(), MoveError>]) -> Option<MoveError> {
    let errors = results.iter().filter_map(|result| result.err());
    errors.max_by_key(|error| match error {
        MoveError::Stale => 0,
        MoveError::Refused(_) => 1,
        MoveError::Broken => 2,
    })
}
