//! Regular expressions of scans. Every page of a scan names the pattern again, so the most recent patterns stay
//! compiled.

use mooncake_types::{ErrorCode, limits};
use regex::{Regex, RegexBuilder};

/// Most patterns that stay compiled.
const KEPT: usize = 16;
/// Bound on the memory, and with it on the time, of one compiled pattern.
const MAX_COMPILED_BYTES: usize = 128 << 10;

#[derive(Debug, Default)]
pub(crate) struct Patterns {
    /// The most recently used pattern is the last.
    compiled: Vec<Regex>,
}

impl Patterns {
    /// The compiled pattern. A search takes time in proportion to the key's length. Look-around and back-references
    /// are refused.
    pub(crate) fn get(&mut self, pattern: &str) -> Result<Regex, ErrorCode> {
        let known = self.compiled.iter().position(|regex| regex.as_str() == pattern);
        let regex = match known {
            Some(place) => self.compiled.remove(place),
            None => compile(pattern)?,
        };
        if self.compiled.len() == KEPT {
            self.compiled.remove(0);
        }
        self.compiled.push(regex.clone());
        Ok(regex)
    }
}

fn compile(pattern: &str) -> Result<Regex, ErrorCode> {
    if pattern.len() > limits::MAX_REGEX_BYTES {
        return Err(ErrorCode::InvalidParams);
    }
    RegexBuilder::new(pattern)
        .size_limit(MAX_COMPILED_BYTES)
        .dfa_size_limit(MAX_COMPILED_BYTES)
        .build()
        .map_err(|_| ErrorCode::InvalidParams)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_compile_is_refused() {
        let mut patterns = Patterns::default();
        let too_long = "a".repeat(limits::MAX_REGEX_BYTES + 1);
        for pattern in ["(", "[z-a]", r"(a)\1", "(?=a)", "(a{1000}){1000}", &too_long] {
            assert_eq!(
                patterns.get(pattern).err(),
                Some(ErrorCode::InvalidParams),
                "{pattern:.20}"
            );
        }
        assert!(patterns.compiled.is_empty());
    }

    #[test]
    fn the_last_few_stay_compiled() {
        let mut patterns = Patterns::default();
        for number in (0..=KEPT).chain([2, KEPT + 1]) {
            assert!(patterns.get(&number.to_string()).is_ok());
        }
        let kept: Vec<&str> = patterns.compiled.iter().map(Regex::as_str).collect();
        let expected = (3..=KEPT).chain([2, KEPT + 1]).map(|number| number.to_string());
        assert_eq!(kept, expected.collect::<Vec<_>>());
    }
}
