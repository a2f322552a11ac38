//! Converts Python arguments to Rust values. Errors name the function and the argument.
//!
//! Callers of the C++ package search the text of a `TypeError` for the argument's name. Every error here therefore
//! says `put(): incompatible function arguments: 'key' must be a str, not NoneType`.

use mooncake_binding::ReplicateSettings;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyInt, PyList, PySet, PyString, PyTuple};

use crate::buffer::LentBuffer;
use crate::replicate_config::ReplicateConfig;
use crate::rows::Rows;
use crate::scalar;
use crate::texts::{TEXT, Texts};

const NUMBER: &str = "an integer from 0 to 2**64 - 1";
/// The longest text of a value that an error shows, in characters.
const SHOWN_CHARS: usize = 60;

/// One argument of one function, or one attribute of `ReplicateConfig`.
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
    /// A key or another text, borrowed from the Python object: a `str`, or `bytes` of UTF-8.
    pub(crate) fn text<'a>(self, value: &'a Bound<'_, PyAny>) -> PyResult<&'a str> {
        scalar::text(value.as_borrowed()).ok_or_else(|| self.wrong(TEXT, value))
    }

    /// A list of keys. Read it with [`Texts::strs`], which checks the items of a list or a tuple.
    pub(crate) fn texts<'py>(self, value: &Bound<'py, PyAny>) -> PyResult<Texts<'py>> {
        if let Some(items) = items(value) {
            return Ok(Texts::new(self, items));
        }
        let items = self.list(value, "a list of str", |item| {
            scalar::text(item.as_borrowed()).map(|_| item.clone()).ok_or(TEXT)
        })?;
        Ok(Texts::new(self, PyTuple::new(value.py(), items)?))
    }

    /// An unsigned integer: an `int`, or anything with `__index__`, like NumPy's integers.
    pub(crate) fn number(self, value: &Bound<'_, PyAny>) -> PyResult<u64> {
        scalar::number(value.as_borrowed()).ok_or_else(|| self.wrong(NUMBER, value))
    }

    /// A list of unsigned integers.
    pub(crate) fn numbers(self, value: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
        let mut numbers = Vec::with_capacity(expected_items(value));
        self.append_numbers(value, &mut numbers)?;
        Ok(numbers)
    }

    /// A list of lists of unsigned integers.
    pub(crate) fn number_lists(self, value: &Bound<'_, PyAny>) -> PyResult<Rows> {
        let mut rows = Rows::with_capacity(expected_items(value));
        self.each(value, "a list of lists of int", |item| {
            rows.push_with(|numbers| self.append_numbers(item, numbers))
        })?;
        Ok(rows)
    }

    /// A list of lists of lists of unsigned integers.
    pub(crate) fn number_grids(self, value: &Bound<'_, PyAny>) -> PyResult<Vec<Rows>> {
        let mut grids = Vec::with_capacity(expected_items(value));
        self.each(value, "a list of lists of lists of int", |item| {
            grids.push(self.number_lists(item)?);
            Ok(())
        })?;
        Ok(grids)
    }

    /// A list of lists of keys. Checks that every item is a text.
    pub(crate) fn text_lists<'py>(self, value: &Bound<'py, PyAny>) -> PyResult<Vec<Texts<'py>>> {
        let mut lists = Vec::with_capacity(expected_items(value));
        self.each(value, "a list of lists of str", |item| {
            let texts = self.texts(item)?;
            texts.strs()?;
            lists.push(texts);
            Ok(())
        })?;
        Ok(lists)
    }

    /// A flag: a bool, a number, or `None`, which means false. Texts and lists are refused: even "false" would count
    /// as true.
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

    /// The memory of a bytes-like object. Python keeps it in place until the result is dropped.
    pub(crate) fn buffer(self, value: &Bound<'_, PyAny>) -> PyResult<LentBuffer> {
        LentBuffer::of(value).ok_or_else(|| self.wrong("a contiguous bytes-like object", value))
    }

    /// A list of bytes-like objects.
    pub(crate) fn buffers(self, value: &Bound<'_, PyAny>) -> PyResult<Vec<LentBuffer>> {
        self.list(value, "a list of bytes-like objects", |item| {
            LentBuffer::of(item).ok_or("a contiguous bytes-like object")
        })
    }

    /// The settings of a `ReplicateConfig`. Without a value, or for `None`, the default settings.
    pub(crate) fn settings(self, value: Option<&Bound<'_, PyAny>>) -> PyResult<ReplicateSettings> {
        let Some(value) = value.filter(|value| !value.is_none()) else {
            return Ok(ReplicateSettings::default());
        };
        let config =
            value.cast::<ReplicateConfig>().map_err(|_| self.wrong("a ReplicateConfig", value))?;
        Ok(config.try_borrow()?.settings().clone())
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

    /// The error for a value of the right type that the function cannot use.
    pub(crate) fn bad_value(self, reason: &str) -> PyErr {
        PyValueError::new_err(match self {
            Argument::Of { function, name } => format!("{function}(): '{name}' {reason}"),
            Argument::Attribute(name) => format!("ReplicateConfig.{name} {reason}"),
        })
    }

    /// The error for an item of a list that is not `wanted`.
    pub(crate) fn wrong_item(
        self,
        wanted: &str,
        position: usize,
        item: &Bound<'_, PyAny>,
    ) -> PyErr {
        self.refuse(&format!("must hold {wanted} at position {position}, not {}", described(item)))
    }

    fn append_numbers(self, value: &Bound<'_, PyAny>, numbers: &mut Vec<u64>) -> PyResult<()> {
        self.append(value, "a list of int", numbers, |item| {
            scalar::number(item.as_borrowed()).ok_or(NUMBER)
        })
    }

    fn list<'py, T>(
        self,
        value: &Bound<'py, PyAny>,
        wanted: &str,
        convert: impl Fn(&Bound<'py, PyAny>) -> Result<T, &'static str>,
    ) -> PyResult<Vec<T>> {
        let mut items = Vec::with_capacity(expected_items(value));
        self.append(value, wanted, &mut items, convert)?;
        Ok(items)
    }

    fn append<'py, T>(
        self,
        value: &Bound<'py, PyAny>,
        wanted: &str,
        items: &mut Vec<T>,
        convert: impl Fn(&Bound<'py, PyAny>) -> Result<T, &'static str>,
    ) -> PyResult<()> {
        let before = items.len();
        self.each(value, wanted, |item| {
            let converted = convert(item);
            items.push(
                converted.map_err(|wanted| self.wrong_item(wanted, items.len() - before, item))?,
            );
            Ok(())
        })
    }

    fn each<'py>(
        self,
        value: &Bound<'py, PyAny>,
        wanted: &str,
        mut visit: impl FnMut(&Bound<'py, PyAny>) -> PyResult<()>,
    ) -> PyResult<()> {
        if let Some(items) = items(value) {
            return items.iter_borrowed().try_for_each(|item| visit(&item));
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

/// A copy of the items of a list or a tuple: Python code that runs during the conversion may change the list.
fn items<'py>(value: &Bound<'py, PyAny>) -> Option<Bound<'py, PyTuple>> {
    match value.cast::<PyList>() {
        Ok(list) => Some(list.to_tuple()),
        Err(_) => value.cast::<PyTuple>().ok().cloned(),
    }
}

/// The number of items to allocate room for at first: the length that the sequence reports, at most 4096. A sequence
/// may report any length.
fn expected_items(value: &Bound<'_, PyAny>) -> usize {
    value.len().unwrap_or(0).min(4096)
}

/// Describes `value` for an error: a number or a text by its value, anything else by its type.
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
