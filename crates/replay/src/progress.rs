//! Progress of a replay: a bar on a terminal, otherwise a line every few seconds.

use std::io::{IsTerminal, stderr};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::output::complain;

const LINE_INTERVAL: Duration = Duration::from_secs(5);
const TEMPLATE: &str = "{bar:32} {pos}/{len} requests  {msg}  {elapsed} (eta {eta})";

/// Progress counters, which clients update.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) next: AtomicUsize,
    pub(crate) requests: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) blocks: AtomicU64,
    pub(crate) hits: AtomicU64,
    pub(crate) wrong_bytes: AtomicU64,
}

pub(crate) enum Progress {
    Bar(ProgressBar),
    Lines { requests: u64, started: Instant, next: Instant },
}

impl Progress {
    pub(crate) fn start(requests: u64) -> Progress {
        let started = Instant::now();
        if !stderr().is_terminal() {
            return Progress::Lines { requests, started, next: started + LINE_INTERVAL };
        }
        let style = ProgressStyle::with_template(TEMPLATE).expect("the template is valid");
        Progress::Bar(ProgressBar::new(requests).with_style(style))
    }

    pub(crate) fn show(&mut self, counters: &Counters) {
        match self {
            Progress::Bar(bar) => {
                bar.set_message(summary(counters, bar.elapsed()));
                bar.set_position(counters.requests.load(Ordering::Relaxed));
            }
            Progress::Lines { requests, started, next } if Instant::now() >= *next => {
                let done = counters.requests.load(Ordering::Relaxed);
                let summary = summary(counters, started.elapsed());
                complain(format_args!("{done}/{requests} requests  {summary}\n"));
                *next += LINE_INTERVAL;
            }
            Progress::Lines { .. } => {}
        }
    }

    pub(crate) fn finish(self) {
        if let Progress::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

fn summary(counters: &Counters, elapsed: Duration) -> String {
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
    let hit_percent = 100.0 * read(&counters.hits) / read(&counters.blocks).max(1.0);
    let speed = read(&counters.bytes) / elapsed.as_secs_f64().max(0.001) / 1e9;
    let wrong = read(&counters.wrong_bytes);
    format!("{hit_percent:.1} % hits  {speed:.2} GB/s  wrong bytes {wrong}")
}
