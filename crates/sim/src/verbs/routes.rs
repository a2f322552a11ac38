use std::rc::Rc;

use mooncake_client::membership::RoutesEnd;
use mooncake_ops::{
    CacheLimits, CallError, GetOp, MoveError, Op, Renewed, RouteCache, Step, renewed,
};
use mooncake_types::{Epoch, ErrorCode, Reply, Request, Tick};

use super::ask::Ask;
use crate::key::{KEYS, number_of};
use crate::run_state::RunState;
use crate::task::Task;

/// Small, so that the cache forgets routes.
const LIMITS: CacheLimits = CacheLimits { entries: 24, bytes: 1 << 20 };

/// The route cache of a process.
#[derive(Clone)]
pub(crate) struct Routes {
    cache: Rc<RouteCache>,
    /// The highest epoch that the process had seen when it began its last operation.
    pub(crate) epoch: Epoch,
}

impl Routes {
    pub(crate) fn new() -> Self {
        Self { cache: Rc::new(RouteCache::new(LIMITS)), epoch: Epoch(0) }
    }

    /// Prolongs cached routes to the end that a master has named.
    pub(crate) fn prolong(&self, end: RoutesEnd) {
        self.cache.prolong(end.epoch, end.at);
    }

    /// A get that begins with the cached routes of its keys.
    pub(crate) fn get(
        &self,
        op: GetOp<'static>,
        keys: &[usize],
        now: Tick,
        run_state: &mut RunState,
    ) -> RoutedGet {
        let (routes, _) = self.cache.find(keys.iter().map(|&key| KEYS[key]), now, self.epoch);
        run_state.tally.hits += routes.iter().flatten().count() as u64;
        RoutedGet { op: op.with_routes(routes), keys: keys.to_vec(), routes: self.clone(), now }
    }
}

/// A get that keeps the routes that it learns in the cache.
pub(crate) struct RoutedGet {
    op: GetOp<'static>,
    keys: Vec<usize>,
    routes: Routes,
    now: Tick,
}

impl Op<'static> for RoutedGet {
    type Output = Vec<Result<u64, ErrorCode>>;

    fn next(&mut self, now: Tick) -> Step<'static> {
        self.now = now;
        self.op.next(now)
    }

    fn on_reply(&mut self, reply: Result<Reply, CallError>) {
        self.op.on_reply(reply);
    }

    fn on_transfer(&mut self, results: Vec<Result<(), MoveError>>) {
        self.op.on_transfer(results);
    }

    fn finish(mut self) -> Self::Output {
        let cache = &self.routes.cache;
        cache.forget(self.op.outdated().iter().map(|&position| KEYS[self.keys[position]]));
        let learned = self.op.take_learned().into_iter();
        let learned = learned.map(|(position, route)| (KEYS[self.keys[position]], route));
        cache.keep(learned, self.now, self.routes.epoch);
        self.op.finish()
    }
}

/// Renews the leases of cached routes that were used, if there are any.
pub(crate) fn renew(routes: &Routes, now: Tick, run_state: &RunState) -> Option<Task> {
    let due = routes.cache.take_due();
    if due.is_empty() {
        return None;
    }
    let (keys, uses): (Vec<_>, Vec<_>) =
        due.iter().map(|(key, uses)| (number_of(key), *uses)).unzip();
    let names: Vec<&str> = keys.iter().map(|&key| KEYS[key]).collect();
    let (cache, epoch) = (Rc::clone(&routes.cache), routes.epoch);
    let ask = Ask::new(Request::RenewRoutes { keys: names.clone(), uses });
    Some(Task::new(ask, keys, run_state, move |reply, after| {
        let renewed = renewed(now, reply.ok()?)?;
        let mut held = Vec::new();
        for (key, renewed) in names.into_iter().zip(renewed) {
            match renewed {
                Renewed::Route(route) => held.push((key, route)),
                Renewed::Unsettled => {}
                Renewed::Gone(_) => cache.forget(std::iter::once(key)),
            }
        }
        after.run_state.meet("routes renewed", held.len() as u64);
        cache.keep(held.into_iter(), after.now, epoch);
        None
    }))
}
