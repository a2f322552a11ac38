//! `setup`, `close`, and what a caller asks of the store itself.

use std::time::Duration;

use mooncake_client::{ErrorCode, Health, Store, StoreConfig};
use mooncake_dummy::{DummyConfig, DummyStore};
use mooncake_host_pool::HostPool;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::argument::argument;
use crate::engine::TransferEngineHandle;
use crate::interruptible;
use crate::pool_client::PoolClient;
use crate::setup::Setup;
use crate::setup_error::SetupError;
use crate::store::{INVALID_PARAMS, MooncakeDistributedStore};

/// As long as `mooncake_client` takes by default.
const DRAIN_SECONDS: u64 = 20;

#[pymethods]
impl MooncakeDistributedStore {
    /// Takes whatever the constructor of a subclass takes; `__init__` refuses arguments that are left for it.
    #[new]
    #[pyo3(signature = (*_args, **_kwargs), text_signature = "()")]
    fn new(_args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, PyDict>>) -> Self {
        Self::unopened()
    }

    fn __init__(&self) {}

    /// Connects to a master, and lends `global_segment_size` bytes to its pool. Or has a pool without one, if
    /// `master_server_addr` is 'local://'; with 'local:///folder' all processes that name the folder share it.
    ///
    /// 1. setup(local_hostname: str, metadata_server: str, global_segment_size: int, local_buffer_size: int,
    ///    protocol: str, rdma_devices: str, master_server_addr: str, engine: object = None,
    ///    enable_ssd_offload: bool = False, ssd_offload_path: str = '', tenant_id: str = 'default',
    ///    enable_client_http_server: bool = False, client_http_port: int = 9300) -> int
    /// 2. setup(config: dict) -> int
    ///
    /// Sizes are in bytes: zero, or at least 1024. `global_segment_size=0` makes a pure client,
    /// `local_buffer_size=0` a pure server, whose copying calls are refused. A `local_hostname` without a port takes a
    /// free one from 12300 to 14300. In a dict every value may be a text, and sizes may be written like "16MB".
    ///
    /// `engine` is what `TransferEngine.get_engine()` returns; the engine stays open for as long as the store.
    ///
    /// With `enable_client_http_server` the store serves `/health`, `/metrics` and `/metrics/summary` over HTTP on
    /// `client_http_port` of all addresses.
    ///
    /// `protocol` is 'tcp', or 'rpc_only' for a client that moves no bytes. 'rdma' and 'efa' are taken for 'tcp', with a
    /// warning. Other ones are refused, unless the environment variable `MC_FORCE_TCP` is set: then all are taken for it.
    ///
    /// Returns 0; -600 if an argument has a wrong value; -1 if the master cannot be reached or a port is taken.
    #[pyo3(
        signature = (*args, **kwargs),
        text_signature = "($self, local_hostname, metadata_server, global_segment_size, local_buffer_size, protocol, \
            rdma_devices, master_server_addr, engine=None, enable_ssd_offload=False, ssd_offload_path='', \
            tenant_id='default', enable_client_http_server=False, client_http_port=9300)"
    )]
    fn setup(
        &self,
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<i32> {
        let setup = Setup::from_call(args, kwargs)?;
        self.finish_setup(py, "setup", || self.open(setup?))
    }

    /// Connects to a `mooncake_client` process of this host, which does the work for this one: `server_address` is its
    /// `host:port`. Memory of `MooncakeHostMemAllocator` and of `alloc_from_mem_pool` is shared with it and moves without
    /// a copy; other memory passes through a pool of `mem_pool_size` plus `local_buffer_size` bytes. Calls that need a
    /// store of their own (sessions, tasks, segments) are refused with -600.
    ///
    /// Returns 0; -600 if an argument has a wrong value; -1 if the process cannot be reached.
    fn setup_dummy(
        &self,
        py: Python<'_>,
        mem_pool_size: &Bound<'_, PyAny>,
        local_buffer_size: &Bound<'_, PyAny>,
        server_address: &Bound<'_, PyAny>,
    ) -> PyResult<i32> {
        const NAME: &str = "setup_dummy";
        let mem_pool_bytes = argument(NAME, "mem_pool_size").number(mem_pool_size)?;
        let local_buffer_bytes = argument(NAME, "local_buffer_size").number(local_buffer_size)?;
        let server_address = argument(NAME, "server_address").text(server_address)?.to_string();
        self.finish_setup(py, NAME, || {
            let auth_token = StoreConfig::from_env().map_err(SetupError::Environment)?.auth_token;
            self.open_dummy(DummyConfig {
                mem_pool_bytes,
                local_buffer_bytes,
                server_address,
                auth_token,
                ..DummyConfig::default()
            })
        })
    }

    /// Sets up a store on this host, with a master at 127.0.0.1:50051 and a local buffer of 1 GiB: `setup` for trials.
    ///
    /// Returns as `setup`.
    #[pyo3(signature = (protocol, device_name, mount_segment_size=None))]
    #[pyo3(text_signature = "($self, protocol, device_name, mount_segment_size=16777216)")]
    fn init_all(
        &self,
        py: Python<'_>,
        protocol: &Bound<'_, PyAny>,
        device_name: &Bound<'_, PyAny>,
        mount_segment_size: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<i32> {
        let protocol = argument("init_all", "protocol").text(protocol)?;
        argument("init_all", "device_name").text(device_name)?;
        let size =
            mount_segment_size.map(|size| argument("init_all", "mount_segment_size").number(size));
        let setup = Setup::for_trials(protocol, size.transpose()?);
        self.finish_setup(py, "init_all", || self.open(setup))
    }

    /// Has other nodes take over what lies in this store's segments, before it is closed; takes `timeout_sec` at most.
    /// Nothing new is put here meanwhile. `close` by another thread ends it.
    ///
    /// Returns 0 if nothing is left here; -200 if the others have no room for all of it, -901 if the time was too short;
    /// -600 if the store is not set up, or is a dummy; otherwise what the master answers.
    #[pyo3(signature = (timeout_sec=None))]
    #[pyo3(text_signature = "($self, timeout_sec=20)")]
    fn drain(&self, py: Python<'_>, timeout_sec: Option<&Bound<'_, PyAny>>) -> PyResult<i32> {
        const NAME: &str = "drain";
        let seconds = timeout_sec.map(|it| argument(NAME, "timeout_sec").number(it)).transpose()?;
        let Some(store) = self.own_store_for(NAME) else { return Ok(INVALID_PARAMS) };
        let patience = Duration::from_secs(seconds.unwrap_or(DRAIN_SECONDS));
        let handed_over = py.detach(|| store.hand_over(patience, || true));
        Ok(handed_over.map_or_else(ErrorCode::number, |()| 0))
    }

    /// Leaves the pool: the own segment is unmounted and what it held is gone, as far as other nodes did not take it over
    /// before (`drain`, or `drain_timeout_sec` of `setup`). A closed store may be set up again.
    ///
    /// Returns 0, also if the store was not set up.
    fn close(&self, py: Python<'_>) -> i32 {
        if let Some(store) = self.take() {
            py.detach(move || {
                store.close();
                // Unmapping what the store had takes a while too.
                drop(store);
            });
        }
        0
    }

    /// `host:port` of this store, which is also its segment's default name; empty while the store is not set up.
    fn get_hostname(&self) -> String {
        self.store().map(|store| store.hostname().to_owned()).unwrap_or_default()
    }

    /// 0 if all is well, 1 if the store is not set up, 2 if the master did not answer the last ping, 3 if a thread of the
    /// store panicked: the process should be replaced.
    fn health_check(&self, py: Python<'_>) -> i32 {
        let Some(store) = self.store() else { return 1 };
        match py.detach(|| store.health()) {
            Health::Ok => 0,
            Health::MasterUnreachable => 2,
            Health::Broken => 3,
        }
    }
}

impl MooncakeDistributedStore {
    fn finish_setup(
        &self,
        py: Python<'_>,
        operation: &str,
        open: impl FnOnce() -> Result<(), SetupError> + Send,
    ) -> PyResult<i32> {
        if self.store().is_some() {
            tracing::error!("{operation}: the store is set up already; close it first");
            return Ok(INVALID_PARAMS);
        }
        py.detach(|| match open() {
            Ok(()) => Ok(0),
            Err(SetupError::Interrupted(raised)) => Err(raised),
            Err(error) => {
                tracing::error!("{operation}: {error}");
                Ok(error.code().number())
            }
        })
    }

    fn open(&self, setup: Setup) -> Result<(), SetupError> {
        let (config, address) = (setup.store_config()?, setup.host_pool()?);
        let client = interruptible::open(move |is_wanted| match address {
            None => Store::open_while(config, is_wanted).map(PoolClient::from),
            Some(at) => HostPool::open_while(&at, config, is_wanted).map(PoolClient::from),
        });
        self.install_client(client?, setup.engine)
    }

    fn open_dummy(&self, config: DummyConfig) -> Result<(), SetupError> {
        let dummy = DummyStore::open(config).map_err(SetupError::Dummy)?;
        self.install_client(PoolClient::from(dummy), None)
    }

    fn install_client(
        &self,
        client: PoolClient,
        engine: Option<Py<TransferEngineHandle>>,
    ) -> Result<(), SetupError> {
        self.install(client, engine).map_err(|late| {
            late.close();
            SetupError::SetUpAlready
        })
    }
}
