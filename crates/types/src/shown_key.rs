use std::fmt;

/// Most characters of a key that logs and errors show.
const MOST_CHARS: usize = 120;

/// A key, or another text from a caller, as logs and errors show it: in quotes, with control characters escaped. Of a
/// long text they show the beginning and the length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShownKey<'a>(pub &'a str);

impl fmt::Display for ShownKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.char_indices().nth(MOST_CHARS) {
            None => write!(f, "{:?}", self.0),
            Some((end, _)) => write!(f, "{:?}... ({} bytes)", &self.0[..end], self.0.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_a_megabyte_is_shown_as_its_beginning_and_its_length() {
        let shown = |key: &str| ShownKey(key).to_string();
        assert_eq!(shown("a\n\"b\""), r#""a\n\"b\"""#);
        assert_eq!(shown(""), "\"\"");
        assert_eq!(shown(&"x".repeat(MOST_CHARS)), format!("{:?}", "x".repeat(MOST_CHARS)));
        let long = "ö".repeat(1 << 19);
        let begin = "ö".repeat(MOST_CHARS);
        assert_eq!(shown(&long), format!("{begin:?}... (1048576 bytes)"));
    }
}
