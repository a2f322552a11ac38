use std::sync::Arc;

use mooncake_engine::Engine;
use pyo3::prelude::*;

/// The engine itself, for `MooncakeDistributedStore.setup(engine=...)`. It lives as long as this object or the
/// `TransferEngine` that gave it.
#[pyclass(frozen, weakref, name = "InnerTransferEngine", module = "mooncake.engine")]
pub(crate) struct TransferEngineHandle {
    /// Always there until the drop.
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

/// Other threads may run while an engine ends, unless the interpreter is on its way out.
pub(super) fn let_go(engine: Option<Arc<Engine>>) {
    let Some(engine) = engine else { return };
    let mut engine = Some(engine);
    if Python::try_attach(|py| py.detach(|| drop(engine.take()))).is_none() {
        drop(engine);
    }
}
