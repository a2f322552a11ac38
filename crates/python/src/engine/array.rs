//! Numbers in buffers: NumPy arrays, arrays of `array` and `ctypes`, memory views.

use pyo3::prelude::*;

use crate::argument::Argument;
use crate::buffer::LentBuffer;

const WANTED: &str = "64-bit integers (int64 or uint64)";

/// The integers of a buffer with one dimension.
pub(super) fn row_of_integers(name: Argument, value: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
    let buffer = name.buffer(value)?;
    match buffer.shape() {
        [_] => integers(name, &buffer),
        _ => Err(name.bad_value(&format!("must be a one-dimensional array of {WANTED}"))),
    }
}

/// The integers of a buffer with two dimensions, of which the second has this length.
pub(super) fn rows_of_integers<const COLUMNS: usize>(
    name: Argument,
    value: &Bound<'_, PyAny>,
) -> PyResult<Vec<[u64; COLUMNS]>> {
    let buffer = name.buffer(value)?;
    match buffer.shape() {
        [_, columns] if *columns == COLUMNS => {}
        _ => {
            let wanted = format!("must be an array of {COLUMNS} {WANTED} a row");
            return Err(name.bad_value(&wanted));
        }
    }
    Ok(integers(name, &buffer)?.as_chunks::<COLUMNS>().0.to_vec())
}

fn integers(name: Argument, buffer: &LentBuffer) -> PyResult<Vec<u64>> {
    let wanted = || name.bad_value(&format!("must hold {WANTED}"));
    let is_signed = buffer.integer_sign().ok_or_else(wanted)?;
    let bytes = buffer.slice().to_vec();
    let numbers: Vec<u64> =
        bytes.as_chunks::<8>().0.iter().map(|bytes| u64::from_ne_bytes(*bytes)).collect();
    let negative = |&number: &u64| is_signed && number.cast_signed() < 0;
    match numbers.iter().position(negative) {
        None => Ok(numbers),
        Some(at) => {
            let number = numbers[at].cast_signed();
            Err(name
                .bad_value(&format!("must not be negative, but it is {number} at position {at}")))
        }
    }
}
