mod in_get;
mod renew;
mod route;
mod route_cache;
mod want;

use std::sync::Arc;

use mooncake_types::{Chance, ErrorCode, Located, Reply, Request, SegmentId, Tick};

pub use renew::{Renewed, renewed};
pub use route::Route;
pub use route_cache::{CacheLimits, RouteCache};
pub use want::{GetItem, Want};

use crate::batches::{Batches, check_key, checked};
use crate::dropping::predecessors::Predecessors;
use crate::op::{CallError, MoveError, Op, Step, unexpected};
use crate::retry::RetryPolicy;
use in_get::{InGet, RouteTerms, worst};

/// Gets objects: looks them up, reads them, and fails over.
///
/// - A replica in memory comes before one on a disk, and one of this process before others. Chance decides among
///   equals.
/// - If all replicas fail, the object is looked up again: once, and then as long as each lookup names a place that
///   the one before did not. Then the get fails.
/// - A route is not used after its lease ended. The object is looked up again instead.
/// - A version that replaces another is read only once all replicas of the older one were found dropped.
/// - Nodes drop all other older versions that they may hold before anything is read.
///
/// With routes from the caller ([`GetOp::held`]) the master is never asked.
#[derive(Debug)]
pub struct GetOp<'a> {
    items: &'a [GetItem<'a>],
    own: &'a [SegmentId],
    chance: Chance,
    batches: Batches,
    /// The caller gave the routes, and nothing is looked up.
    is_held: bool,
    /// Cached routes by position; may be shorter than `items`.
    cached: Vec<Option<Arc<Route>>>,
    pending: Vec<InGet>,
    predecessors: Predecessors,
    asked_at: Tick,
    /// No lookup begins before this.
    lookup_from: Tick,
    results: Vec<Result<u64, ErrorCode>>,
    /// Looked-up routes that led to the bytes and may be cached, by position.
    learned: Vec<(usize, Arc<Route>)>,
    /// Positions of items whose cached routes did not lead to the bytes.
    outdated: Vec<usize>,
}

