//! The class that callers use. Its methods lie in the modules named after what they do.

use std::ops::Deref;
use std::sync::{Arc, PoisonError, RwLock};

use mooncake_client::{ErrorCode, Store};
use pyo3::prelude::*;

use crate::engine::TransferEngineHandle;
use crate::log;
use crate::pool_client::PoolClient;

/// What every method answers while the store is not set up, or when an argument has a wrong value.
pub(crate) const INVALID_PARAMS: i32 = ErrorCode::InvalidParams.number();

/// A client of the pool: it puts and gets objects, and lends memory to the pool if its segment is not empty.
///
/// Methods return numbers: zero or a count, or a negative error code. They raise nothing but TypeError, for arguments
/// of a wrong type. One store may be used from many threads at once. A store that is never closed is closed when it is
/// collected.
#[pyclass(frozen, subclass, weakref, module = "mooncake.store")]
pub(crate) struct MooncakeDistributedStore {
    /// What is open between `setup` and `close`.
    open: RwLock<Option<Open>>,
}

struct Open {
    client: Arc<PoolClient>,
    /// The transfer engine that the store was given. It stays open for as long as the store.
    _engine: Option<Py<TransferEngineHandle>>,
}

impl MooncakeDistributedStore {
    pub(crate) const fn unopened() -> Self {
        Self { open: RwLock::new(None) }
    }

    /// The open store, unless the store is not set up.
    pub(crate) fn store(&self) -> Option<Arc<PoolClient>> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.as_ref().map(|open| Arc::clone(&open.client))
    }

    /// The open store for `operation`, whose refusal is logged.
    pub(crate) fn store_for(&self, operation: &str) -> Option<Arc<PoolClient>> {
        let store = self.store();
        if store.is_none() {
            log::error(operation, "closed", format_args!("the store is not set up"));
        }
        store
    }

    /// The open store for `operation`, unless it is a dummy, which has no such operation.
    pub(crate) fn own_store_for(&self, operation: &str) -> Option<OwnStore> {
        self.store_for(operation).filter(|client| client.own().is_some()).map(OwnStore)
    }

    /// The open store for `operation`, which copies through the local buffer; none if there is no such buffer.
    pub(crate) fn copying_store(&self, operation: &str) -> Option<Arc<PoolClient>> {
        let store = self.store_for(operation)?;
        if !store.allows_copies() {
            let text = format_args!("the store was set up with local_buffer_size=0");
            log::error(operation, "no buffer", text);
        }
        store.allows_copies().then_some(store)
    }

    /// Makes `client` the open one, or gives it back if there is one.
    pub(crate) fn install(
        &self,
        client: PoolClient,
        engine: Option<Py<TransferEngineHandle>>,
    ) -> Result<(), PoolClient> {
        let mut slot = self.open.write().unwrap_or_else(PoisonError::into_inner);
        if slot.is_some() {
            return Err(client);
        }
        *slot = Some(Open { client: Arc::new(client), _engine: engine });
        Ok(())
    }

    /// Takes the open store out: later calls find the store not set up.
    pub(crate) fn take(&self) -> Option<Arc<PoolClient>> {
        let open = self.open.write().unwrap_or_else(PoisonError::into_inner).take();
        open.map(|open| open.client)
    }
}

/// An open store that is no dummy.
pub(crate) struct OwnStore(Arc<PoolClient>);

impl OwnStore {
    pub(crate) fn client(&self) -> &PoolClient {
        &self.0
    }
}

impl Deref for OwnStore {
    type Target = Store;

    fn deref(&self) -> &Store {
        self.0.own().expect("it was found to be no dummy")
    }
}

impl Drop for MooncakeDistributedStore {
    fn drop(&mut self) {
        let Some(store) = self.take() else { return };
        // Other threads may run while the store says goodbye, unless the interpreter is on its way out.
        if Python::try_attach(|py| py.detach(|| store.close())).is_none() {
            store.close();
        }
    }
}
