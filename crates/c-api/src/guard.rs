//! The border between C and Rust.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use mooncake_binding::log;
use mooncake_client::ErrorCode;

/// Runs a call of C, and returns its number. The first call of the process starts the log. A panic becomes `InternalError`: it never unwinds into C.
pub(crate) fn guarded<N: From<i32>>(
    operation: &str,
    call: impl FnOnce() -> Result<N, ErrorCode>,
) -> N {
    static LOG: Once = Once::new();
    LOG.call_once(log::start);
    let code = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(number)) => return number,
        Ok(Err(code)) => code,
        Err(_) => {
            // The panic hook has reported where.
            log::error(operation, "panic", format_args!("a panic ended the call"));
            ErrorCode::InternalError
        }
    };
    N::from(code.number())
}

/// Logs that an argument is wrong.
pub(crate) fn refuse(operation: &str, name: &str, reason: &str) -> ErrorCode {
    let text = format!("{name} {reason}");
    log::error(operation, &text, format_args!("{text}"));
    ErrorCode::InvalidParams
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_number() {
        assert_eq!(guarded("test", || -> Result<i32, ErrorCode> { panic!("on purpose") }), -1);
        assert_eq!(guarded("test", || Err::<i64, _>(ErrorCode::ObjectNotFound)), -704);
        assert_eq!(guarded("test", || Ok(5_i64)), 5);
    }
}