impl<'a> GetOp<'a> {
    /// Gets `items`; `own` are the segments of this process; `chance` chooses among equal replicas.
    #[must_use]
    pub fn new(items: &'a [GetItem<'a>], own: &'a [SegmentId], chance: Chance) -> Self {
        let (positions, results) = checked(items, |item| check_key(item.key));
        Self {
            items,
            own,
            chance,
            batches: Batches::new(positions),
            is_held: false,
            cached: Vec::new(),
            pending: Vec::new(),
            predecessors: Predecessors::default(),
            asked_at: Tick::ZERO,
            lookup_from: Tick::ZERO,
            results,
            learned: Vec::new(),
            outdated: Vec::new(),
        }
    }

    /// Begins with cached routes, by position, which may be used at this moment. Asks the master only about items
    /// that have no route, or whose route fails.
    #[must_use]
    pub fn with_routes(self, cached: Vec<Option<Arc<Route>>>) -> Self {
        Self { cached, ..self }
    }

    /// The looked-up routes that may be cached, by position.
    pub fn take_learned(&mut self) -> Vec<(usize, Arc<Route>)> {
        std::mem::take(&mut self.learned)
    }

    /// The positions of items whose cached routes failed.
    #[must_use]
    pub fn outdated(&self) -> &[usize] {
        &self.outdated
    }

    /// Gets `items` by routes that were looked up before, and looks nothing up again. An item without a route, or
    /// with a part past the end of the object, is answered with [`ErrorCode::InvalidParams`]. An item whose lease
    /// ended is answered with [`ErrorCode::LeaseExpired`].
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
            let route = route.filter(|route| item.want.lies_within(route.object_len()));
            op.results.push(Err(ErrorCode::InvalidParams));
            if let Some(route) = route {
                let mut item = InGet::held(position, Arc::new(route));
                let chosen = item.choose(own, &mut op.chance, &items[position].want);
                chosen.expect("a route has a replica, and none has failed");
                op.pending.push(item);
            }
        }
        op
    }

    fn begin_batch(&mut self) {
        let Self { items, own, cached, chance, .. } = self;
        let taken = self.batches.take(|position| items[position].key.len());
        let begin = |position: usize| {
            let mut item = InGet::new(position);
            let route = cached.get_mut(position).and_then(Option::take);
            // What does not lie within the object may lie within a version that has replaced it.
            if let Some(route) =
                route.filter(|it| items[position].want.lies_within(it.object_len()))
            {
                item.begin_with(route);
                let chosen = item.choose(own, chance, &items[position].want);
                chosen.expect("a route has a replica, and none has failed");
            }
            item
        };
        self.pending = taken.into_iter().map(begin).collect();
    }

    /// Drops routes whose leases ended, and answers items for which nothing is left to try.
    fn settle(&mut self, now: Tick) {
        let Self { pending, results, is_held, lookup_from, .. } = self;
        pending.retain_mut(|item| {
            if item.drop_expired(now) && item.idle_lookups > 0 {
                let pause_end = RetryPolicy::IDLE_LOOKUP.pause_after(item.idle_lookups - 1, now);
                *lookup_from = pause_end.max(*lookup_from);
            }
            let code = if item.route.is_some() {
                return true;
            } else if *is_held {
                ErrorCode::LeaseExpired
            } else if !RetryPolicy::GET.allows(item.attempts) {
                item.verdict
            } else if !RetryPolicy::IDLE_LOOKUP.allows(item.idle_lookups) {
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
        if now < self.lookup_from {
            return Some(Step::Wait(self.lookup_from));
        }
        self.asked_at = now;
        Some(Step::Call(Request::GetReplicaList { keys }))
    }

    /// Reads every pending item, each from its chosen replica.
    fn read(&mut self) -> Step<'a> {
        let mut fetches = Vec::with_capacity(self.pending.len());
        for item in &mut self.pending {
            item.attempts += 1;
            item.idle_lookups = 0;
            item.fetches_into(&self.items[item.position].want, &mut fetches);
        }
        Step::Read(fetches)
    }

    fn accept(
        &mut self,
        results: Vec<Result<Located, ErrorCode>>,
        successors: Vec<(u32, Located)>,
        terms: &RouteTerms,
    ) {
        let mut results = results.into_iter().zip(0..);
        let mut successors = successors.into_iter().peekable();
        let Self { pending, results: answers, items, own, chance, .. } = self;
        pending.retain_mut(|item| {
            if item.route.is_some() {
                return true;
            }
            let want = &items[item.position].want;
            let (found, index) = results.next().expect("one result per key was checked");
            let mut newer = Vec::new();
            while let Some((_, located)) = successors.next_if(|(key, _)| *key == index) {
                newer.push(located);
            }
            let taken = found.and_then(|located| item.take_route(located, newer, terms));
            match taken.and_then(|()| item.choose(own, chance, want)) {
                Ok(()) => true,
                Err(code) => {
                    answers[item.position] = Err(code);
                    false
                }
            }
        });
    }

    /// Takes the outcome of dropping older versions.
    fn on_dropped(&mut self, results: &[Result<(), MoveError>]) {
        let failed = self.predecessors.on_dropped(results);
        let Self { pending, results: answers, predecessors, .. } = self;
        pending.retain_mut(|item| {
            if !failed.contains(&item.position) {
                return true;
            }
            let is_again = item.look_up_again();
            match is_again {
                true => predecessors.pause(),
                false => answers[item.position] = Err(ErrorCode::ObjectReplicaBusy),
            }
            is_again
        });
        // A lease that ends while nodes drop older versions, or in the pause after that, is not an idle lookup.
        pending.iter_mut().for_each(|item| item.idle_lookups = 0);
    }

    /// Ends every item that waits for this lookup with `code`.
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

    fn batch(&self) -> u64 {
        self.batches.begun()
    }

    fn next(&mut self, now: Tick) -> Step<'a> {
        if let Some(step) = self.predecessors.next(now) {
            return step;
        }
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

    fn on_reply(&mut self, reply: Result<Reply, CallError>) {
        let waiting = self.pending.iter().filter(|item| item.route.is_none());
        let waiting: Vec<usize> = waiting.map(|item| item.position).collect();
        match reply {
            Ok(Reply::Located { results, successors, predecessors, segments, lease_ms })
                if results.len() == waiting.len() =>
            {
                self.predecessors.on_named(&predecessors, &segments, &waiting);
                let lease_end = self.asked_at.after_ms(lease_ms);
                let terms = RouteTerms { segments: segments.into(), lease_end };
                self.accept(results, successors, &terms);
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
        if self.predecessors.is_under_way() {
            return self.on_dropped(&results);
        }
        let mut rest = results.as_slice();
        let Self { pending, results: answers, own, chance, items, learned, outdated, .. } = self;
        let (predecessors, is_held) = (&mut self.predecessors, self.is_held);
        pending.retain_mut(|item| {
            let (mine, after) = rest.split_at(item.fetches);
            rest = after;
            let Some(error) = worst(mine) else {
                answers[item.position] = Ok(item.route().object_len());
                learned.extend(item.lasting_route().map(|route| (item.position, route)));
                return false;
            };
            if item.is_cached {
                outdated.push(item.position);
            }
            let is_all_of_it = items[item.position].want.is_whole() || item.reading.len() == 1;
            let all_stale = mine.iter().all(|result| *result == Err(MoveError::Stale));
            item.fail_replica(error, is_all_of_it && all_stale);
            let Err(code) = item.choose(own, chance, &items[item.position].want) else {
                return true;
            };
            // A node that was started again has told the master its new key by then.
            if code == ErrorCode::PermissionDenied && !is_held && item.look_up_again() {
                predecessors.pause();
                return true;
            }
            answers[item.position] = Err(code);
            false
        });
        assert!(rest.is_empty(), "one result per range");
    }

    fn finish(self) -> Self::Output {
        self.results
    }
}
