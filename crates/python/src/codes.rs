//! Lists of numbers as results.

use mooncake_binding::{INVALID_PARAMS, log};
use pyo3::prelude::*;
use pyo3::types::PyList;

/// The result of a batch: a Python list of one number per item.
///
/// In most batches all items have the same result. The list is filled with the first number, which costs next to
/// nothing per item; then only the items that differ are set.
pub(crate) struct Codes<T>(Vec<T>);

impl<T: Clone> Codes<T> {
    /// The same number for each of `count` items.
    pub(crate) fn same(code: T, count: usize) -> Self {
        Self(vec![code; count])
    }
}

impl<T> From<Vec<T>> for Codes<T> {
    fn from(codes: Vec<T>) -> Self {
        Self(codes)
    }
}

/// If the lists differ in length: `InvalidParams` for every key, and a warning in the log.
pub(crate) fn lengths_differ<T: From<i32> + Clone>(
    operation: &str,
    keys: usize,
    addresses: usize,
    sizes: usize,
) -> Option<Codes<T>> {
    if keys == addresses && keys == sizes {
        return None;
    }
    let text = format_args!("{keys} keys, but {addresses} addresses and {sizes} sizes");
    log::warn(operation, "lengths", text);
    Some(Codes::same(INVALID_PARAMS.into(), keys))
}

impl<T> FromIterator<T> for Codes<T> {
    fn from_iter<I: IntoIterator<Item = T>>(codes: I) -> Self {
        Self(codes.into_iter().collect())
    }
}

impl<'py, T: IntoPyObject<'py> + Copy + PartialEq> IntoPyObject<'py> for Codes<T> {
    type Target = PyList;
    type Output = Bound<'py, PyList>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        let Some(&first) = self.0.first() else { return Ok(PyList::empty(py)) };
        let repeated = PyList::new(py, [first])?.into_sequence().repeat(self.0.len())?;
        let list = repeated.cast_into::<PyList>()?;
        for (position, &code) in self.0.iter().enumerate() {
            if code != first {
                list.set_item(position, code)?;
            }
        }
        Ok(list)
    }
}
