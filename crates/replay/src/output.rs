//! Output of the program. Failures to write are ignored.

use std::fmt;
use std::io::{self, Write};

/// Writes to standard output.
pub(crate) fn say(text: fmt::Arguments<'_>) {
    let _ = io::stdout().write_fmt(text);
}

/// Writes to standard error.
pub(crate) fn complain(text: fmt::Arguments<'_>) {
    let _ = io::stderr().write_fmt(text);
}
