//! Opens a store so that Ctrl-C ends the attempt at once. Python runs signal handlers only between its own
//! instructions, so the opening runs on another thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::Builder;
use std::time::Duration;

use mooncake_binding::{PoolClient, SetupError};
use mooncake_client::OpenError;
use pyo3::prelude::*;

/// The interval between two checks for a signal.
const SIGNAL_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Why a store was not opened.
pub(crate) enum Unopened {
    /// The arguments, the environment or the pool did not allow it.
    Refused(SetupError),
    /// A signal arrived during the opening, and its handler raised this.
    Interrupted(PyErr),
}

impl From<SetupError> for Unopened {
    fn from(refused: SetupError) -> Self {
        Self::Refused(refused)
    }
}

/// Returns false once the caller no longer wants the store.
pub(crate) type Wanted = Box<dyn Fn() -> bool>;

/// Opens a store on a new thread. The calling thread, which must not hold the interpreter lock, runs Python's signal
/// handlers meanwhile. If a handler raises, the opening ends; if the store is open by then, it is closed again.
pub(crate) fn open(
    open: impl FnOnce(Wanted) -> Result<PoolClient, OpenError> + Send + 'static,
) -> Result<PoolClient, Unopened> {
    let is_wanted = Arc::new(AtomicBool::new(true));
    let seen = Arc::clone(&is_wanted);
    let (sender, opened) = channel();
    let open = move || {
        let store = open(Box::new(move || seen.load(Ordering::Relaxed)));
        // If a signal interrupted the caller, the receiver is gone. Then the store is dropped here, which closes it.
        let _ = sender.send(store);
    };
    let failed = |reason| OpenError::Thread { thread: "setup", reason };
    let thread = Builder::new().name("mooncake-setup".to_owned()).spawn(open);
    thread.map_err(|error| SetupError::Open(failed(error.to_string())))?;
    loop {
        match opened.recv_timeout(SIGNAL_CHECK_INTERVAL) {
            Ok(store) => return store.map_err(SetupError::Open).map_err(Unopened::Refused),
            Err(RecvTimeoutError::Timeout) => check_signals().map_err(|raised| {
                is_wanted.store(false, Ordering::Relaxed);
                Unopened::Interrupted(raised)
            })?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(SetupError::Open(failed("it panicked".to_owned())).into());
            }
        }
    }
}

/// Runs the handlers of signals that have arrived. Does nothing while the interpreter is shutting down.
fn check_signals() -> PyResult<()> {
    let checked = Python::try_attach(|py| -> PyResult<()> {
        py.check_signals()?;
        Ok(())
    });
    checked.unwrap_or(Ok(()))
}
