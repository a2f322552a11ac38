//! Converts one Python object to one Rust value. Calls the interpreter's functions directly: a batch converts every
//! key, and PyO3's checked conversions cost more than the functions that they wrap.

#![allow(unsafe_code, reason = "texts are borrowed through pointers")]

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt};

/// The text of a `str`, or of `bytes` that hold UTF-8, borrowed from the object. `None` for anything else.
#[inline]
pub(crate) fn text<'a>(value: Borrowed<'a, '_, PyAny>) -> Option<&'a str> {
    let mut len = 0;
    // SAFETY: `value` is a live object; its type does not matter. `Borrowed` proves that the interpreter lock is held.
    let start = unsafe { ffi::PyUnicode_AsUTF8AndSize(value.as_ptr(), &raw mut len) };
    if start.is_null() {
        return encoded(value);
    }
    // SAFETY: the object is a `str`, so these `len` bytes are UTF-8, and `len` is not negative. The object owns them:
    // they neither move nor change while it lives, and it lives for `'a`.
    Some(unsafe {
        std::str::from_utf8_unchecked(std::slice::from_raw_parts(start.cast(), len.cast_unsigned()))
    })
}

/// The value of an unsigned integer: an `int`, or an object with `__index__`. `None` for anything else.
#[inline]
pub(crate) fn number(value: Borrowed<'_, '_, PyAny>) -> Option<u64> {
    let Ok(int) = value.cast::<PyInt>() else { return value.extract().ok() };
    // SAFETY: `int` is a live `int`. `Borrowed` proves that the interpreter lock is held.
    let number = unsafe { ffi::PyLong_AsSize_t(int.as_ptr()) };
    // The function returns the greatest number also for an error.
    if number == usize::MAX { greatest(value) } else { u64::try_from(number).ok() }
}

#[cold]
fn encoded<'a>(value: Borrowed<'a, '_, PyAny>) -> Option<&'a str> {
    drop(PyErr::take(value.py()));
    let bytes: &[u8] = value.cast::<PyBytes>().ok()?.extract().ok()?;
    std::str::from_utf8(bytes).ok()
}

#[cold]
fn greatest(value: Borrowed<'_, '_, PyAny>) -> Option<u64> {
    drop(PyErr::take(value.py()));
    value.extract().ok()
}
