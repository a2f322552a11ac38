//! `setup`, `close`, and what a caller asks of the store itself.

use mooncake_client::{Health, Store};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::setup::{Setup, SetupError};
use crate::store::{INVALID_PARAMS, MooncakeDistributedStore};

#[pymethods]
impl MooncakeDistributedStore {
    #[new]
    fn new() -> Self {
        Self::unopened()
    }

    /// Connects to a master, and lends `global_segment_size` bytes to its pool.
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
    /// Returns 0; -600 if an argument has a wrong value; -1 if the master cannot be reached.
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
        if self.store().is_some() {
            tracing::error!("setup: the store is set up already; close it first");
            return Ok(INVALID_PARAMS);
        }
        Ok(py.detach(|| match setup.and_then(|setup| self.open(&setup)) {
            Ok(()) => 0,
            Err(error) => {
                tracing::error!("setup: {error}");
                error.code().number()
            }
        }))
    }

    /// Leaves the pool: the own segment is unmounted and what it held is gone. A closed store may be set up again.
    ///
    /// Returns 0, also if the store was not set up.
    fn close(&self, py: Python<'_>) -> i32 {
        if let Some(store) = self.take() {
            py.detach(|| store.close());
        }
        0
    }

    /// `host:port` of this store, which is also its segment's default name; empty while the store is not set up.
    fn get_hostname(&self) -> String {
        self.store().map(|store| store.hostname().to_owned()).unwrap_or_default()
    }

    /// 0 if all is well, 1 if the store is not set up, 2 if the master did not answer the last ping.
    fn health_check(&self, py: Python<'_>) -> i32 {
        let Some(store) = self.store() else { return 1 };
        match py.detach(|| store.health()) {
            Health::Ok => 0,
            Health::MasterUnreachable => 2,
        }
    }
}

impl MooncakeDistributedStore {
    fn open(&self, setup: &Setup) -> Result<(), SetupError> {
        let store = Store::open(setup.store_config()?).map_err(SetupError::Open)?;
        self.install(store).map_err(|late| {
            late.close();
            SetupError::SetUpAlready
        })
    }
}
