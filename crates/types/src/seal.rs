use std::fmt;

/// A keyed hash over what a master allows: to read, to write or to drop an entry, or to follow a ledger. The master gives
/// it with each grant, route and order to drop; the node checks it. Clients carry it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seal(pub u64);

impl Seal {
    /// The seal of a pool without secrets: its nodes check none.
    pub const NONE: Self = Self(0);
}

/// The key of the seals of one node under one leader. Only these two have it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SealKey(pub [u8; 16]);

/// Secrets stand in no log.
impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealKey")
    }
}
