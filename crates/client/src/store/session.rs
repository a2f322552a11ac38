use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mooncake_calls::Call;
use mooncake_node::{Host, UpkeepThread};
use mooncake_ops::{CallError, GetItem, GetOp, Op, Route, RouteCache};
use mooncake_transfer::{Paths, SealKeys};
use mooncake_types::{Chance, ErrorCode, LogLimiter, PrefetchLimits, Request, SegmentId, limits};

use super::get_sessions::GetSessions;
use super::mounts::Mounts;
use super::put_sessions::PutSessions;
use super::renewal::Renewal;
use super::serving::Serving;
use crate::clock::Clock;
use crate::drive::{Memory, OpDriver};
use crate::heartbeat::Heartbeat;
use crate::http::Http;
use crate::metrics::Metrics;
use crate::rpc::{self, ConnectionPool, Dialer};
use crate::store_condition::StoreCondition;
use crate::tasks::Tasks;

/// Everything of an open store. Each call holds it until it returns, so that closing frees nothing that a transfer
/// uses.
pub(super) struct Session {
    pub(super) clock: Clock,
    /// The segments that this process lends.
    pub(super) host: Arc<Host>,
    pub(super) mounts: Mounts,
    /// The keys of the seals that this node checks, if it checks any.
    pub(super) seals: Option<Arc<SealKeys>>,
    pub(super) pool: ConnectionPool,
    pub(super) metrics: Arc<Metrics>,
    pub(super) http: Option<Http>,
    pub(super) paths: Paths,
    pub(super) call_ms: u64,
    /// How long a put waits for room in a full pool.
    pub(super) put_wait_ms: u64,
    /// See [`StoreConfig::ssd_prefetch`](crate::StoreConfig::ssd_prefetch).
    pub(super) ssd_prefetch: Option<PrefetchLimits>,
    pub(super) heartbeat: Heartbeat,
    pub(super) gets: GetSessions,
    pub(super) puts: PutSessions,
    pub(super) tasks: Arc<Tasks>,
    pub(super) serving: Serving,
    /// For leaving the pool, with short timeouts.
    pub(super) goodbye: Dialer,
    pub(super) upkeep: UpkeepThread,
    pub(super) choices: AtomicU64,
    pub(super) routes: Arc<RouteCache>,
    pub(super) renewal: Arc<Renewal>,
    /// Limits the log of refused calls.
    pub(super) refusals: LogLimiter<ErrorCode>,
    pub(super) condition: Arc<StoreCondition>,
}

impl Session {
    /// The segments of this process, also those that are about to be taken back.
    pub(super) fn own(&self) -> Vec<SegmentId> {
        self.host.ids()
    }

