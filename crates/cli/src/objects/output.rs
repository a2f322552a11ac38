//! Results on standard output, as lines.

use std::fmt;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use super::outcome::CommandError;

/// Standard output. What a program writes there reaches the reader at [`Output::flush`] at the latest.
pub(crate) struct Output(BufWriter<Stdout>);

impl Output {
    pub(crate) fn new() -> Self {
        Self(BufWriter::with_capacity(64 << 10, io::stdout()))
    }

    pub(crate) fn line(&mut self, text: fmt::Arguments<'_>) -> Result<(), CommandError> {
        self.0.write_fmt(format_args!("{text}\n")).map_err(failure)
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), CommandError> {
        self.0.write_all(bytes).map_err(failure)
    }

    pub(crate) fn flush(&mut self) -> Result<(), CommandError> {
        self.0.flush().map_err(failure)
    }
}

/// A program whose reader has gone ends quietly.
fn failure(error: io::Error) -> CommandError {
    match error.kind() {
        io::ErrorKind::BrokenPipe => CommandError::ClosedOutput,
        _ => CommandError::failed(format!("cannot write to standard output: {error}")),
    }
}

/// A key for a line of text: as it is, but at a terminal without characters that control it.
pub(crate) fn shown(key: &str) -> String {
    match io::stdout().is_terminal() {
        true => plain(key),
        false => key.to_owned(),
    }
}

/// The same text with escapes in place of control characters.
pub(crate) fn plain(text: &str) -> String {
    let escape = |c: char| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    text.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_cannot_control_the_terminal() {
        assert_eq!(plain("a\u{1b}[2Jb\nä\"\\"), "a\\u{1b}[2Jb\\nä\"\\");
    }
}
