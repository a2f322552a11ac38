//! The meaning of the numbers that methods return.

use mooncake_client::ErrorCode;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

fn code(number: i32) -> PyResult<ErrorCode> {
    // Positive numbers are counts and lengths: results of calls that succeeded.
    let code = ErrorCode::from_number(number.min(0));
    code.ok_or_else(|| PyValueError::new_err(format!("{number} is no error code")))
}

/// The name of a number that a method returned, like `"OBJECT_NOT_FOUND"` for -704; `"OK"` for 0 and positive numbers.
///
/// Raises ValueError for a negative number that is no error code.
#[pyfunction]
pub(crate) fn error_name(number: i32) -> PyResult<&'static str> {
    Ok(code(number)?.name())
}

/// The meaning of a number that a method returned, and the remedy, as the command `mooncake error` prints them.
///
/// Raises ValueError for a negative number that is no error code.
#[pyfunction]
pub(crate) fn error_advice(number: i32) -> PyResult<String> {
    let code = code(number)?;
    let advice = code.advice();
    let advice = advice.map(|advice| format!("{} {}", advice.meaning, advice.remedy));
    Ok(advice.unwrap_or_else(|| "A code of the C++ store; no call returns it here.".to_owned()))
}
