//! Lists of keys and of other texts.

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::argument::Argument;
use crate::scalar::text;

/// What errors say that a text must be.
pub(crate) const TEXT: &str = "a str that UTF-8 can hold";

/// The items of a list of texts. This keeps the items alive even if the list changes, so that they can be read without
/// the interpreter lock.
pub(crate) struct Texts<'py> {
    argument: Argument,
    items: Bound<'py, PyTuple>,
}

impl<'py> Texts<'py> {
    /// The `items` that the caller gave as `argument`. Their types are not checked yet.
    pub(crate) const fn new(argument: Argument, items: Bound<'py, PyTuple>) -> Self {
        Self { argument, items }
    }

    /// The texts, in order, borrowed from the Python objects.
    ///
    /// # Errors
    /// `TypeError` that names the first item that is not a text.
    pub(crate) fn strs(&self) -> PyResult<Vec<&str>> {
        let mut strs = Vec::with_capacity(self.items.len());
        for (position, item) in self.items.iter_borrowed().enumerate() {
            match text(item) {
                Some(text) => strs.push(text),
                None => return Err(self.argument.wrong_item(TEXT, position, &item)),
            }
        }
        Ok(strs)
    }
}
