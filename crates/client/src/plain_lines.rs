//! Log lines in which nobody can forge others: names and keys come from anybody.

use std::io::{self, Write};

/// A log in which the control characters of each written line are escaped, but the line end that it ends with. Each write
/// must be one whole line, as `tracing_subscriber` writes them.
#[derive(Debug)]
pub struct PlainLines<W> {
    to: W,
    /// Whether the escape character stays, by which the writer colours lines. It has escaped those of values itself.
    is_coloured: bool,
}

impl<W: Write> PlainLines<W> {
    /// Lines that go to `to`.
    pub fn new(to: W, is_coloured: bool) -> Self {
        Self { to, is_coloured }
    }

    /// The line, if it has to be written in another way.
    fn escaped(&self, line: &[u8]) -> Option<String> {
        let line = str::from_utf8(line).ok()?;
        let (text, end) = match line.strip_suffix('\n') {
            Some(text) => (text, "\n"),
            None => (line, ""),
        };
        let is_odd = |c: char| c.is_control() && !(self.is_coloured && c == '\u{1b}');
        if !text.contains(is_odd) {
            return None;
        }
        let mut escaped = String::with_capacity(line.len() + 16);
        for c in text.chars() {
            match is_odd(c) {
                true => escaped.extend(c.escape_default()),
                false => escaped.push(c),
            }
        }
        Some(escaped + end)
    }
}

impl<W: Write> Write for PlainLines<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.write_all(line)?;
        Ok(line.len())
    }

    fn write_all(&mut self, line: &[u8]) -> io::Result<()> {
        match self.escaped(line) {
            Some(escaped) => self.to.write_all(escaped.as_bytes()),
            None => self.to.write_all(line),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_all_else_stays() {
        for (line, is_coloured, written) in [
            ("key=ein schlüssel\n", false, "key=ein schlüssel\n"),
            ("key=a\nWARN forged\r\n", false, "key=a\\nWARN forged\\r\n"),
            ("key=a\u{1b}[31m\u{7}\u{7f}\u{85}\n", false, "key=a\\u{1b}[31m\\u{7}\\u{7f}\\u{85}\n"),
            ("\u{1b}[2mINFO\u{1b}[0m a\tb\n", true, "\u{1b}[2mINFO\u{1b}[0m a\\tb\n"),
            ("", false, ""),
        ] {
            let mut lines = PlainLines::new(Vec::new(), is_coloured);
            lines.write_all(line.as_bytes()).expect("memory takes it");
            assert_eq!(String::from_utf8(lines.to).expect("text"), written);
        }
    }
}
