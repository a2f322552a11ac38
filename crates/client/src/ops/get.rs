use std::sync::Arc;

use mooncake_types::{ErrorCode, Located, Reply, Request, SegmentAddress, SegmentId, Tick};

use super::batches::{Batches, check_key};
use super::route::{Place, Route};
use super::span::{Part, Span, spans};
use super::{CallError, Fetch, MoveError, Op, Step, unexpected};
use crate::chance::Chance;

/// Most transfers that one item may cost before it is given up, whatever new places the master names.
const MAX_ATTEMPTS: u32 = 2 * mooncake_types::limits::MAX_REPLICAS + 2;

/// Most lookups in a row without a transfer between them: more say that leases are too short to be used.
const MAX_IDLE_LOOKUPS: u32 = 2;

/// One object to get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetItem<'a> {
    /// Its key.
    pub key: &'a str,
    /// What of it.
    pub want: Want<'a>,
}

/// What is wanted of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want<'a> {
    /// All of it.
    Whole {
        /// Room for it in bytes; absent if room will be made for whatever its length is.
        capacity: Option<u64>,
    },
    /// These parts, all of one version. Those that run past its end are left out.
    Parts(&'a [Part]),
}

impl<'a> GetItem<'a> {
    /// All of an object.
    #[must_use]
    pub const fn whole(key: &'a str, capacity: Option<u64>) -> Self {
        Self { key, want: Want::Whole { capacity } }
    }

    /// Some of an object's bytes.
    #[must_use]
    pub const fn parts(key: &'a str, parts: &'a [Part]) -> Self {
        Self { key, want: Want::Parts(parts) }
    }
}

impl Want<'_> {
    fn fits(&self, object_len: u64) -> bool {
        match self {
            Self::Whole { capacity } => capacity.is_none_or(|room| room >= object_len),
            Self::Parts(_) => true,
        }
    }
}

/// Gets objects: look up, read, fail over.
///
/// A replica on this node comes first, the others are spread by chance. A replica that fails is followed by the
/// next; when all have failed, by one fresh lookup, which may name others; then by an error. A route is not used
/// after its lease has run out; a fresh one is looked up instead.
///
/// With routes that the caller holds ([`GetOp::held`]) the master is never asked.
#[derive(Debug)]
pub struct GetOp<'a> {
    items: &'a [GetItem<'a>],
    own: &'a [SegmentId],
    chance: Chance,
    batches: Batches,
    /// The routes are the caller's; there is no lookup.
    is_held: bool,
    pending: Vec<InGet>,
    asked_at: Tick,
    results: Vec<Result<u64, ErrorCode>>,
}

/// One item under way.
#[derive(Debug)]
struct InGet {
    position: usize,
    route: Option<Route>,
    /// Which placements of the route are being read.
    reading: std::ops::Range<usize>,
    /// How many ranges that are.
    fetches: usize,
    /// Where reading failed since the last lookup that was made because everything had failed.
    failed: Vec<Place>,
    looked_afresh: bool,
    idle_lookups: u32,
    attempts: u32,
    /// What to answer if nothing is left to try.
    verdict: ErrorCode,
}

