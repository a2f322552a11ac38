use std::fmt;
use std::str::FromStr;

use crate::limits::{MAX_DOMAIN_BYTES, MAX_DOMAINS};

/// The failure domains of a node, apart from its host: a rack, a power feed, a zone. Nodes in one domain may fail at
/// the same time. A domain is written as `NAME=VALUE`; a list has the nearest domain first and commas between:
/// `rack=r7,zone=east`. Two nodes are in the same domain if name and value are equal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailureDomains(Vec<String>);

/// Why a text or a list is not a list of failure domains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FailureDomainError {
    /// A domain is not of the form `NAME=VALUE`.
    Malformed(String),
    /// A domain has more than [`MAX_DOMAIN_BYTES`] bytes.
    TooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// Two domains have this name.
    Repeated(String),
    /// There are more than [`MAX_DOMAINS`] domains.
    TooMany {
        /// How many there are.
        count: usize,
    },
}

impl FailureDomains {
    /// The accepted form, in words.
    pub const WANTED: &str =
        "up to 4 of NAME=VALUE with commas between them, the nearest first, like rack=r7,zone=east";

    /// The domains, the nearest first.
    #[must_use]
    pub fn as_slice(&self) -> &[String] {
        &self.0
    }

    /// Checks a list of domains.
    ///
    /// # Errors
    /// The first fault of the list.
    pub fn check(domains: &[String]) -> Result<(), FailureDomainError> {
        if domains.len() > MAX_DOMAINS {
            return Err(FailureDomainError::TooMany { count: domains.len() });
        }
        for (number, domain) in domains.iter().enumerate() {
            if domain.len() > MAX_DOMAIN_BYTES {
                return Err(FailureDomainError::TooLong { len: domain.len() });
            }
            let malformed = || FailureDomainError::Malformed(domain.clone());
            let name = name_of(domain).ok_or_else(malformed)?;
            if domains[..number].iter().any(|other| name_of(other) == Some(name)) {
                return Err(FailureDomainError::Repeated(name.to_owned()));
            }
        }
        Ok(())
    }
}

/// The name of a domain. `None` if the name or the value is empty, or contains a comma, an equals sign, white space or
/// a control character.
fn name_of(domain: &str) -> Option<&str> {
    let (name, value) = domain.split_once('=')?;
    let is_plain = |part: &str| {
        let is_odd = |c: char| c == ',' || c == '=' || c.is_whitespace() || c.is_control();
        !part.is_empty() && !part.contains(is_odd)
    };
    (is_plain(name) && is_plain(value)).then_some(name)
}

impl FromStr for FailureDomains {
    type Err = FailureDomainError;

    fn from_str(text: &str) -> Result<Self, FailureDomainError> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let domains: Vec<String> = text.split(',').map(|part| part.trim().to_owned()).collect();
        Self::check(&domains)?;
        Ok(Self(domains))
    }
}

impl fmt::Display for FailureDomains {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(","))
    }
}

impl fmt::Display for FailureDomainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(domain) => {
                write!(f, "{domain:?} is no failure domain: expected NAME=VALUE, like rack=r7")
            }
            Self::TooLong { len } => write!(
                f,
                "a failure domain has {len} bytes; at most {MAX_DOMAIN_BYTES} are allowed"
            ),
            Self::Repeated(name) => write!(f, "there are two failure domains called {name:?}"),
            Self::TooMany { count } => {
                write!(f, "{count} failure domains are too many; at most {MAX_DOMAINS} are allowed")
            }
        }
    }
}

impl std::error::Error for FailureDomainError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_are_read_in_their_order() {
        for (text, expected) in [
            ("", vec![]),
            (" ", vec![]),
            ("rack=r7", vec!["rack=r7"]),
            (" rack=r7 , zone=east ", vec!["rack=r7", "zone=east"]),
            ("topology.kubernetes.io/zone=eu-1a", vec!["topology.kubernetes.io/zone=eu-1a"]),
        ] {
            let domains: FailureDomains = text.parse().expect(text);
            assert_eq!(domains.as_slice(), expected, "{text:?}");
            assert_eq!(domains.to_string(), expected.join(","));
        }
    }

    #[test]
    fn what_names_no_domain_is_refused() {
        let malformed = |text: &str| FailureDomainError::Malformed(text.to_owned());
        let long = format!("rack={}", "7".repeat(MAX_DOMAIN_BYTES));
        for (text, expected) in [
            ("r7", malformed("r7")),
            ("=", malformed("=")),
            ("rack=", malformed("rack=")),
            ("=r7", malformed("=r7")),
            ("rack=r7=r8", malformed("rack=r7=r8")),
            ("rack=row 7", malformed("rack=row 7")),
            ("rack=r\u{7}", malformed("rack=r\u{7}")),
            ("rack=r7,", malformed("")),
            (",", malformed("")),
            ("rack=r7,rack=r8", FailureDomainError::Repeated("rack".to_owned())),
            ("a=1,b=1,c=1,d=1,e=1", FailureDomainError::TooMany { count: 5 }),
            (&long, FailureDomainError::TooLong { len: long.len() }),
        ] {
            assert_eq!(text.parse::<FailureDomains>(), Err(expected), "{text:?}");
        }
    }
}