    /// A generator for the choices of one operation.
    pub(super) fn chance(&self) -> Chance {
        Chance::new(self.choices.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed))
    }

    /// What operations need to reach the master and the nodes.
    pub(super) fn driver(&self) -> OpDriver<'_> {
        let Self { clock, pool, paths, call_ms, metrics, heartbeat, .. } = self;
        let (call_ms, metrics, heartbeat) = (*call_ms, Some(&**metrics), Some(heartbeat));
        OpDriver { clock, pool, paths, call_ms, metrics, heartbeat }
    }

    /// A call of the application about so many keys begins on this thread. It lasts until the value is dropped.
    pub(super) fn begin(&self, name: &'static str, items: usize) -> Call<'_> {
        self.metrics.calls.begin(name, items)
    }

    /// Gets objects, or parts of them, by cached routes or by look-ups.
    pub(super) fn get(
        &self,
        items: &[GetItem<'_>],
        memory: &mut impl Memory,
    ) -> Vec<Result<u64, ErrorCode>> {
        let _call = self.begin("get", items.len());
        if !self.routes.is_on() {
            let own = self.own();
            let mut op = GetOp::new(items, &own, self.chance());
            self.driver().run(&mut op, memory);
            return self.counted(op.finish());
        }
        let keys = items.iter().map(|item| item.key);
        let (known, is_due) = self.routes.find(keys, self.clock.now(), self.host.epoch());
        if is_due {
            self.renewal.wake();
        }
        self.get_by(&self.routes, known, items, memory)
    }

    /// Gets objects, or parts of them, by the routes of a snapshot, whose leases it renews first if half of them is over.
    pub(super) fn get_by_snapshot(
        &self,
        routes: &RouteCache,
        items: &[GetItem<'_>],
        memory: &mut impl Memory,
    ) -> Vec<Result<u64, ErrorCode>> {
        let _call = self.begin("get", items.len());
        let (epoch, end) = self.routes.term();
        routes.prolong(epoch, end);
        let find = || {
            let keys = items.iter().map(|item| item.key);
            routes.find(keys, self.clock.now(), self.host.epoch())
        };
        let (mut known, mut is_due) = find();
        // Each turn takes keys that are due, and none of them is due again at once.
        while is_due {
            self.renewal.renew(routes);
            (known, is_due) = find();
        }
        self.get_by(routes, known, items, memory)
    }

    /// Gets by these routes of a cache, and keeps what it learns in the cache.
    fn get_by(
        &self,
        routes: &RouteCache,
        known: Vec<Option<Arc<Route>>>,
        items: &[GetItem<'_>],
        memory: &mut impl Memory,
    ) -> Vec<Result<u64, ErrorCode>> {
        let (key_of, epoch) = (|position: usize| items[position].key, self.host.epoch());
        let hits = known.iter().flatten().count();
        let own = self.own();
        let mut op = GetOp::new(items, &own, self.chance()).with_routes(known);
        self.driver().run(&mut op, memory);
        let outdated = op.outdated();
        self.metrics.on_routes(hits, items.len() - hits, outdated.len());
        if !outdated.is_empty() {
            routes.forget(outdated.iter().map(|&position| key_of(position)));
        }
        let learned = op.take_learned();
        if !learned.is_empty() {
            let learned = learned.into_iter().map(|(position, route)| (key_of(position), route));
            routes.keep(learned, self.clock.now(), epoch);
        }
        self.counted(op.finish())
    }

    /// Counts the results of gets as hits and misses, and returns them. Logs why some were refused.
    pub(super) fn counted<T>(
        &self,
        results: Vec<Result<T, ErrorCode>>,
    ) -> Vec<Result<T, ErrorCode>> {
        self.metrics.reads.on_gets(&results);
        self.explain("a get", &results);
        results
    }

    /// Leaves the pool: stops pinging, takes the segments back, and stops serving.
    pub(super) fn leave(&self) {
        self.condition.set_open(false);
        let was_well = self.heartbeat.is_well();
        // Stop the heartbeat first, since it would mount the segments again. Keep its connection open until the
        // master was told: once that ends, the master takes the node for lost.
        let in_sight = self.heartbeat.stop();
        self.tasks.stop();
        self.renewal.stop();
        let own = self.own();
        // Giving back much memory takes long, so these references keep it until the end.
        let lent = self.host.segments();
        // The master keeps named segments. It loses sight of them until the next process has their files.
        let ending = lent.iter().filter(|segment| !segment.is_named()).map(|segment| segment.id());
        let ending: Vec<SegmentId> = ending.collect();
        // Take them back before the master knows. Once it has unmounted the segments, it has no entries dropped there.
        // An object that is then replaced could still be read here by a cached route, or on another host as a copy.
        self.host.end_promises(&own);
        own.iter().for_each(|&id| self.host.take_back(id));
        if let Err(error) = self.say_goodbye(ending, was_well) {
            tracing::info!(%error, "the master was not told that this client leaves");
        }
        drop(in_sight);
        self.pool.clear();
        self.serving.stop();
        if let Some(http) = &self.http {
            http.server().stop();
        }
    }

    /// Gives up open puts, has the master unmount the segments, and reports the last reads. For reads alone it does
    /// not wait for a master that did not answer the last ping.
    fn say_goodbye(&self, ending: Vec<SegmentId>, was_well: bool) -> Result<(), CallError> {
        let puts = self.puts.close();
        if puts.is_empty() && ending.is_empty() && !was_well {
            return Ok(());
        }
        let dial = |address| self.goodbye.dial(address, Duration::MAX);
        let mut dialed = (0..self.goodbye.masters.count()).map(dial);
        let connection = dialed.find_map(|dialed| dialed.ok().map(|(connection, _)| connection));
        let unreachable = || CallError::Unreachable { reason: "nobody answers".to_owned() };
        let mut connection = connection.ok_or_else(unreachable)?;
        for puts in puts.chunks(limits::MAX_BATCH_KEYS) {
            let puts = puts.iter().map(|(key, put)| put.revocation(key)).collect();
            let request = Request::PutRevoke { puts };
            rpc::call(&mut connection, &request).map_err(|failure| failure.error)?;
        }
        for id in ending {
            let request = Request::UnmountSegment { id, grace_ms: 0, failure: "" };
            rpc::call(&mut connection, &request).map_err(|failure| failure.error)?;
        }
        let leave = Request::Leave { reads: self.metrics.reads.report().map(Box::new) };
        rpc::call(&mut connection, &leave).map_err(|failure| failure.error)?;
        Ok(())
    }
}
