//! `setup`, `drain` and `close`, and what callers ask about the store itself.

use std::time::Duration;

use mooncake_binding::{INVALID_PARAMS, PoolClient, Setup, SetupError};
use mooncake_client::{ErrorCode, Health, StoreConfig, Tenant};
use mooncake_dummy::{DummyConfig, DummyStore};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::argument::argument;
use crate::engine::TransferEngineHandle;
use crate::interruptible::{self, Unopened};
use crate::setup::from_call;
use crate::store::MooncakeDistributedStore;

/// The default of `mooncake_client`, too.
const DRAIN_SECONDS: u64 = 20;

#[pymethods]
impl MooncakeDistributedStore {
    /// Ignores all arguments, so that constructors of subclasses may take any. `__init__` takes none.
    #[new]
    #[pyo3(signature = (*_args, **_kwargs), text_signature = "()")]
    fn new(_args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, PyDict>>) -> Self {
        Self::unopened()
    }

    fn __init__(&self) {}

    /// Opens the store. It connects to a master, and lends `global_segment_size` bytes of this process to its pool.
    ///
    /// With `master_server_addr='local://'` the pool has no master and lies in this process. With 'local:///folder'
    /// all processes that name the folder share one pool. With `enable_embedded_master`, or if the environment variable
    /// `MOONCAKE_ENABLE_EMBEDDED_MASTER` is true, any other address is taken for 'local://', with a line in the log.
    ///
    /// 1. setup(local_hostname: str, metadata_server: str, global_segment_size: int, local_buffer_size: int,
    ///    protocol: str, rdma_devices: str, master_server_addr: str, engine: object = None,
    ///    enable_ssd_offload: bool = False, ssd_offload_path: str = '', tenant_id: str = 'default',
    ///    enable_client_http_server: bool = False, client_http_port: int = 9300,
    ///    enable_embedded_master: bool = False) -> int
    /// 2. setup(config: dict) -> int
    ///
    /// Sizes are in bytes: 0, or at least 1024. With `global_segment_size=0` the store lends no memory. With
    /// `local_buffer_size=0`, calls that copy (`put`, `get`, `get_buffer`) are refused. If `local_hostname` has no
    /// port, the store takes a free port from 12300 to 14300. In a dict, every value may be a str, and sizes may be
    /// written like "16MB".
    ///
    /// A dict may have further keys: `segment_path`, `segment_reset`, `verify_reads`, `domain`, `local_hot_cache_size`,
    /// `drain_timeout_sec`, `slow_call_ms`, and for TLS `tls_cert`, `tls_key`, `tls_ca`, `tls_server_name` and `tls_verify_clients`. Unknown keys are ignored, with a warning in the log.
    ///
    /// The store does not contact `metadata_server`. If it is not 'P2PHANDSHAKE', and the port of `local_hostname` is
    /// taken, the store takes a free port. `rdma_devices` names the network cards that the protocol 'rdma' may use, with
    /// commas between them. With `enable_ssd_offload` the store lends the disk folder `ssd_offload_path`.
    ///
    /// Stores with different `tenant_id` do not see each other's keys. A tenant has a name of 1 to 128 bytes that does not
    /// begin with '_' and has no control characters. Its keys may be so much shorter than 4096 bytes, and two bytes more.
    ///
    /// `engine` is a handle from `TransferEngine.get_engine()`, or None. The engine stays open at least as long as the
    /// store.
    ///
    /// With `enable_client_http_server` the store serves `/health`, `/metrics` and `/metrics/summary` over HTTP, on
    /// `client_http_port` of all addresses of the host; 0 is a free port, which `get_client_http_port` returns.
    ///
    /// `protocol` is 'tcp', or 'rpc_only' for a client that moves no bytes. 'rdma' and 'efa' are served by TCP, with a
    /// warning. Other protocols are refused, unless the environment variable `MC_FORCE_TCP` is set: then TCP serves
    /// all of them.
    ///
    /// Returns 0; -600 if an argument or an environment variable has a wrong value, or the store is set up already; -1
    /// if the master cannot be reached, a port is taken, or another reason in the log. Raises TypeError for a missing
    /// or unknown argument.
    #[pyo3(
        signature = (*args, **kwargs),
        text_signature = "($self, local_hostname, metadata_server, global_segment_size, local_buffer_size, protocol, \
            rdma_devices, master_server_addr, engine=None, enable_ssd_offload=False, ssd_offload_path='', \
            tenant_id='default', enable_client_http_server=False, client_http_port=9300, enable_embedded_master=False)"
    )]
    fn setup(
        &self,
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<i32> {
        let call = from_call(args, kwargs)?;
        self.finish_setup(py, "setup", || {
            let (setup, engine) = call?;
            open(&setup, engine)
        })
    }

    /// Sets this store up as `store` for another tenant: see `for_tenant`. Returns 0; -600 if the tenant cannot have that
    /// name, if `store` is not set up or is a dummy, or if this store is set up already.
    fn _set_up_for_tenant(
        &self,
        py: Python<'_>,
        store: &Bound<'_, Self>,
        tenant_id: &Bound<'_, PyAny>,
    ) -> PyResult<i32> {
        const NAME: &str = "for_tenant";
        let name = argument(NAME, "tenant_id").text(tenant_id)?;
        let Some(store) = store.get().own_store_for(NAME) else { return Ok(INVALID_PARAMS) };
        self.finish_setup(py, NAME, || {
            let tenant = Tenant::named(name)
                .map_err(|wrong| SetupError::wrong("tenant_id", format!("{name:?}: {wrong}")))?;
            Ok((PoolClient::from(store.for_tenant(tenant)), None))
        })
    }

    /// The port of the HTTP server of this store; 0 if it has none.
    fn get_client_http_port(&self) -> u16 {
        let client = self.store();
        let address = client.as_ref().and_then(|client| client.own()?.http_address());
        address.map_or(0, |address| address.port())
    }

    /// Opens the store as a dummy: a `mooncake_client` process of this host, at `server_address` (`host:port`), does
    /// its work.
    ///
    /// Memory of `MooncakeHostMemAllocator` and of `alloc_from_mem_pool` is shared with that process, and moves
    /// without a copy. Other memory passes through a shared pool of `mem_pool_size + local_buffer_size` bytes. Calls
    /// that need a store in this process (sessions, tasks, segments, `prefetch`, `drain`) are refused with -600.
    ///
    /// Returns 0; -600 if an argument has a wrong value or the store is set up already; -1 if the process cannot be
    /// reached.
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
            open_dummy(DummyConfig {
                mem_pool_bytes,
                local_buffer_bytes,
                server_address,
                auth_token,
                ..DummyConfig::default()
            })
        })
    }

    /// Opens a store on this host for a trial: master at 127.0.0.1:50051, local buffer of 1 GiB, segment of
    /// `mount_segment_size` bytes. `device_name` is as `rdma_devices` of `setup`.
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
        let devices = argument("init_all", "device_name").text(device_name)?;
        let size =
            mount_segment_size.map(|size| argument("init_all", "mount_segment_size").number(size));
        let setup = Setup::for_trials(protocol, size.transpose()?);
        let setup = setup.with_ignored(&[("rdma_devices", devices)]);
        self.finish_setup(py, "init_all", || open(&setup, None))
    }

    /// Moves the objects in this store's segments to other nodes, for at most `timeout_sec` seconds; call it before
    /// `close`. Meanwhile the segments take no new objects. A `close` by another thread ends the call.
    ///
    /// Returns 0 if no object is left here; otherwise a negative code:
    ///
    /// - -200 if the other nodes have no room for all objects;
    /// - -901 if the time was too short;
    /// - -600 if the store is not set up or is a dummy;
    /// - another code that the master returned.
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

    /// Leaves the pool. The objects in this store's segments are lost, unless other nodes took them over before: see
    /// `drain`, and `drain_timeout_sec` of `setup`. A segment with a file (`segment_path` of `setup`) keeps its
    /// objects for the next process that opens the file. A closed store may be set up again.
    ///
    /// Returns 0, also if the store was not set up.
    fn close(&self, py: Python<'_>) -> i32 {
        if let Some(store) = self.slot.take() {
            py.detach(move || {
                store.close();
                // Unmapping the store's memory takes time too, so it also happens without the interpreter lock.
                drop(store);
            });
        }
        0
    }

    /// The `host:port` of this store, and by default the name of its segment. Empty while the store is not set up; for
    /// a dummy, the name of the host process.
    fn get_hostname(&self) -> String {
        self.store().map(|store| store.hostname().to_owned()).unwrap_or_default()
    }

    /// The condition of the store. Returns
    ///
    /// - 0 if it works;
    /// - 1 if it is not set up;
    /// - 2 if the master did not answer the last ping;
    /// - 3 if a thread of the process has panicked: replace the process.
    fn health_check(&self, py: Python<'_>) -> i32 {
        let Some(store) = self.store() else { return 1 };
        match py.detach(|| store.health()) {
            Health::Ok => 0,
            Health::MasterUnreachable => 2,
            Health::Broken => 3,
        }
    }
}

type Opened = (PoolClient, Option<Py<TransferEngineHandle>>);

impl MooncakeDistributedStore {
    fn finish_setup(
        &self,
        py: Python<'_>,
        operation: &str,
        open: impl FnOnce() -> Result<Opened, Unopened> + Send,
    ) -> PyResult<i32> {
        py.detach(|| match self.slot.set_up(open) {
            Ok(()) => Ok(0),
            Err(Unopened::Interrupted(raised)) => Err(raised),
            Err(Unopened::Refused(error)) => Ok(error.report(operation)),
        })
    }
}

fn open(setup: &Setup, engine: Option<Py<TransferEngineHandle>>) -> Result<Opened, Unopened> {
    let opening = setup.opening()?;
    let client = interruptible::open(move |is_wanted| opening.open_while(is_wanted))?;
    Ok((client, engine))
}

fn open_dummy(config: DummyConfig) -> Result<Opened, Unopened> {
    let dummy = DummyStore::open(config).map_err(SetupError::Dummy)?;
    Ok((PoolClient::from(dummy), None))
}
