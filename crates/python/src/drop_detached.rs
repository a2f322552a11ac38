use pyo3::prelude::*;

/// Drops the last reference to a store or an engine, perhaps, which may wait for others. Gives up the interpreter lock
/// meanwhile, unless the interpreter is shutting down.
pub(crate) fn drop_detached<T: Send>(value: Option<T>) {
    if value.is_none() {
        return;
    }
    let mut value = value;
    if Python::try_attach(|py| py.detach(|| drop(value.take()))).is_none() {
        drop(value);
    }
}
