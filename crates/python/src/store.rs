//! The class `MooncakeDistributedStore`. Its methods lie in the modules named after what they do.

use std::ops::Deref;
use std::sync::{Arc, PoisonError, RwLock};

use mooncake_client::{ErrorCode, Store};
use pyo3::prelude::*;

use crate::engine::TransferEngineHandle;
use crate::log;
use crate::pool_client::PoolClient;

/// The result of every method while the store is not set up, or if an argument has a wrong value.
pub(crate) const INVALID_PARAMS: i32 = ErrorCode::InvalidParams.number();

/// A client of the pool. It puts and gets objects. It also lends memory to the pool, unless its segment is empty. Call
/// `setup` or `setup_dummy` first.
///
/// Unless a method says otherwise, it returns 0 or a count for success, and a negative code for a failure:
/// `error_name` and `error_advice` explain codes. While the store is not set up, these methods return -600. Methods
/// raise TypeError for an argument of a wrong type; other exceptions are named with the method that raises them.
///
/// Keys are str, or bytes of UTF-8, of 1 to 4096 bytes. Values are bytes-like objects. Addresses and sizes are
/// integers, in bytes. Many threads may use one store at once. A store that is not closed is closed when it is
/// collected.
#[pyclass(frozen, subclass, weakref, module = "mooncake.store")]
pub(crate) struct MooncakeDistributedStore {
    /// The client and the engine, between `setup` and `close`.
    open: RwLock<Option<Open>>,
}

struct Open {
    client: Arc<PoolClient>,
    /// The transfer engine that `setup` was given. It stays open at least as long as the store.
    _engine: Option<Py<TransferEngineHandle>>,
}

impl MooncakeDistributedStore {
    pub(crate) const fn unopened() -> Self {
        Self { open: RwLock::new(None) }
    }

    /// The open client; `None` if the store is not set up.
    pub(crate) fn store(&self) -> Option<Arc<PoolClient>> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.as_ref().map(|open| Arc::clone(&open.client))
    }

    /// The open client. Logs an error for `operation` if the store is not set up.
    pub(crate) fn store_for(&self, operation: &str) -> Option<Arc<PoolClient>> {
        let store = self.store();
        if store.is_none() {
            log::error(operation, "closed", format_args!("the store is not set up"));
        }
        store
    }

    /// The open store of this process. `None` for a dummy, which does not have `operation`.
    pub(crate) fn own_store_for(&self, operation: &str) -> Option<OwnStore> {
        self.store_for(operation).filter(|client| client.own().is_some()).map(OwnStore)
    }

    /// The open client, for an `operation` that copies through the local buffer. `None`, and an error in the log,
    /// without one.
    pub(crate) fn copying_store(&self, operation: &str) -> Option<Arc<PoolClient>> {
        let store = self.store_for(operation)?;
        if !store.allows_copies() {
            let text = format_args!("the store was set up with local_buffer_size=0");
            log::error(operation, "no buffer", text);
        }
        store.allows_copies().then_some(store)
    }

    /// Makes `client` the open client. Gives it back if another client is open.
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

    /// Takes the open client out. Later calls find the store not set up.
    pub(crate) fn take(&self) -> Option<Arc<PoolClient>> {
        let open = self.open.write().unwrap_or_else(PoisonError::into_inner).take();
        open.map(|open| open.client)
    }
}

/// An open client that is not a dummy.
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
        // Gives up the interpreter lock while the store leaves the pool, unless the interpreter is shutting down.
        if Python::try_attach(|py| py.detach(|| store.close())).is_none() {
            store.close();
        }
    }
}
