//! Python arguments to Rust values, with errors that name the function and the argument.
//!
//! Callers of the C++ package look for the argument's name in the text of a `TypeError`, so every error here says
//! `put(): incompatible function arguments: 'key' must be a str, not NoneType`.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyBytes, PyDict, PyInt, PyList, PySet, PyString, PyTuple};

use crate::buffer::LentBuffer;
use crate::replicate_config::{ReplicateConfig, Rules};

const NUMBER: &str = "an integer from 0 to 2**64 - 1";
const TEXT: &str = "a str that UTF-8 can hold";
/// Longest piece of a value that an error shows, in characters.
const SHOWN_CHARS: usize = 60;

/// One argument of one function, or one attribute of a class, by name.
#[derive(Clone, Copy)]
pub(crate) enum Argument {
    /// An argument of a method.
    Of {
        /// The method's name.
        function: &'static str,
        /// The argument's name.
        name: &'static str,
    },
    /// An attribute of `ReplicateConfig`.
    Attribute(&'static str),
}

/// The argument `name` of `function`.
pub(crate) const fn argument(function: &'static str, name: &'static str) -> Argument {
    Argument::Of { function, name }
}

impl Argument {
    /// A key or another text, borrowed from the Python object. Bytes are taken for UTF-8.
    pub(crate) fn text(self, value: &Bound<'_, PyAny>) -> PyResult<PyBackedStr> {
        text(value).ok_or_else(|| self.wrong(TEXT, value))
    }

    /// A list of keys.
    pub(crate) fn texts(self, value: &Bound<'_, PyAny>) -> PyResult<Vec<PyBackedStr>> {
        self.list(value, "a list of str", |item| text(item).ok_or(TEXT))
    }

    /// An unsigned integer: an `int`, or anything with `__index__`, like NumPy's integers.
    pub(crate) fn number(self, value: &Bound<'_, PyAny>) -> PyResult<u64> {
        value.extract().map_err(|_| self.wrong(NUMBER, value))
    }

    /// A list of unsigned integers.
    pub(crate) fn numbers(self, value: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
        self.list(value, "a list of int", |item| item.extract().map_err(|_| NUMBER))
    }

    /// A list of lists of unsigned integers.
    pub(crate) fn number_lists(self, value: &Bound<'_, PyAny>) -> PyResult<Vec<Vec<u64>>> {
        const LISTS: &str = "a list of lists of int";
        let mut lists = Vec::with_capacity(expected_items(value));
        self.each(value, LISTS, |item| {
            lists.push(self.numbers(item)?);
            Ok(())
        })?;
        Ok(lists)
    }

    /// A list of lists of lists of unsigned integers.
    pub(crate) fn number_grids(self, value: &Bound<'_, PyAny>) -> PyResult<Vec<Vec<Vec<u64>>>> {
        let mut grids = Vec::with_capacity(expected_items(value));
        self.each(value, "a list of lists of lists of int", |item| {
            grids.push(self.number_lists(item)?);
            Ok(())
        })?;
        Ok(grids)
    }

    /// A list of lists of keys.
    pub(crate) fn text_lists(self, value: &Bound<'_, PyAny>) -> PyResult<Vec<Vec<PyBackedStr>>> {
        let mut lists = Vec::with_capacity(expected_items(value));
        self.each(value, "a list of lists of str", |item| {
            lists.push(self.texts(item)?);
            Ok(())
        })?;
        Ok(lists)
    }

    /// A flag: a bool, a number, or `None`, which means no. Texts and lists are none: their truth is their length.
    pub(crate) fn flag(self, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        if value.is_none() {
            return Ok(false);
        }
        let truth = match value.get_type().hasattr("__bool__")? {
            true => value.is_truthy().ok(),
            false => None,
        };
        truth.ok_or_else(|| self.wrong("a bool", value))
    }

    /// The memory of a bytes-like object, held until the result is dropped.
    pub(crate) fn buffer(self, value: &Bound<'_, PyAny>) -> PyResult<LentBuffer> {
        LentBuffer::of(value).ok_or_else(|| self.wrong("a contiguous bytes-like object", value))
    }

