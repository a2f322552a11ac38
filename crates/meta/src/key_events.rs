//! Which keys are kept where, for those outside who follow that: what has changed, and all that there is.
//!
//! Every change of an object's replicas names its key ([`touch_key`](crate::Meta::touch_key)). What became of it is looked up when
//! the events are taken, so a key that was removed and put again meanwhile is told of once, or not at all.

use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// Where replicas of a finished object are, in sight or not. Those of a segment that was unmounted go one after the other.
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

/// A key is kept elsewhere than before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyEvent {
    /// The key.
    pub key: Box<str>,
    /// Where it was as far as was told.
    pub before: Tiers,
    /// Where it is.
    pub now: Tiers,
}

/// What those who follow were told. It costs some hundred bytes for each change until that is taken, and 16 for each key.
#[derive(Debug, Default)]
pub(crate) struct KeyEvents {
    /// By the hash of the key.
    pub(crate) told: HashMap<u64, Tiers, FixedState>,
    /// Keys of which something may have changed since.
    pub(crate) touched: Vec<Box<str>>,
}
