//! What a new leader found that was granted while nodes may have held an older version of its key, as its entries say.
//!
//! A member that has not reported may hold the older one still. So what was found is not read before routes from under the
//! last leader are over, and whoever has not reported is marked behind in the record: no later leader takes its word. This
//! leader may take it until its window is over. If it loses or evicts what it found meanwhile, what is older is not
//! believed any more.

use std::collections::BTreeSet;

use crate::Meta;

/// The objects of which that is so, as long as members may report.
#[derive(Debug, Default)]
pub(crate) struct Replacing(BTreeSet<u32>);

impl Replacing {
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.iter().copied()
    }
}

impl Meta {
    /// An object was found that may have taken the place of another.
    pub(crate) fn note_replacing(&mut self, object: u32) {
        if self.recovery.may_report() || !self.recovery.is_settled() {
            self.recovery.replacing.0.insert(object);
        }
    }

    /// Whether members that have not reported may hold an older version of what was found.
    pub(crate) fn is_replacing(&self, object: u32) -> bool {
        self.recovery.replacing.0.contains(&object)
    }

    /// Whether nobody may read an object yet.
    pub(crate) fn is_unsettled(&self, object: u32) -> bool {
        self.is_replacing(object) && !self.recovery.is_settled()
    }

    /// An object holds its key no longer.
    pub(crate) fn forget_replacing(&mut self, object: u32) {
        if self.recovery.replacing.0.remove(&object) {
            let record = &self.objects[object];
            let hash = self.index.hash(&record.key);
            self.touch_below(hash, record.version);
        }
    }

    /// Forgets them all once nobody may report any more what is older.
    pub(crate) fn forget_all_replacing_if_due(&mut self) {
        if self.recovery.is_settled() && !self.recovery.may_report() {
            self.recovery.replacing = Replacing::default();
        }
    }
}
