//! Lists of keys, and of other texts.

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::argument::Argument;
use crate::scalar::text;

/// What a text must be, for errors.
pub(crate) const TEXT: &str = "a str that UTF-8 can hold";

/// The items of a list of texts. They stay while this lives, whatever becomes of the list: they can be read without the
/// interpreter lock.
pub(crate) struct Texts<'py> {
    argument: Argument,
    items: Bound<'py, PyTuple>,
}

impl<'py> Texts<'py> {
    /// The `items` that were given as `argument`, of any type.
    pub(crate) const fn new(argument: Argument, items: Bound<'py, PyTuple>) -> Self {
        Self { argument, items }
    }

    /// The texts, in order, borrowed from the Python objects.
    ///
    /// # Errors
    /// `TypeError` that names the first item that is no text.
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
