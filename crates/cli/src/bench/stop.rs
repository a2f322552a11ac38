//! Ctrl-C: the first one ends the measurement, which then removes its objects; the second one ends the process.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::stop_signal::StopSignal;

/// The status after Ctrl-C, as shells have it.
const INTERRUPTED: i32 = 130;

/// Whether a signal has come.
pub(super) struct Stop(Arc<AtomicBool>);

impl Stop {
    pub(super) fn catch() -> io::Result<Self> {
        let mut signal = StopSignal::catch()?;
        let has_come = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&has_come);
        std::thread::Builder::new().name("mooncake-stop".to_owned()).spawn(move || {
            let _ = signal.wait();
            told.store(true, Ordering::Release);
            let _ = signal.wait();
            std::process::exit(INTERRUPTED);
        })?;
        Ok(Self(has_come))
    }

    pub(super) fn has_come(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
