//! The class that callers use. Its methods lie in the modules named after what they do.

use std::sync::{Arc, PoisonError, RwLock};

use mooncake_client::{Door, ErrorCode};
use pyo3::prelude::*;

use crate::engine::TransferEngineHandle;
use crate::log;

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
    door: Arc<Door>,
    /// The transfer engine that the store was given. It stays open for as long as the store.
    _engine: Option<Py<TransferEngineHandle>>,
}

impl MooncakeDistributedStore {
    pub(crate) const fn unopened() -> Self {
        Self { open: RwLock::new(None) }
    }

    /// The open store, unless the store is not set up.
    pub(crate) fn store(&self) -> Option<Arc<Door>> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.as_ref().map(|open| Arc::clone(&open.door))
    }

    /// The open store for `operation`, whose refusal is logged.
    pub(crate) fn store_for(&self, operation: &str) -> Option<Arc<Door>> {
        let store = self.store();
        if store.is_none() {
            log::error(operation, "closed", format_args!("the store is not set up"));
        }
        store
    }

    /// The open store for `operation`, which copies through the local buffer; none if there is no such buffer.
    pub(crate) fn copying_store(&self, operation: &str) -> Option<Arc<Door>> {
        let store = self.store_for(operation)?;
        if !store.allows_copies() {
            let text = format_args!("the store was set up with local_buffer_size=0");
            log::error(operation, "no buffer", text);
        }
        store.allows_copies().then_some(store)
    }

    /// Makes `door` the open one, or gives it back if there is one.
    pub(crate) fn install(
        &self,
        door: Door,
        engine: Option<Py<TransferEngineHandle>>,
    ) -> Result<(), Door> {
        let mut slot = self.open.write().unwrap_or_else(PoisonError::into_inner);
        if slot.is_some() {
            return Err(door);
        }
        *slot = Some(Open { door: Arc::new(door), _engine: engine });
        Ok(())
    }

    /// Takes the open store out: later calls find the store not set up.
    pub(crate) fn take(&self) -> Option<Arc<Door>> {
        let open = self.open.write().unwrap_or_else(PoisonError::into_inner).take();
        open.map(|open| open.door)
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
