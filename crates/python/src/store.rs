//! The class `MooncakeDistributedStore`. Its methods lie in the modules named after what they do.

use std::ops::Deref;
use std::sync::Arc;

use mooncake_binding::{ClientSlot, PoolClient};
use mooncake_client::Store;
use pyo3::prelude::*;

use crate::engine::TransferEngineHandle;
use crate::trace_caller;

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
    /// The client between `setup` and `close`, with the transfer engine that `setup` was given.
    pub(crate) slot: ClientSlot<Option<Py<TransferEngineHandle>>>,
}

impl MooncakeDistributedStore {
    pub(crate) const fn unopened() -> Self {
        Self { slot: ClientSlot::empty() }
    }

    /// The open client; `None` if the store is not set up.
    pub(crate) fn store(&self) -> Option<Arc<PoolClient>> {
        self.slot.client()
    }

    /// The open client. Logs an error for `operation` if the store is not set up.
    pub(crate) fn store_for(&self, operation: &str) -> Option<Arc<PoolClient>> {
        trace_caller::note();
        self.slot.client_for(operation)
    }

    /// The open store of this process. `None` for a dummy, which does not have `operation`.
    pub(crate) fn own_store_for(&self, operation: &str) -> Option<OwnStore> {
        self.store_for(operation).filter(|client| client.own().is_some()).map(OwnStore)
    }

    /// The open client, for an `operation` that copies through the local buffer. `None`, and an error in the log,
    /// without one.
    pub(crate) fn copying_store(&self, operation: &str) -> Option<Arc<PoolClient>> {
        trace_caller::note();
        self.slot.copying_client(operation)
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
        let Some(store) = self.slot.take() else { return };
        // Gives up the interpreter lock while the store leaves the pool, unless the interpreter is shutting down.
        if Python::try_attach(|py| py.detach(|| store.close())).is_none() {
            store.close();
        }
    }
}
