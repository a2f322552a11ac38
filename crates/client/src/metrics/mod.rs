//! The metrics of a client: atomic counters, so that counting costs a call next to nothing.
//!
//! Names and units are those of the C++ package: latencies are in microseconds. Each counter has one writer: the
//! session counts transfers, the pool of connections to the master counts requests.

mod histogram;
mod nics;
mod reads;
mod rpc;
mod summary;
mod text;
mod writes;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use mooncake_calls::{Side, SpanSink, Watch};
use mooncake_node::{DiskLosses, FailedDisk, Host};
use mooncake_transfer::{FabricDevice, HotCache, HotCacheCounts, Served, Source};
use mooncake_types::{Medium, Request};

use histogram::Histogram;
pub(crate) use reads::{Fetched, Reads};
use rpc::Rpc;
use writes::Writes;

/// Whether a transfer moved ranges of one object or of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    One,
    Several,
}

impl Extent {
    /// The extent of a transfer of ranges of these items of a batch.
    pub(crate) fn of(mut positions: impl Iterator<Item = usize>) -> Self {
        let first = positions.next();
        match positions.any(|position| Some(position) != first) {
            true => Self::Several,
            false => Self::One,
        }
    }
}

/// All counters of one store, from its opening on.
#[derive(Debug)]
pub(crate) struct Metrics {
    since: Instant,
    /// Hits, misses, and the sources of bytes.
    pub(crate) reads: Reads,
    /// Ranges and bytes that the data server of this process sent and received.
    pub(crate) served: Arc<Served>,
    /// Bytes of the ranges that arrived.
    read_bytes: AtomicU64,
    /// The ranges that were written, counted for each replica.
    writes: Writes,
    /// The calls of the application.
    pub(crate) calls: Watch,
    /// The requests of peers that this process serves.
    pub(crate) served_calls: Arc<Watch>,
    /// Items of gets that began with a cached route.
    route_hits: AtomicU64,
    /// Items of gets that had no cached route.
    route_misses: AtomicU64,
    /// Items of gets whose cached route was wrong.
    route_stale: AtomicU64,
    /// The hot cache, if there is one; it has its own counters.
    hot_cache: OnceLock<Arc<HotCache>>,
    /// The lent segments. Their disks have their own counters.
    host: OnceLock<Weak<Host>>,
    /// The device for one-sided transfers, if there is one; it has its own counters.
    device: OnceLock<Arc<FabricDevice>>,
    get: Histogram,
    batch_get: Histogram,
    put: Histogram,
    batch_put: Histogram,
    /// Latencies of all gets, by the farthest [`Medium`] of their ranges.
    tier_latencies: [Histogram; Medium::ALL.len()],
    /// Requests to the master, answered or not.
    rpcs: [Histogram; Rpc::COUNT],
}

impl Metrics {
    /// All counters are zero. `run` is a number that no other process has. Calls that take as long as `slow` are logged,
    /// if it is not zero. The spans of calls go to the sink, if there is one.
    pub(crate) fn new(run: u64, slow: Duration, sink: Option<Arc<dyn SpanSink>>) -> Self {
        Self {
            since: Instant::now(),
            reads: Reads::new(run),
            served: Arc::default(),
            read_bytes: AtomicU64::new(0),
            writes: Writes::default(),
            calls: Watch::new(Side::Client, slow).traced(sink.clone()),
            served_calls: Arc::new(Watch::new(Side::Node, slow).traced(sink)),
            route_hits: AtomicU64::new(0),
            route_misses: AtomicU64::new(0),
            route_stale: AtomicU64::new(0),
            hot_cache: OnceLock::new(),
            host: OnceLock::new(),
            device: OnceLock::new(),
            get: Histogram::new(),
            batch_get: Histogram::new(),
            put: Histogram::new(),
            batch_put: Histogram::new(),
            tier_latencies: [const { Histogram::new() }; Medium::ALL.len()],
            rpcs: [const { Histogram::new() }; Rpc::COUNT],
        }
    }

    /// Includes the counters of a hot cache.
    pub(crate) fn show_hot_cache(&self, hot_cache: Arc<HotCache>) {
        self.hot_cache.get_or_init(|| hot_cache);
    }

    /// Includes the counters of lent disks.
    pub(crate) fn show_disks(&self, host: &Arc<Host>) {
        self.host.get_or_init(|| Arc::downgrade(host));
    }

    /// What the lent disks have lost, and those that failed.
    pub(crate) fn disk_counts(&self) -> (DiskLosses, Vec<FailedDisk>) {
        let host = self.host.get().and_then(Weak::upgrade);
        host.map(|host| (host.disk_losses(), host.failed_disks())).unwrap_or_default()
    }

    /// The counters of the hot cache; zeros if there is none.
    pub(crate) fn hot_cache(&self) -> HotCacheCounts {
        self.hot_cache.get().map(|hot| hot.counts()).unwrap_or_default()
    }

    /// Counts ranges that were read, successfully or not.
    pub(crate) fn on_read(&self, extent: Extent, fetched: &[Fetched], took: Duration) {
        self.reads.on_fetched(fetched);
        let arrived = fetched.iter().filter(|it| it.result.is_ok()).map(|it| it.len);
        let bytes: u64 = arrived.sum();
        self.read_bytes.fetch_add(bytes, Ordering::Relaxed);
        match extent {
            Extent::One => self.get.observe(took),
            Extent::Several => self.batch_get.observe(took),
        }
        let arrived = fetched.iter().filter(|it| it.result.is_ok());
        if let Some(farthest) = arrived.map(|it| it.medium).max() {
            self.tier_latencies[farthest as usize].observe(took);
        }
    }

    /// Objects that were read from disks.
    pub(crate) fn disk_reads(&self) -> u64 {
        self.reads.counts().disk.objects
    }

    /// Counts items of gets: with a cached route, without, and with a cached route that was wrong.
    pub(crate) fn on_routes(&self, hits: usize, misses: usize, stale: usize) {
        self.route_hits.fetch_add(hits as u64, Ordering::Relaxed);
        self.route_misses.fetch_add(misses as u64, Ordering::Relaxed);
        self.route_stale.fetch_add(stale as u64, Ordering::Relaxed);
    }

    /// Counts a write. `written` has the length of each range that is in place, and where it lies.
    pub(crate) fn on_write(
        &self,
        extent: Extent,
        written: impl Iterator<Item = (Source, u64)>,
        took: Duration,
    ) {
        self.writes.add(written);
        match extent {
            Extent::One => self.put.observe(took),
            Extent::Several => self.batch_put.observe(took),
        }
    }

    /// Counts a request to the master.
    pub(crate) fn on_call(&self, request: &Request<'_>, took: Duration) {
        self.rpcs[Rpc::of(request) as usize].observe(took);
    }
}
