//! The names of the numbers.

use std::ffi::{CString, c_char, c_int};
use std::sync::LazyLock;

use mooncake_client::ErrorCode;

/// The name of each code, as a string of C.
static NAMES: LazyLock<Vec<(ErrorCode, CString)>> = LazyLock::new(|| {
    let names = ErrorCode::ALL.iter().map(|&code| {
        let name = CString::new(code.name());
        (code, name.expect("names of codes have no zero bytes"))
    });
    names.collect()
});

#[unsafe(no_mangle)]
extern "C" fn mooncake_store_error_name(number: c_int) -> *const c_char {
    let wanted = ErrorCode::from_number(number.min(0));
    let found = NAMES.iter().find(|(code, _)| Some(*code) == wanted);
    found.map_or(c"UNKNOWN".as_ptr(), |(_, name)| name.as_ptr())
}
