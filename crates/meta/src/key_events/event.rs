use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// Where replicas of a finished object lie, whether or not their segments are in sight. Those of a segment that was
/// unmounted go one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tiers {
    /// Memory of a node.
    pub memory: bool,
    /// A disk.
    pub disk: bool,
}

impl Tiers {
    /// Neither.
    pub const NONE: Tiers = Tiers { memory: false, disk: false };
}

/// The replicas of a key moved to other tiers, or went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyEvent {
    /// The key.
    pub key: Box<str>,
    /// Where its replicas lay by the last event.
    pub before: Tiers,
    /// Where they lie.
    pub now: Tiers,
}

/// What events have told so far. It costs some hundred bytes for each change until that is taken, and 16 for each key.
#[derive(Debug, Default)]
pub(crate) struct KeyEvents {
    /// By the hash of the key.
    pub(crate) told: HashMap<u64, Tiers, FixedState>,
    /// Keys whose replicas may have changed since.
    pub(crate) changed: Vec<Box<str>>,
}
