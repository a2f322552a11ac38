//! Catches SIGINT, SIGTERM and SIGHUP, and waits for them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;

/// How long a process may take to end by itself after a second signal.
const PATIENCE: Duration = Duration::from_secs(1);

/// Catches SIGINT, SIGTERM and SIGHUP from its creation on, so that no signal during the start is lost.
#[derive(Debug)]
pub struct StopSignal {
    signals: Signals,
}

impl StopSignal {
    /// Starts to catch signals. A SIGHUP that the process ignores, as under `nohup`, stays ignored.
    ///
    /// # Errors
    /// If the system refuses the handlers.
    pub fn catch() -> io::Result<StopSignal> {
        Ok(StopSignal { signals: Signals::new(caught())? })
    }

    /// Starts to catch signals. While `starting` is true, a signal ends the process at once, with status 0. Without
    /// this, the first process of a container would ignore signals until it catches them.
    ///
    /// # Errors
    /// If the system refuses the handlers.
    pub fn catch_after_start(starting: &Arc<AtomicBool>) -> io::Result<StopSignal> {
        for signal in caught() {
            flag::register_conditional_shutdown(signal, 0, Arc::clone(starting))?;
        }
        Self::catch()
    }

    /// Waits for the first signal, and returns its name.
    #[must_use]
    pub fn wait(&mut self) -> &'static str {
        match self.signals.forever().next() {
            Some(SIGINT) => "SIGINT",
            Some(SIGHUP) => "SIGHUP",
            _ => "SIGTERM",
        }
    }

    /// Starts a thread that waits for a second signal. One second after it, the thread ends the process, whatever the
    /// process waits for: a silent master must not delay the end.
    #[must_use]
    pub fn watch(mut self) -> SecondSignal {
        let second = SecondSignal::default();
        let seen = second.clone();
        let wait = move || {
            let Some(signal) = self.signals.forever().next() else { return };
            seen.has_come.store(true, Ordering::Release);
            thread::sleep(PATIENCE);
            // The status that a shell reports for a process that a signal has ended.
            std::process::exit(128 + signal);
        };
        // Without the thread, the process still ends, but a second signal does not make that faster.
        let _ = thread::Builder::new().name("mooncake-stop".to_owned()).spawn(wait);
        second
    }
}

/// Whether a second signal has arrived.
#[derive(Clone, Debug, Default)]
pub struct SecondSignal {
    has_come: Arc<AtomicBool>,
}

impl SecondSignal {
    /// Whether it has arrived. Does not block.
    #[must_use]
    pub fn has_come(&self) -> bool {
        self.has_come.load(Ordering::Acquire)
    }
}

fn caught() -> Vec<i32> {
    let mut caught = vec![SIGINT, SIGTERM];
    if !ignores_hang_up(&std::fs::read_to_string("/proc/self/status").unwrap_or_default()) {
        caught.push(SIGHUP);
    }
    caught
}

/// Whether this process was started with SIGHUP ignored, as `nohup` does.
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
