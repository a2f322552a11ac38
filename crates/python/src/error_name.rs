//! What the numbers mean that calls return.

use mooncake_client::ErrorCode;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

fn code(number: i32) -> PyResult<ErrorCode> {
    // Counts and lengths are results of calls that went well.
    let code = ErrorCode::from_number(number.min(0));
    code.ok_or_else(|| PyValueError::new_err(format!("{number} is no error code")))
}

/// The name of a number that a call returned, like `"OBJECT_NOT_FOUND"` of -704; `"OK"` if it is not negative.
///
/// Raises ValueError for a number that no call returns.
#[pyfunction]
pub(crate) fn error_name(number: i32) -> PyResult<&'static str> {
    Ok(code(number)?.name())
}

/// What a number means that a call returned, and what to do about it, as `mooncake error` says it.
///
/// Raises ValueError for a number that no call returns.
#[pyfunction]
pub(crate) fn error_advice(number: i32) -> PyResult<String> {
    let code = code(number)?;
    let advice = code.advice();
    let advice = advice.map(|advice| format!("{} {}", advice.meaning, advice.remedy));
    Ok(advice.unwrap_or_else(|| "A code of the C++ store; no call returns it here.".to_owned()))
}
