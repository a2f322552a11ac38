//! A key that the membership record overrules.

use crate::Version;

/// The versions of a key that are gone, though segments which are behind may still hold them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OverruledKey {
    /// The newest of these versions.
    pub until: Version,
    /// The newest grant when this was written. A segment that is behind since a later version was in step until then:
    /// what it holds was not gone.
    pub at: Version,
}

impl OverruledKey {
    /// Whether a version is gone on a segment that is behind since `since`.
    #[must_use]
    pub fn covers(&self, version: Version, since: Version) -> bool {
        version <= self.until && since <= self.at
    }

    /// Adds the versions of another statement about the same key.
    pub fn add(&mut self, other: Self) {
        self.until = self.until.max(other.until);
        self.at = self.at.max(other.at);
    }
}
