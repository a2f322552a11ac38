//! The class that callers use: its beginning and its end.

use std::sync::{Arc, PoisonError, RwLock};

use mooncake_engine::{Engine, EngineConfig, Metadata, OpenError};
use pyo3::prelude::*;

use super::code::FAILED;
use super::handle::{TransferEngineHandle, let_go};
use crate::argument::argument;
use crate::protocol::warn_of_protocol;

/// The metadata server that an address without a scheme means.
const DEFAULT_METADATA: &str = "etcd";

/// Moves bytes between registered memory of processes, by address.
///
/// Methods return numbers: zero, or a negative one on failure, whose reason is logged. They raise nothing but TypeError,
/// for arguments of a wrong type, where their documentation does not say more. One engine may be used from many
/// threads at once. It ends when it is collected.
#[pyclass(frozen, subclass, weakref, module = "mooncake.engine")]
pub(crate) struct TransferEngine {
    /// The engine, once `initialize` has succeeded.
    open: RwLock<Option<Arc<Engine>>>,
}

impl TransferEngine {
    pub(super) fn engine(&self) -> Option<Arc<Engine>> {
        self.open.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The engine for `function`, whose refusal is logged.
    pub(super) fn engine_for(&self, function: &str) -> Option<Arc<Engine>> {
        let engine = self.engine();
        if engine.is_none() {
            tracing::error!("{function}: the engine is not initialized");
        }
        engine
    }

    fn open(&self, wish: &Wish) -> Result<(), OpenError> {
        let config = EngineConfig {
            local_hostname: wish.local_hostname.to_string(),
            metadata: Metadata::parse(wish.metadata_server, wish.metadata_type)?,
            ..EngineConfig::from_env()?
        };
        config.check_protocol(wish.protocol)?;
        warn_of_protocol("initialize", wish.protocol);
        let engine = Arc::new(Engine::open(config)?);
        let mut slot = self.open.write().unwrap_or_else(PoisonError::into_inner);
        if slot.is_some() {
            // Another thread was first; ours ends here.
            return Err(OpenError::System { reason: "it is initialized already".to_owned() });
        }
        *slot = Some(engine);
        Ok(())
    }

    fn initialize_as(&self, py: Python<'_>, wish: &Wish) -> i32 {
        if self.engine().is_some() {
            tracing::error!("initialize: the engine is initialized already");
            return FAILED;
        }
        match py.detach(|| self.open(wish)) {
            Ok(()) => 0,
            Err(error) => {
                tracing::error!("initialize: {error}");
                FAILED
            }
        }
    }
}

/// The arguments of `initialize`.
struct Wish<'a> {
    local_hostname: &'a str,
    metadata_server: &'a str,
    protocol: &'a str,
    metadata_type: &'a str,
}

/// The arguments that both forms have: hostname, metadata server, protocol and devices.
fn wish<'a>(function: &'static str, arguments: [&'a Bound<'_, PyAny>; 4]) -> PyResult<Wish<'a>> {
    let [local_hostname, metadata_server, protocol, device_name] = arguments;
    if !device_name.is_none() {
        argument(function, "device_name").text(device_name)?;
    }
    Ok(Wish {
        local_hostname: argument(function, "local_hostname").text(local_hostname)?,
        metadata_server: argument(function, "metadata_server").text(metadata_server)?,
        protocol: argument(function, "protocol").text(protocol)?,
        metadata_type: DEFAULT_METADATA,
    })
}

#[pymethods]
impl TransferEngine {
    #[new]
    fn new() -> Self {
        Self { open: RwLock::new(None) }
    }

    /// Starts the engine: it listens on a free port of the host that `local_hostname` names.
    ///
    /// With `metadata_server="P2PHANDSHAKE"` peers call this engine `host:port` with the port of `get_rpc_port`. With
    /// `"http://host:port/metadata"` its name is `local_hostname` as it is. `protocol` is "tcp"; "rdma" and "efa" are
    /// taken for it. `device_name` is accepted and
    /// changes nothing.
    ///
    /// Returns 0, or -1: the protocol or the metadata server is not in this build, the host has no such name or no
    /// free port, the metadata server does not answer, or the engine is initialized already.
    fn initialize(
        &self,
        py: Python<'_>,
        local_hostname: &Bound<'_, PyAny>,
        metadata_server: &Bound<'_, PyAny>,
        protocol: &Bound<'_, PyAny>,
        device_name: &Bound<'_, PyAny>,
    ) -> PyResult<i32> {
        let arguments = [local_hostname, metadata_server, protocol, device_name];
        Ok(self.initialize_as(py, &wish("initialize", arguments)?))
    }

    /// As `initialize`; `metadata_type` is the scheme of a metadata server that is given without one, like "http".
    #[expect(clippy::too_many_arguments, reason = "they are the method's in Python")]
    fn initialize_ext(
        &self,
        py: Python<'_>,
        local_hostname: &Bound<'_, PyAny>,
        metadata_server: &Bound<'_, PyAny>,
        protocol: &Bound<'_, PyAny>,
        device_name: &Bound<'_, PyAny>,
        metadata_type: &Bound<'_, PyAny>,
    ) -> PyResult<i32> {
        let arguments = [local_hostname, metadata_server, protocol, device_name];
        let metadata_type = argument("initialize_ext", "metadata_type").text(metadata_type)?;
        let wish = Wish { metadata_type, ..wish("initialize_ext", arguments)? };
        Ok(self.initialize_as(py, &wish))
    }

    /// The port that the engine listens on; 0 while it is not initialized.
    fn get_rpc_port(&self) -> u16 {
        self.engine().map_or(0, |engine| engine.port())
    }

    /// The engine itself, for `MooncakeDistributedStore.setup(engine=...)`; None while it is not initialized.
    fn get_engine(&self) -> Option<TransferEngineHandle> {
        self.engine().map(TransferEngineHandle::new)
    }

    /// A number that no other engine of this process has; 0 while it is not initialized. It is no address that other
    /// libraries could use.
    fn get_engine_ptr(&self) -> usize {
        self.engine().map_or(0, |engine| Arc::as_ptr(&engine).addr())
    }
}

impl Drop for TransferEngine {
    fn drop(&mut self) {
        let_go(self.open.write().unwrap_or_else(PoisonError::into_inner).take());
    }
}
