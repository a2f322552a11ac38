//! Runs all pools of a comparison, several in parallel.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use indicatif::{ProgressBar, ProgressStyle};
use mooncake_meta::EvictionPolicy;

use super::SimError;
use super::args::SimArgs;
use crate::{Pool, PoolError, Tally, Trace, best_hits, infinite_hits};

/// How many requests pass between updates of the progress bar.
const STEP: usize = 256;
const TEMPLATE: &str = "{bar:32} {pos}/{len} requests  {elapsed} (eta {eta})";

/// The results of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Comparison {
    pub(crate) requests: u64,
    pub(crate) blocks: u64,
    pub(crate) distinct_blocks: u64,
    /// The hits of a pool that never evicts.
    pub(crate) possible_hits: u64,
    pub(crate) segments: u32,
    pub(crate) replicas: u32,
    pub(crate) block_bytes: u64,
    pub(crate) lease_ms: u64,
    pub(crate) policies: Vec<EvictionPolicy>,
    /// One row for each size, in ascending order.
    pub(crate) rows: Vec<Row>,
}

/// The results of pools of one size.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) bytes: u64,
    /// How many blocks the pool can hold.
    pub(crate) room: u64,
    /// One tally for each policy.
    pub(crate) tallies: Vec<Tally>,
    pub(crate) best_hits: u64,
}

impl Comparison {
    pub(crate) fn run(args: &SimArgs, trace: &Trace) -> Result<Self, SimError> {
        let sizes = args.sizes(trace.hash_ids.len())?;
        let pools: Vec<(u64, EvictionPolicy)> = sizes
            .iter()
            .flat_map(|&bytes| args.policy.iter().map(move |&policy| (bytes, policy)))
            .collect();
        let bar = ProgressBar::new((pools.len() * trace.requests.len()) as u64);
        bar.set_style(ProgressStyle::with_template(TEMPLATE).expect("the template is valid"));
        let run = |&(bytes, policy): &(u64, EvictionPolicy)| {
            let mut pool = Pool::new(&args.shape(bytes, policy))?;
            for number in 0..trace.requests.len() {
                pool.request(trace, number);
                if number % STEP == STEP - 1 {
                    bar.inc(STEP as u64);
                }
            }
            bar.inc((trace.requests.len() % STEP) as u64);
            Ok(pool.tally())
        };
        let threads = args.threads.map_or_else(
            || thread::available_parallelism().map_or(1, usize::from),
            |threads| threads as usize,
        );
        let tallies = run_all(&pools, threads, &run)?;
        bar.finish_and_clear();
        let rows = sizes.iter().zip(tallies.chunks(args.policy.len())).map(|(&bytes, tallies)| {
            let room = args.blocks(bytes);
            let capacity = usize::try_from(room).unwrap_or(usize::MAX);
            Row { bytes, room, tallies: tallies.to_vec(), best_hits: best_hits(trace, capacity) }
        });
        Ok(Self {
            requests: trace.requests.len() as u64,
            blocks: trace.blocks() as u64,
            distinct_blocks: trace.hash_ids.len() as u64,
            possible_hits: infinite_hits(trace, trace.requests.len()),
            segments: args.segments,
            replicas: args.replicas(),
            block_bytes: args.block_bytes,
            lease_ms: args.lease_ms,
            policies: args.policy.clone(),
            rows: rows.collect(),
        })
    }

    /// Hits as a share of all blocks, in percent.
    pub(crate) fn percent(&self, hits: u64) -> f64 {
        hits as f64 * 100.0 / self.blocks as f64
    }
}

type Runner<'a> = dyn Fn(&(u64, EvictionPolicy)) -> Result<Tally, PoolError> + Sync + 'a;

/// Runs the pools on `threads` threads, and returns the tallies in the pools' order. Larger pools begin first, since
/// they take longest.
fn run_all(
    pools: &[(u64, EvictionPolicy)],
    threads: usize,
    run: &Runner<'_>,
) -> Result<Vec<Tally>, PoolError> {
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let tallies = Mutex::new(vec![None; pools.len()]);
    thread::scope(|scope| {
        for _ in 0..threads.min(pools.len()) {
            scope.spawn(|| {
                while !failed.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(place) = pools.len().checked_sub(number + 1) else { break };
                    let tally = run(&pools[place]);
                    failed.fetch_or(tally.is_err(), Ordering::Relaxed);
                    tallies.lock().expect("no thread panics while it holds the lock")[place] =
                        Some(tally);
                }
            });
        }
    });
    let tallies = tallies.into_inner().expect("no thread panics while it holds the lock");
    tallies.into_iter().flatten().collect()
}
