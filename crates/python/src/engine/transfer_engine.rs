//! The class `TransferEngine`: how it starts, how it ends, and what it is called.

use std::sync::{Arc, PoisonError, RwLock};

use mooncake_binding::warn_of_protocol;
use mooncake_engine::{Engine, EngineConfig, Metadata, OpenError};
use pyo3::prelude::*;

use super::code::FAILED;
use super::handle::TransferEngineHandle;
use crate::argument::argument;
use crate::drop_detached::drop_detached;

/// The type of a metadata server whose address has no scheme.
const DEFAULT_METADATA: &str = "etcd";

/// Moves bytes between registered memory of processes, by address.
///
/// Unless a method says otherwise, it returns 0 for success or a negative number for a failure, and the log says why.
/// Methods raise TypeError for an argument of a wrong type; other exceptions are named with the method that raises
/// them. Many threads may use one engine at once. The engine ends when this object and all its handles are collected.
#[pyclass(frozen, subclass, weakref, module = "mooncake.engine")]
pub(crate) struct TransferEngine {
    /// `None` until `initialize` has succeeded.
    open: RwLock<Option<Arc<Engine>>>,
}

impl TransferEngine {
    pub(super) fn engine(&self) -> Option<Arc<Engine>> {
        self.open.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The engine. Logs an error for `function` if it is not initialized.
    pub(super) fn engine_for(&self, function: &str) -> Option<Arc<Engine>> {
        let engine = self.engine();
        if engine.is_none() {
            tracing::error!("{function}: the engine is not initialized");
        }
        engine
    }

    fn open(&self, wish: &InitializeArguments) -> Result<(), OpenError> {
        let config = EngineConfig {
            local_hostname: wish.local_hostname.to_string(),
            metadata: Metadata::parse(wish.metadata_server, wish.metadata_type)?,
            ..EngineConfig::from_env()?
        };
        let config = config.with_protocol(wish.protocol, wish.device_name)?;
        if config.fabric.is_none() {
            warn_of_protocol("initialize", wish.protocol);
        }
        let engine = Arc::new(Engine::open(config)?);
        let mut slot = self.open.write().unwrap_or_else(PoisonError::into_inner);
        if slot.is_some() {
            // Another thread has initialized it meanwhile. The engine opened here is dropped.
            return Err(OpenError::System { reason: "it is initialized already".to_owned() });
        }
        *slot = Some(engine);
        Ok(())
    }

    fn initialize_as(&self, py: Python<'_>, wish: &InitializeArguments) -> i32 {
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
struct InitializeArguments<'a> {
    local_hostname: &'a str,
    metadata_server: &'a str,
    protocol: &'a str,
    device_name: &'a str,
    metadata_type: &'a str,
}

/// The arguments that `initialize` and `initialize_ext` share: hostname, metadata server, protocol and devices.
fn wish<'a>(
    function: &'static str,
    arguments: [&'a Bound<'_, PyAny>; 4],
) -> PyResult<InitializeArguments<'a>> {
    let [local_hostname, metadata_server, protocol, device_name] = arguments;
    let device_name = match device_name.is_none() {
        true => "",
        false => argument(function, "device_name").text(device_name)?,
    };
    Ok(InitializeArguments {
        local_hostname: argument(function, "local_hostname").text(local_hostname)?,
        metadata_server: argument(function, "metadata_server").text(metadata_server)?,
        protocol: argument(function, "protocol").text(protocol)?,
        device_name,
        metadata_type: DEFAULT_METADATA,
    })
}

#[pymethods]
impl TransferEngine {
    #[new]
    fn new() -> Self {
        Self { open: RwLock::new(None) }
    }

    /// Starts the engine. It listens on a free port of the host that `local_hostname` names.
    ///
    /// With `metadata_server="P2PHANDSHAKE"`, peers name this engine `host:port`, with the port of `get_rpc_port`.
    /// With `"http://host:port/metadata"`, peers name it exactly as `local_hostname`. `protocol` is "tcp". "rdma" and
    /// "efa" are served over libfabric where `MOONCAKE_TRANSPORTS` or `MOONCAKE_FABRIC_PROVIDER` name it, with the device
    /// `device_name`, or any if it is empty or a list; else by TCP, with a warning.
    ///
    /// Returns 0, or -1 in these cases; the log says which:
    ///
    /// - this build lacks the protocol or the type of metadata server;
    /// - the host has no such name or no free port;
    /// - the metadata server does not answer;
    /// - the engine is initialized already.
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

    /// Starts the engine, as `initialize`. If `metadata_server` has no scheme, `metadata_type` is its scheme, like
    /// "http".
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
        let wish = InitializeArguments { metadata_type, ..wish("initialize_ext", arguments)? };
        Ok(self.initialize_as(py, &wish))
    }

    /// The TCP port that the engine listens on; 0 while it is not initialized.
    fn get_rpc_port(&self) -> u16 {
        self.engine().map_or(0, |engine| engine.port())
    }

    /// An opaque handle for `MooncakeDistributedStore.setup(engine=...)`; None while the engine is not initialized.
    fn get_engine(&self) -> Option<TransferEngineHandle> {
        self.engine().map(TransferEngineHandle::new)
    }

    /// A number that identifies this engine in this process; 0 while it is not initialized. It is not a pointer that C
    /// or C++ libraries can use.
    fn get_engine_ptr(&self) -> usize {
        self.engine().map_or(0, |engine| Arc::as_ptr(&engine).addr())
    }
}

impl Drop for TransferEngine {
    fn drop(&mut self) {
        drop_detached(self.open.write().unwrap_or_else(PoisonError::into_inner).take());
    }
}
