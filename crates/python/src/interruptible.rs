//! Opening a store so that Ctrl-C ends it at once: Python looks at signals only between its own instructions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::Builder;
use std::time::Duration;

use mooncake_client::OpenError;
use pyo3::prelude::*;

use crate::pool_client::PoolClient;
use crate::setup_error::SetupError;

/// Time between two looks at whether there is a signal.
const LOOK: Duration = Duration::from_millis(20);

/// Whether a store is still wanted.
pub(crate) type Wanted = Box<dyn Fn() -> bool>;

/// Opens a store on a thread of its own. Meanwhile this one, which must not hold the interpreter, has Python handle its
/// signals. What a handler raises ends the opening, and a store that is open by then is closed again.
pub(crate) fn open(
    open: impl FnOnce(Wanted) -> Result<PoolClient, OpenError> + Send + 'static,
) -> Result<PoolClient, SetupError> {
    let is_wanted = Arc::new(AtomicBool::new(true));
    let seen = Arc::clone(&is_wanted);
    let (sender, opened) = channel();
    let open = move || {
        let store = open(Box::new(move || seen.load(Ordering::Relaxed)));
        // Nobody takes it if the caller was interrupted: then it is dropped, and closed by that.
        let _ = sender.send(store);
    };
    let failed = |reason| OpenError::Thread { thread: "setup", reason };
    let thread = Builder::new().name("mooncake-setup".to_owned()).spawn(open);
    thread.map_err(|error| SetupError::Open(failed(error.to_string())))?;
    loop {
        match opened.recv_timeout(LOOK) {
            Ok(store) => return store.map_err(SetupError::Open),
            Err(RecvTimeoutError::Timeout) => check_signals().map_err(|raised| {
                is_wanted.store(false, Ordering::Relaxed);
                SetupError::Interrupted(raised)
            })?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(SetupError::Open(failed("it panicked".to_owned())));
            }
        }
    }
}

/// Runs the handlers of signals that came. Without an interpreter there are none.
fn check_signals() -> PyResult<()> {
    let checked = Python::try_attach(|py| -> PyResult<()> {
        py.check_signals()?;
        Ok(())
    });
    checked.unwrap_or(Ok(()))
}
