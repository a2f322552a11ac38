use mooncake_engine::Note;
use pyo3::prelude::*;

use super::TransferEngine;

/// What one engine tells another when bytes have been moved.
#[pyclass(module = "mooncake.engine")]
pub(crate) struct TransferNotify {
    /// What it is about.
    #[pyo3(get, set)]
    name: String,
    /// What it says.
    #[pyo3(get, set)]
    msg: String,
}

impl TransferNotify {
    pub(super) fn note(&self) -> Note {
        Note { name: self.name.clone(), text: self.msg.clone() }
    }
}

#[pymethods]
impl TransferNotify {
    #[new]
    #[pyo3(signature = (name=String::new(), msg=String::new()), text_signature = "(name='', msg='')")]
    fn new(name: String, msg: String) -> Self {
        Self { name, msg }
    }

    fn __repr__(&self) -> String {
        format!("<TransferNotify {:?}: {:?}>", self.name, self.msg)
    }
}

#[pymethods]
impl TransferEngine {
    /// The notifications that peers have sent since the last call, oldest first. Up to 65536 are kept; while so many wait,
    /// a transfer that would send another fails, so none that was acknowledged is lost.
    fn get_notifies(&self) -> Vec<TransferNotify> {
        let notes = self.engine().map_or_else(Vec::new, |engine| engine.take_notes());
        notes.into_iter().map(|Note { name, text }| TransferNotify { name, msg: text }).collect()
    }
}
