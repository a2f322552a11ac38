//! A process that runs seeds and writes a line for each run.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mooncake_sim::{Detail, run};

use crate::flags::Flags;
use crate::ran::Ran;
use crate::span::Span;

/// A run takes milliseconds; one that takes this long, on however busy a machine, does not end.
const LONGEST: Duration = Duration::from_secs(300);

/// How a process ends whose run did not.
pub(crate) const ENDLESS: u8 = 9;

/// Runs done by this process.
static DONE: AtomicU64 = AtomicU64::new(0);

pub(crate) fn main(flags: &Flags, span: Span) -> ExitCode {
    // A panic is a finding like others, and told with its seed.
    std::panic::set_hook(Box::new(|_| {}));
    #[cfg(debug_assertions)]
    mooncake_types::mutation::break_rule(flags.broken);
    std::thread::spawn(watch);
    match run_all(flags, span) {
        Ok(()) => ExitCode::SUCCESS,
        // Nobody listens any more.
        Err(_) => ExitCode::FAILURE,
    }
}

fn run_all(flags: &Flags, mut span: Span) -> io::Result<()> {
    let kinds = flags.kinds();
    let mut out = io::stdout().lock();
    while !span.is_over() {
        let kind = kinds[span.kind];
        let report = run(span.seed, kind, flags.events(), Detail::Nothing);
        serde_json::to_writer(&mut out, &Ran::new(span.seed, kind, report))?;
        out.write_all(b"\n")?;
        out.flush()?;
        DONE.fetch_add(1, Ordering::Relaxed);
        span.advance(kinds.len());
    }
    Ok(())
}

/// Ends the process if a run does not end.
fn watch() {
    loop {
        let before = DONE.load(Ordering::Relaxed);
        std::thread::sleep(LONGEST);
        if DONE.load(Ordering::Relaxed) == before {
            std::process::exit(i32::from(ENDLESS));
        }
    }
}
