//! The replay: clients that take one request at a time, and a loop that watches them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use mooncake_memory::{MapError, Region};
use mooncake_workload::Trace;

use crate::cluster::ClusterError;
use crate::pool::Pool;
use crate::progress::{Counters, Progress};
use crate::request::{Blocks, Client};
use crate::stop::Stop;
use crate::tally::Tally;

/// After this many errors of one client the replay stops, since the pool does not work.
const MAX_ERRORS: u64 = 100;
const WATCH_INTERVAL: Duration = Duration::from_millis(50);

/// The result of a replay.
pub(crate) struct Outcome {
    pub(crate) tally: Tally,
    pub(crate) wall: Duration,
    /// Whether some requests were not replayed.
    pub(crate) cut_short: bool,
    /// Why the cluster ended, if it did.
    pub(crate) failure: Option<ClusterError>,
}

/// Replays the trace with one client per pool. Calls `alive` repeatedly, and stops if it reports that the cluster has
/// ended.
///
/// # Errors
/// If there is no memory for a client's buffer.
pub(crate) fn drive<P: Pool>(
    trace: &Trace,
    blocks: &Blocks,
    pools: Vec<P>,
    mut alive: impl FnMut() -> Result<(), ClusterError>,
    signals: &Stop,
) -> Result<Outcome, MapError> {
    let room = (trace.longest() * blocks.bytes) as u64;
    let regions: Vec<Region> =
        pools.iter().map(|_| Region::anonymous(room)).collect::<Result<_, _>>()?;
    let counters = Counters::default();
    let halt = Stop::default();
    let mut progress = Progress::start(trace.requests.len() as u64);
    let started = Instant::now();
    let (tally, failure) = thread::scope(|scope| {
        let clients: Vec<_> = pools
            .into_iter()
            .zip(&regions)
            .map(|(pool, region)| Client::new(pool, blocks, region.whole()))
            .map(|client| scope.spawn(|| work(client, trace, &counters, &halt)))
            .collect();
        let mut failure = None;
        while !clients.iter().all(thread::ScopedJoinHandle::is_finished) {
            thread::sleep(WATCH_INTERVAL);
            progress.show(&counters);
            if signals.requested() {
                halt.request();
            }
            if failure.is_none() {
                failure = alive().err();
                failure.iter().for_each(|_| halt.request());
            }
        }
        (joined(clients), failure)
    });
    let wall = started.elapsed();
    progress.finish();
    let cut_short = tally.requests < trace.requests.len() as u64;
    Ok(Outcome { tally, wall, cut_short, failure })
}

fn work<P: Pool>(
    mut client: Client<'_, P>,
    trace: &Trace,
    counters: &Counters,
    halt: &Stop,
) -> Tally {
    while !halt.requested() {
        let index = counters.next.fetch_add(1, Ordering::Relaxed);
        let Some(request) = trace.requests.get(index) else { break };
        let before = (client.tally.bytes_read + client.tally.bytes_written, client.tally.hits);
        let wrong_before = client.tally.wrong_bytes;
        client.replay(index + 1, request);
        let tally = &client.tally;
        let add = |counter: &AtomicU64, amount| counter.fetch_add(amount, Ordering::Relaxed);
        add(&counters.requests, 1);
        add(&counters.blocks, request.len() as u64);
        add(&counters.bytes, tally.bytes_read + tally.bytes_written - before.0);
        add(&counters.hits, tally.hits - before.1);
        add(&counters.wrong_bytes, tally.wrong_bytes - wrong_before);
        if tally.error_count() > MAX_ERRORS {
            halt.request();
        }
    }
    client.tally
}

fn joined(clients: Vec<thread::ScopedJoinHandle<'_, Tally>>) -> Tally {
    let mut sum = Tally::default();
    for client in clients {
        match client.join() {
            Ok(tally) => sum.add(tally),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
    sum
}
