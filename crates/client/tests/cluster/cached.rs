use std::rc::Rc;

use mooncake_ops::{CacheLimits, CallError, GetOp, MoveError, Op, RouteCache, Step};
use mooncake_types::{Epoch, ErrorCode, Reply, Tick};

use crate::key::KEYS;

/// Small, so that routes are forgotten.
const LIMITS: CacheLimits = CacheLimits { entries: 24, bytes: 1 << 20 };

/// The routes that one client knows.
#[derive(Clone)]
pub(crate) struct Routes(Rc<RouteCache>);

impl Routes {
    pub(crate) fn new() -> Self {
        let cache = RouteCache::new(LIMITS);
        // Whether the leader stands for its routes is asked by the simulation of whole clusters.
        cache.prolong(Epoch(0), Tick(u64::MAX));
        Self(Rc::new(cache))
    }

    /// A get that begins with what is known.
    pub(crate) fn get(
        &self,
        op: GetOp<'static>,
        keys: &[usize],
        now: Tick,
        hits: &mut u64,
    ) -> CachedGet {
        let (routes, _) = self.0.find(keys.iter().map(|&key| KEYS[key]), now, Epoch(0));
        *hits += routes.iter().flatten().count() as u64;
        let (keys, routes_of) = (keys.to_vec(), self.clone());
        CachedGet { op: op.with_routes(routes), keys, routes: routes_of, now }
    }
}

/// A get that learns routes.
pub(crate) struct CachedGet {
    op: GetOp<'static>,
    keys: Vec<usize>,
    routes: Routes,
    now: Tick,
}

impl Op<'static> for CachedGet {
    type Output = Vec<Result<u64, ErrorCode>>;

    fn next(&mut self, now: Tick) -> Step<'static> {
        self.now = now;
        self.op.next(now)
    }

    fn on_reply(&mut self, now: Tick, reply: Result<Reply, CallError>) {
        self.op.on_reply(now, reply);
    }

    fn on_transfer(&mut self, results: Vec<Result<(), MoveError>>) {
        self.op.on_transfer(results);
    }

    fn finish(mut self) -> Self::Output {
        let cache = &self.routes.0;
        cache.forget(self.op.outdated().iter().map(|&position| KEYS[self.keys[position]]));
        let learned = self.op.take_learned().into_iter();
        let learned = learned.map(|(position, route)| (KEYS[self.keys[position]], route));
        cache.keep(learned, self.now, Epoch(0));
        self.op.finish()
    }
}
