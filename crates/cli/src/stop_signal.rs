//! Waiting for SIGINT, SIGTERM or SIGHUP.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// How long a process may take to end by itself once it was told twice.
const PATIENCE: Duration = Duration::from_secs(1);

/// Catches SIGINT, SIGTERM and SIGHUP from its making on, so that one that comes during a start is not lost.
#[derive(Debug)]
pub struct StopSignal {
    signals: Signals,
}

impl StopSignal {
    /// Starts catching.
    ///
    /// # Errors
    /// The system refuses the handlers.
    pub fn catch() -> io::Result<StopSignal> {
        let signals = Signals::new([SIGINT, SIGTERM])?;
        if !ignores_hang_up(&std::fs::read_to_string("/proc/self/status").unwrap_or_default()) {
            signals.add_signal(SIGHUP)?;
        }
        Ok(StopSignal { signals })
    }

    /// Waits for the first of them and gives its name.
    #[must_use]
    pub fn wait(&mut self) -> &'static str {
        match self.signals.forever().next() {
            Some(SIGINT) => "SIGINT",
            Some(SIGHUP) => "SIGHUP",
            _ => "SIGTERM",
        }
    }

    /// Has a thread wait for another one. A process that has not ended by itself a second after that is ended, whatever it
    /// waits for: a master that says nothing must not keep who wants it to end.
    #[must_use]
    pub fn watch(mut self) -> SecondSignal {
        let second = SecondSignal::default();
        let seen = second.clone();
        let wait = move || {
            let Some(signal) = self.signals.forever().next() else { return };
            seen.has_come.store(true, Ordering::Release);
            thread::sleep(PATIENCE);
            // As a shell reports a process that a signal has ended.
            std::process::exit(128 + signal);
        };
        // Without the thread, a process that is told twice takes as long as one that is told once.
        let _ = thread::Builder::new().name("mooncake-stop".to_owned()).spawn(wait);
        second
    }
}

/// Whether a process was told a second time to stop.
#[derive(Clone, Debug, Default)]
pub struct SecondSignal {
    has_come: Arc<AtomicBool>,
}

impl SecondSignal {
    /// Does not wait.
    #[must_use]
    pub fn has_come(&self) -> bool {
        self.has_come.load(Ordering::Acquire)
    }
}

/// Whether this process was started so that the end of its terminal does not matter to it, as `nohup` does.
fn ignores_hang_up(status: &str) -> bool {
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & 1 << (SIGHUP - 1) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hang_up_that_nohup_has_ignored_stays_ignored() {
        for (status, expected) in [
            ("SigBlk:\t0000000000000001\nSigIgn:\t0000000000000001\n", true),
            ("SigIgn:\t0000000000001003\n", true),
            ("SigIgn:\t0000000000001002\n", false),
            ("SigIgn:\tmany\n", false),
            ("", false),
        ] {
            assert_eq!(ignores_hang_up(status), expected, "{status}");
        }
    }
}
