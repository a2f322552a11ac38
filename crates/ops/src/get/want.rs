use crate::span::Part;

/// One object to get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetItem<'a> {
    /// Its key.
    pub key: &'a str,
    /// Which of its bytes.
    pub want: Want<'a>,
}

/// Which bytes of an object to get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want<'a> {
    /// All of it.
    Whole {
        /// Room for it in bytes; absent if the caller makes room for any length.
        capacity: Option<u64>,
    },
    /// These parts, all of one version. Those that run past its end are left out.
    Parts(&'a [Part]),
}

impl<'a> GetItem<'a> {
    /// All of an object.
    #[must_use]
    pub const fn whole(key: &'a str, capacity: Option<u64>) -> Self {
        Self { key, want: Want::Whole { capacity } }
    }

    /// Some of an object's bytes.
    #[must_use]
    pub const fn parts(key: &'a str, parts: &'a [Part]) -> Self {
        Self { key, want: Want::Parts(parts) }
    }
}

impl Want<'_> {
    pub(super) const fn is_whole(&self) -> bool {
        matches!(self, Self::Whole { .. })
    }

    pub(super) fn fits(&self, object_len: u64) -> bool {
        match self {
            Self::Whole { capacity } => capacity.is_none_or(|room| room >= object_len),
            Self::Parts(_) => true,
        }
    }

    /// Whether an object of this length fits into the room, or has all wanted parts.
    pub(super) fn lies_within(&self, object_len: u64) -> bool {
        match self {
            Self::Whole { .. } => self.fits(object_len),
            Self::Parts(parts) => parts.iter().all(|part| part.lies_within(object_len)),
        }
    }
}