    /// A list of bytes-like objects.
    pub(crate) fn buffers(self, value: &Bound<'_, PyAny>) -> PyResult<Vec<LentBuffer>> {
        self.list(value, "a list of bytes-like objects", |item| {
            LentBuffer::of(item).ok_or("a contiguous bytes-like object")
        })
    }

    /// The rules of a `ReplicateConfig`, the default ones if it is absent or `None`.
    pub(crate) fn rules(self, value: Option<&Bound<'_, PyAny>>) -> PyResult<Rules> {
        let Some(value) = value.filter(|value| !value.is_none()) else {
            return Ok(Rules::default());
        };
        let config =
            value.cast::<ReplicateConfig>().map_err(|_| self.wrong("a ReplicateConfig", value))?;
        Ok(config.try_borrow()?.rules().clone())
    }

    /// The error for a `value` that is not `wanted`.
    pub(crate) fn wrong(self, wanted: &str, value: &Bound<'_, PyAny>) -> PyErr {
        self.refuse(&format!("must be {wanted}, not {}", described(value)))
    }

    fn refuse(self, reason: &str) -> PyErr {
        PyTypeError::new_err(match self {
            Argument::Of { function, name } => {
                format!("{function}(): incompatible function arguments: '{name}' {reason}")
            }
            Argument::Attribute(name) => format!("ReplicateConfig.{name} {reason}"),
        })
    }

    fn list<T>(
        self,
        value: &Bound<'_, PyAny>,
        wanted: &str,
        convert: impl Fn(&Bound<'_, PyAny>) -> Result<T, &'static str>,
    ) -> PyResult<Vec<T>> {
        let mut items = Vec::with_capacity(expected_items(value));
        self.each(value, wanted, |item| {
            items.push(convert(item).map_err(|wanted| {
                let (position, got) = (items.len(), described(item));
                self.refuse(&format!("must hold {wanted} at position {position}, not {got}"))
            })?);
            Ok(())
        })?;
        Ok(items)
    }

    fn each(
        self,
        value: &Bound<'_, PyAny>,
        wanted: &str,
        mut visit: impl FnMut(&Bound<'_, PyAny>) -> PyResult<()>,
    ) -> PyResult<()> {
        if let Ok(list) = value.cast::<PyList>() {
            return list.iter().try_for_each(|item| visit(&item));
        }
        if let Ok(tuple) = value.cast::<PyTuple>() {
            return tuple.iter().try_for_each(|item| visit(&item));
        }
        let unordered = value.is_instance_of::<PyDict>() || value.is_instance_of::<PySet>();
        if unordered || value.is_instance_of::<PyString>() || value.is_instance_of::<PyBytes>() {
            return Err(self.wrong(wanted, value));
        }
        let items = value.try_iter().map_err(|_| self.wrong(wanted, value))?;
        for item in items {
            visit(&item?)?;
        }
        Ok(())
    }
}

/// Room to make at once for the items of a sequence. Its own word is not trusted beyond a common batch.
fn expected_items(value: &Bound<'_, PyAny>) -> usize {
    value.len().unwrap_or(0).min(4096)
}

fn text(value: &Bound<'_, PyAny>) -> Option<PyBackedStr> {
    if let Ok(text) = value.cast::<PyString>() {
        return PyBackedStr::try_from(text.clone()).ok();
    }
    let utf8 = std::str::from_utf8(value.cast::<PyBytes>().ok()?.as_bytes()).ok()?;
    PyBackedStr::try_from(PyString::new(value.py(), utf8)).ok()
}

/// What an error says about `value`: a number or a text itself, the type of anything else.
fn described(value: &Bound<'_, PyAny>) -> String {
    let shown = match value.is_instance_of::<PyInt>() || value.is_instance_of::<PyString>() {
        true => value.repr(),
        false => value.get_type().name(),
    };
    let shown = shown.map_or_else(|_| "another type".to_owned(), |shown| shown.to_string());
    match shown.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}...", &shown[..end]),
        None => shown,
    }
}
