//! The keys under which a tenant's objects are stored. The calls of a store name a caller's keys, all that lies below
//! them names stored ones.

use std::borrow::Cow;

use mooncake_types::Tenant;

/// The stored keys of one call, by position.
pub(super) struct StoredKeys(Option<Vec<String>>);

impl StoredKeys {
    /// The stored keys of these keys of a tenant. Nothing is copied if they are stored as they are.
    pub(super) fn of<'k>(
        tenant: &Tenant,
        keys: impl Iterator<Item = &'k str> + Clone,
    ) -> StoredKeys {
        match keys.clone().all(|key| tenant.stores_as_is(key)) {
            true => StoredKeys(None),
            false => StoredKeys(Some(keys.map(|key| tenant.key(key).into_owned()).collect())),
        }
    }

    /// The stored key at this position, where the caller's is `key`.
    pub(super) fn at<'s>(&'s self, position: usize, key: &'s str) -> &'s str {
        self.0.as_ref().map_or(key, |stored| &stored[position])
    }

    /// All of them, where the caller's are `keys`.
    pub(super) fn all<'s>(&'s self, keys: &'s [&'s str]) -> Cow<'s, [&'s str]> {
        match &self.0 {
            None => Cow::Borrowed(keys),
            Some(stored) => Cow::Owned(stored.iter().map(String::as_str).collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_keys_that_are_stored_otherwise_are_copied() {
        let blue = Tenant::named("blue").expect("a name");
        for (tenant, keys, expected) in [
            (&Tenant::default(), ["a", "b"], ["a", "b"]),
            (&Tenant::default(), ["a", "\0b"], ["a", "\0\0\0b"]),
            (&blue, ["a", "b"], ["\0blue\0a", "\0blue\0b"]),
        ] {
            let stored = StoredKeys::of(tenant, keys.iter().copied());
            assert_eq!(stored.0.is_none(), keys == expected);
            assert_eq!(*stored.all(&keys), expected);
            assert_eq!(stored.at(1, keys[1]), expected[1]);
        }
    }
}
