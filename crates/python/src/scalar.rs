//! One Python object as one Rust value. The interpreter's functions are called directly: a batch does this for every
//! key, and the ways around them cost more than they do.

#![allow(unsafe_code, reason = "texts are borrowed through pointers")]

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt};

/// The text that a `str` holds, or `bytes` of UTF-8, borrowed from it. `None` for anything else.
#[inline]
pub(crate) fn text<'a>(value: Borrowed<'a, '_, PyAny>) -> Option<&'a str> {
    let mut len = 0;
    // SAFETY: `value` is a live object of any type, and the interpreter lock is held as `Borrowed` shows.
    let start = unsafe { ffi::PyUnicode_AsUTF8AndSize(value.as_ptr(), &raw mut len) };
    if start.is_null() {
        return encoded(value);
    }
    // SAFETY: the object is a `str`, and these `len` bytes of UTF-8, which is not negative, belong to it: they neither
    // move nor change while it lives, and it lives for `'a`.
    Some(unsafe {
        std::str::from_utf8_unchecked(std::slice::from_raw_parts(start.cast(), len.cast_unsigned()))
    })
}

/// The value of an unsigned integer: an `int`, or anything with `__index__`. `None` for anything else.
#[inline]
pub(crate) fn number(value: Borrowed<'_, '_, PyAny>) -> Option<u64> {
    let Ok(int) = value.cast::<PyInt>() else { return value.extract().ok() };
    // SAFETY: `int` is a live `int`, and the interpreter lock is held as `Borrowed` shows.
    let number = unsafe { ffi::PyLong_AsSize_t(int.as_ptr()) };
    // The greatest number also says that there is an error.
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
