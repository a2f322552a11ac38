//! The methods that ask about peers and about this host.

use pyo3::prelude::*;

use super::code;
use super::{TransferEngine, code::FAILED};
use crate::argument::argument;

#[pymethods]
impl TransferEngine {
    /// The address of the peer's oldest registered memory range. `segment_name` is the name of the peer.
    ///
    /// Returns 0 if the peer has no registered memory, cannot be found, or does not answer.
    fn get_first_buffer_address(
        &self,
        py: Python<'_>,
        segment_name: &Bound<'_, PyAny>,
    ) -> PyResult<u64> {
        const NAME: &str = "get_first_buffer_address";
        let peer = argument(NAME, "segment_name").text(segment_name)?;
        let Some(engine) = self.engine_for(NAME) else { return Ok(0) };
        Ok(py.detach(|| engine.first_buffer(peer)).unwrap_or_else(|error| {
            tracing::info!("{NAME}: {error}");
            0
        }))
    }

    /// Checks that the peer answers.
    ///
    /// Returns 0 if it answers as an engine; -200 if its name is unknown or malformed; -102 if it does not answer; -1
    /// if this engine is not initialized.
    fn send_probe(&self, py: Python<'_>, peer_server_name: &Bound<'_, PyAny>) -> PyResult<i32> {
        let peer = argument("send_probe", "peer_server_name").text(peer_server_name)?;
        let Some(engine) = self.engine_for("send_probe") else { return Ok(FAILED) };
        Ok(code::of("send_probe", py.detach(|| engine.probe(peer))))
    }

    /// The NUMA nodes of this host as a JSON text. Each node has two lists: RDMA devices close to it, and more distant
    /// ones. If `device_name` holds names, separated by commas, only those devices are listed. This build uses none of
    /// them.
    #[pyo3(signature = (device_name=None))]
    fn get_local_topology(
        &self,
        py: Python<'_>,
        device_name: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<String> {
        let filter = match device_name {
            Some(names) => argument("get_local_topology", "device_name").text(names)?.to_string(),
            None => String::new(),
        };
        Ok(py.detach(|| mooncake_engine::local_topology(&filter)))
    }

    /// Does nothing: this build has no EFA transport. Returns 0.
    fn warmup_efa_segment(&self, segment_name: &Bound<'_, PyAny>) -> PyResult<i32> {
        argument("warmup_efa_segment", "segment_name").text(segment_name)?;
        Ok(0)
    }
}
