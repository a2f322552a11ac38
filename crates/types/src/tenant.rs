//! Tenants: callers whose keys are apart, although they share one pool.
//!
//! A tenant is a part of the key under which an object is stored, and nothing else:
//!
//! | the caller's tenant and key | the stored key |
//! |---|---|
//! | the default tenant, `k` | `k` |
//! | the tenant `blue`, `k` | NUL `blue` NUL `k` |
//! | the default tenant, a key that begins with NUL | NUL NUL and the key |
//!
//! So a tenant needs no state of its own. It is in each request, ledger, inventory and record on disk already, and a
//! later leader knows the tenant of each object from the inventories. Whoever names no tenant sends the keys that it
//! always sent. The client puts the tenant in front ([`Tenant::key`]) of every key that a caller names, so no key of a
//! caller reaches into another tenant: names hold no NUL, and a key that begins with NUL gets a tenant in front, too.
//! A master that binds a connection to a tenant compares [`split`](crate::split_tenant) of each key with it.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::limits::MAX_TENANT_BYTES;

/// The name of the tenant of callers that name none.
pub const DEFAULT_TENANT: &str = "default";

const SEPARATOR: char = '\0';

/// The name of a tenant; by default [`DEFAULT_TENANT`].
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tenant(Option<Arc<str>>);

/// A text that names no tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotATenant;

impl NotATenant {
    /// What a name must be.
    pub const WANTED: &str =
        "a name of 1 to 128 bytes that does not begin with '_' and has no control characters";
}

const _: () = assert!(MAX_TENANT_BYTES == 128, "the text says so");

impl fmt::Display for NotATenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a tenant has {}", Self::WANTED)
    }
}

impl std::error::Error for NotATenant {}

impl Tenant {
    /// The tenant of this name; the default one for an empty name.
    ///
    /// # Errors
    /// For a name that is too long, begins with `_`, or has control characters.
    pub fn named(name: &str) -> Result<Self, NotATenant> {
        if name.is_empty() || name == DEFAULT_TENANT {
            return Ok(Self(None));
        }
        let is_control = |byte: u8| byte < b' ' || byte == 0x7F;
        let is_sound = name.len() <= MAX_TENANT_BYTES
            && !name.starts_with('_')
            && !name.bytes().any(is_control);
        is_sound.then(|| Self(Some(name.into()))).ok_or(NotATenant)
    }

    /// Its name; [`DEFAULT_TENANT`] for the default one.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.as_deref().unwrap_or(DEFAULT_TENANT)
    }

    /// Whether this is the default tenant.
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.0.is_none()
    }

    /// Whether this tenant stores a key as it is.
    #[must_use]
    pub fn stores_as_is(&self, key: &str) -> bool {
        self.is_default() && !key.starts_with(SEPARATOR)
    }

    /// The key under which the object of this key is stored.
    #[must_use]
    pub fn key<'k>(&self, key: &'k str) -> Cow<'k, str> {
        // An empty key stays empty, so that it is refused.
        match key.is_empty() || self.stores_as_is(key) {
            true => Cow::Borrowed(key),
            false => Cow::Owned(join(self.0.as_deref().unwrap_or_default(), key)),
        }
    }
}

fn join(tenant: &str, key: &str) -> String {
    [tenant, key].into_iter().flat_map(|part| ["\0", part]).collect()
}

/// The form in which a name is stored that belongs to the tenant of a stored key.
#[must_use]
pub fn stored_beside<'n>(stored_key: &str, name: &'n str) -> Cow<'n, str> {
    match split(stored_key).0 {
        DEFAULT_TENANT => Tenant::default().key(name),
        tenant => Cow::Owned(join(tenant, name)),
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The name of the tenant that has a stored key, and the caller's own key. A stored key that no [`Tenant::key`] made
/// belongs to the default tenant.
#[must_use]
pub fn split(stored: &str) -> (&str, &str) {
    let scoped = stored.strip_prefix(SEPARATOR).and_then(|rest| rest.split_once(SEPARATOR));
    match scoped {
        None => (DEFAULT_TENANT, stored),
        Some(("", key)) => (DEFAULT_TENANT, key),
        Some(found) => found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> Tenant {
        Tenant::named(name).expect("the name is sound")
    }

    #[test]
    fn the_default_tenant_stores_keys_as_they_are() {
        for name in ["", "default"] {
            assert!(matches!(tenant(name).key("a key"), Cow::Borrowed("a key")));
        }
        assert_eq!(Tenant::default().name(), "default");
    }

    #[test]
    fn a_stored_key_tells_its_tenant_and_the_key() {
        for name in ["default", "blue", "a b/ä", &"n".repeat(MAX_TENANT_BYTES)] {
            for key in ["k", "\0", "\0blue\0k", "\0\0k", "blue\0k", "\0k"] {
                let stored = tenant(name).key(key).into_owned();
                assert_eq!(split(&stored), (name, key));
            }
        }
    }

    #[test]
    fn no_key_of_one_tenant_is_stored_as_that_of_another() {
        let keys = ["k", "\0k", "\0blue\0k", "blue\0k", "\0\0k", "e\0k", "\0", "\0\0"];
        let names = ["default", "blue", "blu"];
        let mut stored: Vec<String> = Vec::new();
        for name in names {
            stored.extend(keys.iter().map(|key| tenant(name).key(key).into_owned()));
        }
        stored.sort_unstable();
        stored.dedup();
        assert_eq!(stored.len(), keys.len() * names.len());
    }

    #[test]
    fn a_name_beside_a_key_belongs_to_its_tenant() {
        for (tenant, name) in [("default", "g"), ("default", "\0blue\0g"), ("blue", "g")] {
            let stored = Tenant::named(tenant).expect("a name").key("k").into_owned();
            assert_eq!(split(&stored_beside(&stored, name)), (tenant, name));
        }
    }

    #[test]
    fn an_empty_key_stays_empty() {
        assert_eq!(tenant("blue").key(""), "");
    }

    #[test]
    fn names_that_cannot_be_told_apart_from_keys_are_refused() {
        let long = "n".repeat(MAX_TENANT_BYTES + 1);
        for name in ["_system", "a\0b", "a\nb", "\x7F", &long] {
            assert_eq!(Tenant::named(name), Err(NotATenant), "{name:?}");
        }
    }

    #[test]
    fn stored_keys_of_nobody_belong_to_the_default_tenant() {
        for stored in ["k", "\0k", "\0"] {
            assert_eq!(split(stored), (DEFAULT_TENANT, stored));
        }
    }
}
