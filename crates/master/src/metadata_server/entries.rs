use std::collections::HashMap;

use bytes::Bytes;
use thiserror::Error;

/// Keys that contain this word name one process each. Their values are not replaced.
const UNIQUE: &str = "rpc_meta";

/// Limits of the entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    /// Most bytes of a key.
    pub(super) key_bytes: usize,
    /// Most bytes of a value.
    pub(super) value_bytes: usize,
    /// Most keys.
    pub(super) keys: usize,
    /// Most bytes of all keys and values together.
    pub(super) total_bytes: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { key_bytes: 4 << 10, value_bytes: 1 << 20, keys: 100_000, total_bytes: 256 << 20 }
    }
}

/// The outcome of a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    /// The put stored this value.
    Updated,
    /// The key already had this value, which may not be replaced.
    Unchanged,
}

/// Why a put was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum Refused {
    #[error("a key of {len} bytes is longer than {limit}")]
    KeyTooLong { len: usize, limit: usize },
    #[error("a value of {len} bytes is longer than {limit}")]
    ValueTooLong { len: usize, limit: usize },
    #[error("there are {limit} keys, which is the limit")]
    TooManyKeys { limit: usize },
    #[error("all keys and values together would take more than {limit} bytes")]
    Full { limit: usize },
    #[error("Duplicate rpc_meta key not allowed")]
    Duplicate,
}

/// Values by key, within bounds.
#[derive(Debug)]
pub(super) struct Entries {
    bounds: Bounds,
    values: HashMap<String, Bytes>,
    /// Bytes of all keys and values.
    used: usize,
}

impl Entries {
    pub(super) fn new(bounds: Bounds) -> Entries {
        Entries { bounds, values: HashMap::new(), used: 0 }
    }

    pub(super) fn get(&self, key: &str) -> Option<Bytes> {
        self.values.get(key).cloned()
    }

    pub(super) fn put(&mut self, key: &str, value: &[u8]) -> Result<Put, Refused> {
        let bounds = &self.bounds;
        if key.len() > bounds.key_bytes {
            return Err(Refused::KeyTooLong { len: key.len(), limit: bounds.key_bytes });
        }
        if value.len() > bounds.value_bytes {
            return Err(Refused::ValueTooLong { len: value.len(), limit: bounds.value_bytes });
        }
        let freed = match self.values.get(key) {
            Some(old) if key.contains(UNIQUE) && old == value => return Ok(Put::Unchanged),
            Some(_) if key.contains(UNIQUE) => return Err(Refused::Duplicate),
            Some(old) => key.len() + old.len(),
            None if self.values.len() >= bounds.keys => {
                return Err(Refused::TooManyKeys { limit: bounds.keys });
            }
            None => 0,
        };
        let used = self.used - freed + key.len() + value.len();
        if used > bounds.total_bytes {
            return Err(Refused::Full { limit: bounds.total_bytes });
        }
        self.used = used;
        // Copied, because the bytes of a request share a larger buffer.
        self.values.insert(key.to_owned(), Bytes::copy_from_slice(value));
        Ok(Put::Updated)
    }

    /// Removes a key, and returns whether it was there.
    pub(super) fn remove(&mut self, key: &str) -> bool {
        let Some(value) = self.values.remove(key) else { return false };
        self.used -= key.len() + value.len();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries() -> Entries {
        Entries::new(Bounds { key_bytes: 20, value_bytes: 8, keys: 3, total_bytes: 30 })
    }

    #[test]
    fn values_are_replaced_unless_their_keys_are_unique() {
        let mut entries = entries();
        let cases: [(&str, &[u8], Result<Put, Refused>); 6] = [
            ("ram/a", b"1", Ok(Put::Updated)),
            ("ram/a", b"2", Ok(Put::Updated)),
            ("ram/a", b"2", Ok(Put::Updated)),
            ("rpc_meta/a", b"1", Ok(Put::Updated)),
            ("rpc_meta/a", b"1", Ok(Put::Unchanged)),
            ("rpc_meta/a", b"2", Err(Refused::Duplicate)),
        ];
        for (key, value, expected) in cases {
            assert_eq!(entries.put(key, value), expected, "{key}");
        }
        assert_eq!(entries.get("ram/a"), Some(Bytes::from_static(b"2")));
        assert_eq!(entries.get("rpc_meta/a"), Some(Bytes::from_static(b"1")));
        assert!(entries.remove("rpc_meta/a"));
        assert!(!entries.remove("rpc_meta/a"));
        assert_eq!(entries.get("rpc_meta/a"), None);
        assert_eq!(entries.put("rpc_meta/a", b"2"), Ok(Put::Updated));
    }

    #[test]
    fn every_bound_holds_and_removing_makes_room() {
        let mut entries = entries();
        let long = "k".repeat(21);
        let refused = Refused::KeyTooLong { len: 21, limit: 20 };
        assert_eq!(entries.put(&long, b""), Err(refused));
        let refused = Refused::ValueTooLong { len: 9, limit: 8 };
        assert_eq!(entries.put("a", b"123456789"), Err(refused));
        for key in ["a", "b", "c"] {
            assert_eq!(entries.put(key, b"12345678"), Ok(Put::Updated));
        }
        assert_eq!(entries.put("d", b""), Err(Refused::TooManyKeys { limit: 3 }));
        assert_eq!(entries.put("c", b""), Ok(Put::Updated));
        assert!(entries.remove("c"));
        assert_eq!(entries.put("0123456789abcdef", b""), Err(Refused::Full { limit: 30 }));
        assert_eq!(entries.put("0123456789ab", b""), Ok(Put::Updated));
        for key in ["a", "b", "0123456789ab"] {
            assert!(entries.remove(key));
        }
        assert_eq!((entries.used, entries.values.len()), (0, 0));
    }
}
