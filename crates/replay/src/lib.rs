//! `mooncake replay` replays real requests against a pool, and checks every byte. It measures the store, and is not
//! part of it.
//!
//! Enter at [`main`]. Requests come from a [`Trace`]. `target` and `cluster` start a master and nodes, or find a
//! running pool. `drive` runs clients, each of which replays one `request` at a time. `content` makes bytes that
//! describe themselves, and `generations` knows which put a get may return. `report` prints the results beside those
//! of other caches.

#![forbid(unsafe_code)]

mod args;
mod cluster;
mod content;
mod drive;
mod generations;
mod latency;
mod output;
mod pool;
mod process;
mod progress;
mod report;
mod request;
mod stop;
mod store;
mod tally;
mod target;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{CommandFactory, Parser};
use mooncake_client::{EnvError, OpenError};
use mooncake_memory::MapError;
use mooncake_workload::{Trace, TraceError, infinite_hits, lru_hits};

use crate::args::{PoolTooSmall, ReplayArgs};
use crate::cluster::ClusterError;
use crate::drive::Outcome;
use crate::generations::Generations;
use crate::output::{complain, say};
use crate::report::Report;
use crate::request::Blocks;
use crate::stop::Stop;
use crate::target::Target;

/// The exit status after Ctrl-C, which shells use too.
const INTERRUPTED: u8 = 130;

/// Why a replay failed.
#[derive(Debug, thiserror::Error)]
enum ReplayError {
    #[error(transparent)]
    Trace(#[from] TraceError),
    #[error(transparent)]
    Pool(#[from] PoolTooSmall),
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error(transparent)]
    Environment(#[from] EnvError),
    #[error("client {number} cannot open the store: {reason}")]
    Open { number: u64, reason: OpenError },
    #[error("no memory for the clients' buffers: {0}")]
    Buffer(#[from] MapError),
    #[error("cannot write {}: {reason}", path.display())]
    Json { path: PathBuf, reason: io::Error },
    #[error("cannot catch signals or find this program: {0}")]
    System(io::Error),
}

/// The flags of the program.
#[must_use]
pub fn command() -> clap::Command {
    ReplayArgs::command()
}

/// Runs the program with `args`, which lack its name. The status is 0 if all bytes were right and no call failed, 1 if
/// not, 2 for wrong arguments, and 130 after a signal.
#[must_use]
pub fn main(args: &[String]) -> ExitCode {
    let name = "mooncake replay".to_owned();
    match ReplayArgs::try_parse_from(std::iter::once(&name).chain(args)) {
        Ok(args) => run(&args),
        Err(error) => {
            let _ = error.print();
            ExitCode::from(if error.use_stderr() { 2 } else { 0 })
        }
    }
}

fn run(args: &ReplayArgs) -> ExitCode {
    if let Some(parent) = args.as_child_of {
        complain(format_args!("{}\n", process::become_child(parent, &args.command)));
        return ExitCode::from(127);
    }
    let stop = match Stop::on_signals() {
        Ok(stop) => stop,
        Err(error) => return fail(&ReplayError::System(error)),
    };
    match replay(args, &stop) {
        Ok(_) | Err(ReplayError::Cluster(ClusterError::Stopped)) if stop.requested() => {
            complain(format_args!("mooncake replay: stopped by a signal\n"));
            ExitCode::from(INTERRUPTED)
        }
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => fail(&error),
    }
}

fn fail(error: &ReplayError) -> ExitCode {
    complain(format_args!("mooncake replay: {error}\n"));
    ExitCode::FAILURE
}

/// Runs the replay. True if no byte was wrong, no call failed, and all requests were replayed.
fn replay(args: &ReplayArgs, stop: &Stop) -> Result<bool, ReplayError> {
    let trace = Trace::read(&args.trace, args.trace_limits())?;
    let mut target = Target::reach(args, &trace, stop)?;
    let prefix = key_prefix();
    let blocks = Blocks {
        keys: trace.hash_ids.iter().map(|id| format!("{prefix}{id:016x}")).collect(),
        bytes: args.block_bytes,
        generations: Generations::new(trace.hash_ids.len()),
    };
    let stores = target.open_clients(args.clients)?;
    let evicted_before = target.evicted_blocks();
    let mut outcome = drive::drive(&trace, &blocks, stores, || target.check(), stop)?;
    let failure = outcome.failure.take();
    let evicted = target.evicted_blocks().zip(evicted_before);
    target.clean(&prefix);
    let evicted = evicted.map(|(after, before)| after.saturating_sub(before));
    let report = report(args, &trace, outcome, &target, evicted);
    say(format_args!("{report}"));
    write_json(args, &report)?;
    match failure {
        Some(failure) => Err(failure.into()),
        None => Ok(report.tally.is_clean() && !report.cut_short),
    }
}

fn report(
    args: &ReplayArgs,
    trace: &Trace,
    outcome: Outcome,
    target: &Target,
    evicted_blocks: Option<u64>,
) -> Report {
    let Outcome { tally, wall, cut_short, .. } = outcome;
    let replayed = tally.requests as usize;
    let lru_hits = target.pool_bytes.map(|bytes| {
        let capacity = usize::try_from(bytes / args.block_bytes as u64).unwrap_or(usize::MAX);
        lru_hits(trace, replayed, capacity)
    });
    Report {
        wall,
        cut_short,
        clients: args.clients,
        block_bytes: args.block_bytes,
        trace_requests: trace.requests.len(),
        distinct_blocks: trace.hash_ids.len(),
        last_ms: trace.last_ms(),
        nodes: target.nodes,
        pool_bytes: target.pool_bytes,
        has_disks: args.disk.is_some(),
        infinite_hits: infinite_hits(trace, replayed),
        lru_hits,
        evicted_blocks,
        tally,
    }
}

fn write_json(args: &ReplayArgs, report: &Report) -> Result<(), ReplayError> {
    let Some(path) = &args.json else { return Ok(()) };
    let text = format!("{:#}\n", report.to_json());
    std::fs::write(path, text).map_err(|reason| ReplayError::Json { path: path.clone(), reason })
}

/// The prefix of the keys of this run. It is unique, so that runs on one cluster do not share blocks.
fn key_prefix() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("replay/{:x}-{:x}/", std::process::id(), now.as_nanos())
}
