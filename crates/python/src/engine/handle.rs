use std::sync::Arc;

use mooncake_engine::Engine;
use pyo3::prelude::*;

use crate::drop_detached::drop_detached;

/// An opaque handle of an engine, for `MooncakeDistributedStore.setup(engine=...)`. The engine stays open while this
/// handle or its `TransferEngine` lives.
#[pyclass(frozen, weakref, name = "InnerTransferEngine", module = "mooncake.engine")]
pub(crate) struct TransferEngineHandle {
    /// `None` only during the drop.
    engine: Option<Arc<Engine>>,
}

impl TransferEngineHandle {
    pub(super) fn new(engine: Arc<Engine>) -> Self {
        Self { engine: Some(engine) }
    }
}

#[pymethods]
impl TransferEngineHandle {
    fn __repr__(&self) -> String {
        let name = self.engine.as_ref().map_or("closed", |engine| engine.name());
        format!("<InnerTransferEngine {name}>")
    }
}

impl Drop for TransferEngineHandle {
    fn drop(&mut self) {
        drop_detached(self.engine.take());
    }
}
