//! A process that runs seeds and writes a line for each run.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mooncake_sim::{Detail, run};

use crate::flags::Flags;
use crate::ran::RunResult;
use crate::span::Span;

/// A run takes milliseconds. After this long it counts as endless, even on a busy machine.
const LONGEST: Duration = Duration::from_secs(300);

/// Exit status of a worker whose run did not end.
pub(crate) const ENDLESS: u8 = 9;

/// How many runs this process has finished.
static DONE: AtomicU64 = AtomicU64::new(0);

pub(crate) fn main(flags: &Flags, span: Span) -> ExitCode {
    // The run reports a panic as a finding, so the default message is not needed.
    std::panic::set_hook(Box::new(|_| {}));
    #[cfg(debug_assertions)]
    mooncake_types::mutation::break_rule(flags.broken);
    std::thread::spawn(watch);
    match run_all(flags, span) {
        Ok(()) => ExitCode::SUCCESS,
        // The boss has ended.
        Err(_) => ExitCode::FAILURE,
    }
}

fn run_all(flags: &Flags, mut span: Span) -> io::Result<()> {
    let kinds = flags.kinds();
    let mut out = io::stdout().lock();
    while !span.is_over() {
        let kind = kinds[span.kind];
        let report = run(span.seed, kind, flags.events(), Detail::Nothing);
        serde_json::to_writer(&mut out, &RunResult::new(span.seed, kind, report))?;
        out.write_all(b"\n")?;
        out.flush()?;
        DONE.fetch_add(1, Ordering::Relaxed);
        span.advance(kinds.len());
    }
    Ok(())
}

/// Ends the process if no run finishes for [`LONGEST`].
fn watch() {
    loop {
        let before = DONE.load(Ordering::Relaxed);
        std::thread::sleep(LONGEST);
        if DONE.load(Ordering::Relaxed) == before {
            std::process::exit(i32::from(ENDLESS));
        }
    }
}
