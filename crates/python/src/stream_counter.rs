//! A count that streams of a GPU wait for.

use std::time::Duration;

use mooncake_client::StreamCounter as Counter;
use pyo3::prelude::*;

/// A count of things done that streams of a GPU wait for. It starts at zero.
#[pyclass(frozen, name = "_StreamCounter", module = "mooncake._native")]
pub(crate) struct StreamCounter(Counter);

#[pymethods]
impl StreamCounter {
    /// A count for streams of this GPU. They go on without it once it has not moved for `limit_ms` milliseconds.
    ///
    /// None if they cannot wait; the log says why.
    #[staticmethod]
    fn of_device(py: Python<'_>, device: u32, limit_ms: u64) -> Option<Self> {
        match py.detach(|| Counter::new(device, Duration::from_millis(limit_ms))) {
            Ok(counter) => Some(Self(counter)),
            Err(error) => {
                tracing::warn!(%error, device, "streams of a GPU cannot wait for loads: the processor does");
                None
            }
        }
    }

    /// Has a stream, given by its handle, wait until the count is `count`: with all that is put on it from now on.
    ///
    /// False if it does not: then the processor has to wait.
    fn wait(&self, py: Python<'_>, stream: usize, count: u64) -> bool {
        py.detach(|| self.0.wait(stream, count))
    }

    /// The count is at least `count` from now on. False if streams went on without it.
    fn advance(&self, py: Python<'_>, count: u64) -> bool {
        py.detach(|| self.0.advance(count))
    }
}
