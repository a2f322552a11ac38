use mooncake_types::{Epoch, RangeDrop};

/// Most entries that are remembered: a leader does not hear of more, and takes them to be there until it names them.
const MOST: usize = 1 << 16;

/// An entry that was dropped for an earlier leader, while the node obeyed a later one: that may have been told before that
/// the entry is there. It is what lay there, which need not be what that leader had named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LateDrop {
    /// Which entry was dropped.
    pub range: RangeDrop,
    /// The object's key.
    pub key: Box<str>,
}

/// Those of one node that are still to be told.
#[derive(Debug, Default)]
pub struct LateDrops {
    entries: Vec<LateDrop>,
}

impl LateDrops {
    /// An entry, which could be read, was dropped, and this is the highest epoch that was seen by then.
    pub fn note(&mut self, dropped: LateDrop, seen: Epoch) {
        if dropped.range.grant.epoch < seen && self.entries.len() < MOST {
            self.entries.push(dropped);
        }
    }

    /// All of them, once.
    #[must_use]
    pub fn take(&mut self) -> Vec<LateDrop> {
        std::mem::take(&mut self.entries)
    }
}
