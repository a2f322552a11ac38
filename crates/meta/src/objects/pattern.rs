//! Regular expressions of scans, and the keys of a page to which they are applied. Every page of a scan names the
//! pattern again, so the most recent patterns stay compiled.

use mooncake_types::{ErrorCode, limits, split_tenant};
use regex::{Regex, RegexBuilder};

/// Most patterns that stay compiled.
const KEPT: usize = 16;
/// Bound on the memory of one compiled pattern. A search takes time in proportion to this and to the key's length.
const MAX_COMPILED_BYTES: usize = 128 << 10;

/// The keys of one page of a scan, before they are matched. See [`Meta::begin_scan`](crate::Meta::begin_scan).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnmatchedKeys {
    /// With the index of the object that holds each.
    pub(super) keys: Vec<(u32, Box<str>)>,
    /// The index at which the walk goes on.
    pub(super) next: u32,
}

/// The keys of one page of a scan that its pattern matches. See [`Meta::end_scan`](crate::Meta::end_scan).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchedKeys {
    pub(super) keys: Vec<(u32, Box<str>)>,
    pub(super) next: u32,
}

impl MatchedKeys {
    /// The keys that matched.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(|(_, key)| &**key)
    }
}

impl UnmatchedKeys {
    /// The page of a scan without a pattern.
    pub(super) fn all(self) -> MatchedKeys {
        MatchedKeys { keys: self.keys, next: self.next }
    }
}

/// Compiled patterns.
#[derive(Debug, Default)]
pub struct Patterns {
    /// The most recently used pattern is the last.
    compiled: Vec<Regex>,
}

impl Patterns {
    /// Matches the keys of a page. The page ends early, but not before its first key, once `may_go_on` is false.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidParams`] if the pattern does not compile, or is too large.
    pub fn pick(
        &mut self,
        pattern: &str,
        page: UnmatchedKeys,
        mut may_go_on: impl FnMut() -> bool,
    ) -> Result<MatchedKeys, ErrorCode> {
        let regex = self.get(pattern)?;
        let UnmatchedKeys { mut keys, mut next } = page;
        let mut looked_at = 0;
        for (index, key) in &mut keys {
            if looked_at > 0 && !may_go_on() {
                next = *index;
                break;
            }
            looked_at += 1;
            // A scan of all tenants has no pattern that tells them apart.
            if !regex.is_match(split_tenant(key).1) {
                *key = Box::default();
            }
        }
        keys.truncate(looked_at);
        // No object has an empty key.
        keys.retain(|(_, key)| !key.is_empty());
        Ok(MatchedKeys { keys, next })
    }

    /// The compiled pattern. Look-around and back-references are refused.
    fn get(&mut self, pattern: &str) -> Result<Regex, ErrorCode> {
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
