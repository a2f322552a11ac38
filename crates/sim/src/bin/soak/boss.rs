//! The boss, which hands out seeds to worker processes, and collects what they find.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use crate::flags::Flags;
use crate::ran::RunResult;
use crate::span::Span;
use crate::state::SoakState;
use crate::summary;
use crate::worker::ENDLESS;

/// How many seeds one worker process runs. Few, since runs leak memory.
const SEEDS_PER_WORKER: u64 = 200;

/// How often the boss prints its progress.
const REPORT_EVERY: Duration = Duration::from_secs(20);

/// How often the boss saves its state.
const SAVE_EVERY: Duration = Duration::from_secs(5);

/// All runs of one seed; or the error that ended a thread.
type Done = Result<(u64, Vec<RunResult>), String>;

/// Runs the seeds that are left. True if no run found a violation, those of earlier calls included.
///
/// # Errors
/// The state cannot be read or written, or no process can be started.
pub(crate) fn main(flags: &Flags) -> Result<bool, String> {
    let state = match &flags.state {
        Some(path) => SoakState::open(path, flags.plan())?,
        None => SoakState::new(flags.plan()),
    };
    let mut ledger = SeedCollector::new(state, flags);
    ledger.save()?;
    let (next, is_over) = (&AtomicU64::new(ledger.state.next), &AtomicBool::new(false));
    let (sender, receiver) = channel();
    let worked = std::thread::scope(|scope| {
        for _ in 0..flags.threads() {
            let sender = sender.clone();
            scope.spawn(move || hand_out(flags, next, is_over, &sender));
        }
        drop(sender);
        let worked = ledger.take_in(&receiver);
        is_over.store(true, Ordering::Relaxed);
        // Threads that still send learn from this that they may stop.
        drop(receiver);
        worked
    });
    worked?;
    ledger.save()?;
    print!("{}", summary::all(&ledger.state));
    Ok(ledger.state.found() == 0)
}

/// Takes spans of seeds and runs each in a worker process, until none are left.
fn hand_out(flags: &Flags, next: &AtomicU64, is_over: &AtomicBool, sender: &Sender<Done>) {
    while !is_over.load(Ordering::Relaxed) {
        let seed = next.fetch_add(SEEDS_PER_WORKER, Ordering::Relaxed);
        if seed >= flags.end() {
            return;
        }
        let end = flags.end().min(seed.saturating_add(SEEDS_PER_WORKER));
        let worked = run_span(flags, Span { seed, kind: 0, end }, sender);
        if let Err(error) = worked {
            // If the receiver is gone, it has reported an error.
            let _ = sender.send(Err(error));
            return;
        }
    }
}

/// Runs a span. If a worker process ends early, its run is a finding, and another process continues after it.
fn run_span(flags: &Flags, mut span: Span, sender: &Sender<Done>) -> Result<(), String> {
    let kinds = flags.kinds();
    let mut runs = Vec::new();
    while !span.is_over() {
        let mut take = |ran: RunResult, span: &mut Span| {
            runs.push(ran);
            let seed = span.seed;
            span.advance(kinds.len());
            match span.seed == seed {
                true => Ok(()),
                false => sender.send(Ok((seed, std::mem::take(&mut runs)))),
            }
        };
        let mut child = start(flags, span)?;
        let lines = BufReader::new(child.stdout.take().expect("it is a pipe")).lines();
        for line in lines.map_while(Result::ok) {
            let Ok(ran) = serde_json::from_str(&line) else { break };
            if take(ran, &mut span).is_err() {
                // The boss has ended.
                let _ = child.kill();
                let _ = child.wait();
                return Ok(());
            }
        }
        let status = child.wait().map_err(|error| format!("a process is lost: {error}"))?;
        if !span.is_over() {
            let lost = RunResult::lost(span.seed, kinds[span.kind], how_it_ended(status));
            if take(lost, &mut span).is_err() {
                return Ok(());
            }
        }
    }
    Ok(())
}

fn start(flags: &Flags, span: Span) -> Result<Child, String> {
    let program = std::env::current_exe().map_err(|error| format!("no program: {error}"))?;
    let plan = flags.plan();
    let broken = flags.broken.map(|rule| format!("--broken={rule:?}"));
    Command::new(program)
        .arg(format!("--worker={span}"))
        .arg(format!("--events={}", plan.events))
        .arg(format!("--kinds={}", plan.kinds.join(",")))
        .args(broken)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("no process can be started: {error}"))
}

fn how_it_ended(status: ExitStatus) -> String {
    match status.code() {
        Some(code) if code == i32::from(ENDLESS) => "the run took minutes".to_owned(),
        _ => format!("the process ended with {status}"),
    }
}

/// Collects finished seeds, and adds them to the state in order.
struct SeedCollector<'f> {
    state: SoakState,
    path: Option<&'f Path>,
    end: u64,
    /// Seeds that finished before an earlier one.
    early: BTreeMap<u64, Vec<RunResult>>,
    started: Instant,
    seconds_before: f64,
}

impl<'f> SeedCollector<'f> {
    fn new(state: SoakState, flags: &'f Flags) -> Self {
        Self {
            seconds_before: state.seconds,
            state,
            path: flags.state.as_deref(),
            end: flags.end(),
            early: BTreeMap::new(),
            started: Instant::now(),
        }
    }

    fn take_in(&mut self, receiver: &Receiver<Done>) -> Result<(), String> {
        let (mut reported, mut saved) = (Instant::now(), Instant::now());
        let mut since = self.state.clone();
        loop {
            match receiver.recv_timeout(SAVE_EVERY) {
                Ok(done) => self.add(done?),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            if saved.elapsed() >= SAVE_EVERY {
                self.save()?;
                saved = Instant::now();
            }
            if reported.elapsed() >= REPORT_EVERY {
                let passed = reported.elapsed();
                println!("{}", summary::progress(&self.state, &since, passed, self.end));
                (since, reported) = (self.state.clone(), Instant::now());
            }
        }
    }

    fn add(&mut self, (seed, runs): (u64, Vec<RunResult>)) {
        for found in runs.iter().filter_map(|ran| ran.finding.as_ref()) {
            println!("{}", summary::finding(found, self.state.plan.events));
        }
        self.early.insert(seed, runs);
        while let Some(runs) = self.early.remove(&self.state.next) {
            self.state.add(runs);
        }
    }

    fn save(&mut self) -> Result<(), String> {
        self.state.seconds = self.seconds_before + self.started.elapsed().as_secs_f64();
        self.path.map_or(Ok(()), |path| self.state.save(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    /// The worker process here is the test's own program. It does not know the flags, and ends.
    #[test]
    fn a_run_whose_process_ends_is_found_and_the_next_goes_on() {
        let flags = Flags::parse_from(["soak", "--kinds=calm,masters"]);
        let (sender, receiver) = channel();
        run_span(&flags, Span { seed: 7, kind: 0, end: 9 }, &sender).expect("processes start");
        drop(sender);
        let done: Vec<_> = receiver.iter().map(|done| done.expect("runs were lost")).collect();
        let lost = |seed| {
            let text = "the process ended with exit status: 101";
            let kinds = [mooncake_sim::Kind::Calm, mooncake_sim::Kind::Masters];
            (seed, kinds.map(|kind| RunResult::lost(seed, kind, text.to_owned())).to_vec())
        };
        assert_eq!(done, [lost(7), lost(8)]);
    }
}
