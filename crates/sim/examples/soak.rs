//! Many runs of the simulation, on all processors: `make soak SEEDS=100000`.
//!
//! Arguments: how many seeds, the first of them (0 by default), and how many events each run has before its faults end
//! (500 by default). Each seed is run once for each kind. Prints what was found and the rate; fails if anything was.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mooncake_sim::{Kind, run};

/// How often the rate is printed.
const REPORT_EVERY: Duration = Duration::from_secs(10);

struct Work {
    next: AtomicU64,
    end: u64,
    events: u64,
    done: AtomicU64,
    events_done: AtomicU64,
    failed: AtomicU64,
}

impl Work {
    fn go_on(&self) {
        loop {
            let seed = self.next.fetch_add(1, Ordering::Relaxed);
            if seed >= self.end {
                return;
            }
            for kind in Kind::ALL {
                let report = run(seed, kind, self.events, false);
                self.events_done.fetch_add(report.events.1, Ordering::Relaxed);
                if let Some(violation) = report.violation {
                    self.failed.fetch_add(1, Ordering::Relaxed);
                    println!("seed {seed}, {kind:?}, events {:?}: {violation:?}", report.events);
                }
            }
            self.done.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn report(&self, started: Instant) {
        let (done, seconds) = (self.done.load(Ordering::Relaxed), started.elapsed().as_secs_f64());
        let events = self.events_done.load(Ordering::Relaxed) as f64;
        let failed = self.failed.load(Ordering::Relaxed);
        println!(
            "{done} seeds in {seconds:.0} s: {:.0} runs/s, {:.0} events/s, {failed} runs found something",
            done as f64 * Kind::ALL.len() as f64 / seconds,
            events / seconds
        );
    }
}

fn argument(place: usize, default: u64) -> Result<u64, String> {
    match std::env::args().nth(place) {
        None => Ok(default),
        Some(text) => text.parse().map_err(|_| format!("{text:?} is not a number")),
    }
}

fn work() -> Result<Work, String> {
    let (count, first, events) = (argument(1, 1_000)?, argument(2, 0)?, argument(3, 500)?);
    Ok(Work {
        next: AtomicU64::new(first),
        end: first.saturating_add(count),
        events,
        done: AtomicU64::new(0),
        events_done: AtomicU64::new(0),
        failed: AtomicU64::new(0),
    })
}

fn main() -> ExitCode {
    let work = match work() {
        Ok(work) => work,
        Err(message) => {
            eprintln!("{message}; arguments: seeds, first seed, events");
            return ExitCode::from(2);
        }
    };
    // A panic is a finding like others, and printed with its seed.
    std::panic::set_hook(Box::new(|_| {}));
    let started = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| work.go_on())).collect();
        let mut reported = Instant::now();
        while !workers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            std::thread::sleep(Duration::from_millis(50));
            if reported.elapsed() >= REPORT_EVERY {
                reported = Instant::now();
                work.report(started);
            }
        }
    });
    work.report(started);
    match work.failed.load(Ordering::Relaxed) {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
