use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// The tiers on which a finished object has replicas, whether or not their segments are in sight. Replicas on an
/// unmounted segment count until the leader has dropped their records, one by one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tiers {
    /// At least one replica lies in memory of a node.
    pub memory: bool,
    /// At least one replica lies on a disk.
    pub disk: bool,
}

impl Tiers {
    /// No replica.
    pub const NONE: Tiers = Tiers { memory: false, disk: false };
}

/// What the put of an object said about it, for those who follow events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyLabels {
    /// The name of its group; empty for none.
    pub group: Box<str>,
    /// The session that it belongs to; empty for none, and if it was put under an earlier leader.
    pub session: Box<str>,
}

/// The replicas of a key moved to other tiers, or are gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyEvent {
    /// The key.
    pub key: Box<str>,
    /// The tiers by the last event.
    pub before: Tiers,
    /// The tiers now.
    pub now: Tiers,
    /// The labels of the object that the key has now.
    pub labels: KeyLabels,
}

/// The keys and tiers that events have told so far. Costs 16 bytes for each key, and some hundred bytes for each
/// change until the shell takes it.
#[derive(Debug, Default)]
pub(crate) struct KeyEvents {
    /// The tiers that the last event told, by the hash of the key.
    pub(crate) told: HashMap<u64, Tiers, FixedState>,
    /// Keys whose replicas may have changed since the shell last took events.
    pub(crate) changed: Vec<Box<str>>,
    /// The sessions of the objects whose puts named one.
    pub(crate) sessions: HashMap<u32, Box<str>, FixedState>,
}