impl<'a> GetOp<'a> {
    /// Gets `items`; `own` are the segments of this process; `chance` chooses among equal replicas.
    #[must_use]
    pub fn new(items: &'a [GetItem<'a>], own: &'a [SegmentId], chance: Chance) -> Self {
        let mut order = Vec::with_capacity(items.len());
        let mut results = Vec::with_capacity(items.len());
        for (position, item) in items.iter().enumerate() {
            let checked = check_key(item.key);
            if checked.is_ok() {
                order.push(position);
            }
            results.push(Err(checked.err().unwrap_or(ErrorCode::InternalError)));
        }
        Self {
            items,
            own,
            chance,
            batches: Batches::new(order),
            is_held: false,
            pending: Vec::new(),
            asked_at: Tick::ZERO,
            results,
        }
    }

    /// Gets `items` by routes that were looked up before. An item without one, or with a part past the end of the
    /// object, is answered with [`ErrorCode::InvalidParams`], one whose lease has run out with
    /// [`ErrorCode::LeaseExpired`]. When all replicas of a route have failed there is no second chance.
    #[must_use]
    pub fn held(
        items: &'a [GetItem<'a>],
        routes: Vec<Option<Route>>,
        own: &'a [SegmentId],
        chance: Chance,
    ) -> Self {
        assert_eq!(items.len(), routes.len(), "one route per item");
        let mut op = Self {
            batches: Batches::new(Vec::new()),
            is_held: true,
            ..Self::new(&[], own, chance)
        };
        op.items = items;
        for (position, (item, route)) in items.iter().zip(routes).enumerate() {
            let route = route.filter(|route| has_all(&item.want, route.object_len()));
            op.results.push(Err(ErrorCode::InvalidParams));
            if let Some(route) = route {
                let mut item = InGet { looked_afresh: true, ..InGet::new(position) };
                item.route = Some(route);
                let chosen = item.choose(own, &mut op.chance);
                chosen.expect("a route has a replica, and none has failed");
                op.pending.push(item);
            }
        }
        op
    }

    fn begin_batch(&mut self) {
        let items = self.items;
        let taken = self.batches.take(|position| items[position].key.len());
        self.pending = taken.into_iter().map(InGet::new).collect();
    }

    /// Drops routes that may not be used and answers items for which nothing is left to try.
    fn settle(&mut self, now: Tick) {
        let Self { pending, results, is_held, .. } = self;
        pending.retain_mut(|item| {
            item.drop_expired(now);
            let code = if item.route.is_some() {
                return true;
            } else if *is_held {
                ErrorCode::LeaseExpired
            } else if item.attempts >= MAX_ATTEMPTS {
                item.verdict
            } else if item.idle_lookups >= MAX_IDLE_LOOKUPS {
                ErrorCode::LeaseExpired
            } else {
                return true;
            };
            results[item.position] = Err(code);
            false
        });
    }

    fn lookup(&mut self, now: Tick) -> Option<Step<'a>> {
        let without = self.pending.iter().filter(|item| item.route.is_none());
        let keys: Vec<&str> = without.map(|item| self.items[item.position].key).collect();
        if keys.is_empty() {
            return None;
        }
        self.asked_at = now;
        Some(Step::Call(Request::GetReplicaList { keys }))
    }

    /// One read of every item, each from the replica that is next for it.
    fn read(&mut self) -> Step<'a> {
        let mut fetches = Vec::with_capacity(self.pending.len());
        for item in &mut self.pending {
            item.attempts += 1;
            item.idle_lookups = 0;
            item.fetches_into(&self.items[item.position].want, &mut fetches);
        }
        Step::Read(fetches)
    }

    fn accept(&mut self, results: Vec<Result<Located, ErrorCode>>, terms: &RouteTerms) {
        let mut results = results.into_iter();
        let Self { pending, results: answers, items, own, chance, .. } = self;
        pending.retain_mut(|item| {
            if item.route.is_some() {
                return true;
            }
            let want = &items[item.position].want;
            let found = results.next().expect("one result per key was checked");
            let taken = found.and_then(|located| item.take_route(located, terms, want));
            match taken.and_then(|()| item.choose(own, chance)) {
                Ok(()) => true,
                Err(code) => {
                    answers[item.position] = Err(code);
                    false
                }
            }
        });
    }

    /// Every item that waits for this lookup ends with `code`.
    fn fail_lookup(&mut self, code: ErrorCode) {
        let Self { pending, results, .. } = self;
        pending.retain(|item| {
            if item.route.is_none() {
                results[item.position] = Err(code);
            }
            item.route.is_some()
        });
    }
}

