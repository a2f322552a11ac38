use std::sync::Arc;

use mooncake_engine::Engine;
use pyo3::prelude::*;

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
        let_go(self.engine.take());
    }
}

/// Drops a reference to an engine, which may end it. Gives up the interpreter lock meanwhile, unless the interpreter
/// is shutting down.
pub(super) fn let_go(engine: Option<Arc<Engine>>) {
    let Some(engine) = engine else { return };
    let mut engine = Some(engine);
    if Python::try_attach(|py| py.detach(|| drop(engine.take()))).is_none() {
        drop(engine);
    }
}
