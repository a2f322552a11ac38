//! A counter that GPU streams wait for.

use std::time::Duration;

use mooncake_client::StreamCounter as Counter;
use pyo3::prelude::*;

/// A counter that GPU streams wait for, without a waiting thread of the processor. It starts at 0.
#[pyclass(frozen, name = "_StreamCounter", module = "mooncake._native")]
pub(crate) struct StreamCounter(Counter);

#[pymethods]
impl StreamCounter {
    /// A counter for streams of GPU number `device`. If the counter does not advance for `limit_ms` milliseconds,
    /// waiting streams go on without it.
    ///
    /// Returns None if the streams of this GPU cannot wait; the log says why.
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

    /// Makes a stream wait until the counter is at least `count`. `stream` is the handle that the driver gave it. The
    /// wait applies to work that is put on the stream after this call.
    ///
    /// Returns False if the stream does not wait: then the calling thread has to.
    fn wait(&self, py: Python<'_>, stream: usize, count: u64) -> bool {
        py.detach(|| self.0.wait(stream, count))
    }

    /// Raises the counter to `count`, unless it is higher. Returns False if a stream went on before without waiting to
    /// the end.
    fn advance(&self, py: Python<'_>, count: u64) -> bool {
        py.detach(|| self.0.advance(count))
    }
}