impl<'a> Op<'a> for GetOp<'a> {
    /// Lengths of the objects, by position.
    type Output = Vec<Result<u64, ErrorCode>>;

    fn next(&mut self, now: Tick) -> Step<'a> {
        self.settle(now);
        while self.pending.is_empty() {
            self.begin_batch();
            if self.pending.is_empty() {
                return Step::Done;
            }
        }
        match self.lookup(now) {
            Some(call) => call,
            None => self.read(),
        }
    }

    fn on_reply(&mut self, _now: Tick, reply: Result<Reply, CallError>) {
        let waiting = self.pending.iter().filter(|item| item.route.is_none()).count();
        match reply {
            Ok(Reply::Located { results, segments, lease_ms }) if results.len() == waiting => {
                let lease_end = self.asked_at.after_ms(lease_ms);
                self.accept(results, &RouteTerms { segments: segments.into(), lease_end });
            }
            Ok(other) => self.fail_lookup(unexpected(&other)),
            Err(error) => {
                self.fail_lookup(error.code());
                for position in self.batches.take_rest() {
                    self.results[position] = Err(error.code());
                }
            }
        }
    }

    fn on_transfer(&mut self, results: Vec<Result<(), MoveError>>) {
        let mut rest = results.as_slice();
        let Self { pending, results: answers, own, chance, .. } = self;
        pending.retain_mut(|item| {
            let (mine, after) = rest.split_at(item.fetches);
            rest = after;
            let Some(error) = worst(mine) else {
                answers[item.position] = Ok(item.route().object_len());
                return false;
            };
            item.fail_replica(error);
            if let Err(code) = item.choose(own, chance) {
                answers[item.position] = Err(code);
                return false;
            }
            true
        });
        assert!(rest.is_empty(), "one result per range");
    }

    fn finish(self) -> Self::Output {
        self.results
    }
}

/// What the results of one lookup share.
struct RouteTerms {
    segments: Arc<[SegmentAddress]>,
    lease_end: Tick,
}

impl InGet {
    fn new(position: usize) -> Self {
        Self {
            position,
            route: None,
            reading: 0..0,
            fetches: 0,
            failed: Vec::new(),
            looked_afresh: false,
            idle_lookups: 0,
            attempts: 0,
            verdict: ErrorCode::ObjectNotFound,
        }
    }

    fn route(&self) -> &Route {
        self.route.as_ref().expect("an item that is read has a route")
    }

    fn drop_expired(&mut self, now: Tick) {
        self.route.take_if(|route| now >= route.lease_end());
    }

    fn take_route(
        &mut self,
        located: Located,
        terms: &RouteTerms,
        want: &Want<'_>,
    ) -> Result<(), ErrorCode> {
        self.idle_lookups += 1;
        let route = Route::new(located, &terms.segments, terms.lease_end)?;
        if !want.fits(route.object_len()) {
            return Err(ErrorCode::InvalidParams);
        }
        self.route = Some(route);
        Ok(())
    }

    /// Settles which replica is read next. When all have failed, the route is dropped, once, so that a fresh one
    /// is looked up; after that the item has failed for good.
    fn choose(&mut self, own: &[SegmentId], chance: &mut Chance) -> Result<(), ErrorCode> {
        let Some(route) = &self.route else { return Ok(()) };
        if let Some(reading) = route.choose(own, chance, &self.failed) {
            self.reading = reading;
            return Ok(());
        }
        self.route = None;
        if self.looked_afresh || self.attempts >= MAX_ATTEMPTS {
            return Err(self.verdict);
        }
        self.looked_afresh = true;
        self.failed.clear();
        Ok(())
    }

    fn fail_replica(&mut self, error: MoveError) {
        let place = self.route().place(&self.reading);
        self.failed.push(place);
        match error {
            // A stale route says nothing against a worse reason met at another replica.
            MoveError::Stale => {}
            MoveError::Refused(ErrorCode::Ok) => self.verdict = ErrorCode::InternalError,
            MoveError::Refused(code) => self.verdict = code,
            MoveError::Broken => self.verdict = ErrorCode::TransferFail,
        }
    }

    fn fetches_into(&mut self, want: &Want<'_>, fetches: &mut Vec<Fetch>) {
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

fn has_all(want: &Want<'_>, object_len: u64) -> bool {
    match want {
        Want::Whole { .. } => want.fits(object_len),
        Want::Parts(parts) => parts.iter().all(|part| part.lies_within(object_len)),
    }
}

/// The error of a replica whose ranges had these results: what is certain outweighs what is stale.
fn worst(results: &[Result<(), MoveError>]) -> Option<MoveError> {
    let errors = results.iter().filter_map(|result| result.err());
    errors.max_by_key(|error| match error {
        MoveError::Stale => 0,
        MoveError::Refused(_) => 1,
        MoveError::Broken => 2,
    })
}
