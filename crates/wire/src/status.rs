//! Results as error numbers.

use mooncake_types::ErrorCode;

use crate::{DecodeError, generated as proto};

/// Encodes a failure. A failure with the code `Ok` is a fault of this program, so it becomes an internal error.
pub(crate) fn from_error(code: ErrorCode) -> i32 {
    match code {
        ErrorCode::Ok => ErrorCode::InternalError.number(),
        code => code.number(),
    }
}

/// Decodes a failure. An unknown number, which a newer peer may send, becomes an internal error.
pub(crate) fn to_error(number: i32) -> ErrorCode {
    match ErrorCode::from_number(number) {
        None | Some(ErrorCode::Ok) => ErrorCode::InternalError,
        Some(code) => code,
    }
}

pub(crate) fn from_result(result: Result<(), ErrorCode>) -> i32 {
    result.map_or_else(from_error, |()| ErrorCode::Ok.number())
}

pub(crate) fn to_result(number: i32) -> Result<(), ErrorCode> {
    if number == ErrorCode::Ok.number() { Ok(()) } else { Err(to_error(number)) }
}

/// Encodes one result as a message.
pub(crate) fn to_message(status_code: i32) -> proto::StatusResponse {
    proto::StatusResponse { status_code }
}

pub(crate) fn from_results(results: &[Result<(), ErrorCode>]) -> proto::StatusListResponse {
    let status_codes = results.iter().copied().map(from_result).collect();
    proto::StatusListResponse { status_codes }
}

pub(crate) fn to_results(
    list: proto::StatusListResponse,
    limit: usize,
) -> Result<Vec<Result<(), ErrorCode>>, DecodeError> {
    if list.status_codes.len() > limit {
        return Err(DecodeError::TooMany { what: "status_codes", limit });
    }
    Ok(list.status_codes.into_iter().map(to_result).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_keeps_its_number_and_unknown_ones_become_internal_error() {
        for &code in &ErrorCode::ALL[1..] {
            assert_eq!(to_result(from_result(Err(code))), Err(code));
        }
        assert_eq!(to_result(from_result(Ok(()))), Ok(()));
        for unknown in [1, -2, i32::MIN, i32::MAX] {
            assert_eq!(to_result(unknown), Err(ErrorCode::InternalError));
        }
    }

    #[test]
    fn a_failure_never_arrives_as_a_success() {
        assert_eq!(to_result(from_result(Err(ErrorCode::Ok))), Err(ErrorCode::InternalError));
        assert_eq!(to_error(0), ErrorCode::InternalError);
    }
}
