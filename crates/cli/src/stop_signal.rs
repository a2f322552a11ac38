//! Waiting for SIGINT or SIGTERM.

use std::io;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Catches SIGINT and SIGTERM from its making on, so that one that comes during a start is not lost.
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
        Ok(StopSignal { signals: Signals::new([SIGINT, SIGTERM])? })
    }

    /// Waits for the first of them and gives its name.
    #[must_use]
    pub fn wait(&mut self) -> &'static str {
        match self.signals.forever().next() {
            Some(SIGINT) => "SIGINT",
            _ => "SIGTERM",
        }
    }

    /// Whether one of them has come since the last one was met. Does not wait.
    #[must_use]
    pub fn has_come_again(&mut self) -> bool {
        self.signals.pending().next().is_some()
    }
}
