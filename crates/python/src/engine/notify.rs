use mooncake_engine::Note;
use pyo3::prelude::*;

use super::TransferEngine;

/// A notification: one engine sends it to another after a transfer.
#[pyclass(module = "mooncake.engine")]
pub(crate) struct TransferNotify {
    /// The subject of the notification.
    #[pyo3(get, set)]
    name: String,
    /// The text of the notification.
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
    /// The notifications that peers have sent since the last call, oldest first; an empty list if the engine is not
    /// initialized.
    ///
    /// The engine keeps up to 65536 notifications, and 64 MiB of them. While it is full, transfers of peers that would
    /// send another one fail: no acknowledged notification is lost.
    fn get_notifies(&self) -> Vec<TransferNotify> {
        let notes = self.engine().map_or_else(Vec::new, |engine| engine.take_notes());
        notes.into_iter().map(|Note { name, text }| TransferNotify { name, msg: text }).collect()
    }
}
