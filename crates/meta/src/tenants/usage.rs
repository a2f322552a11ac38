//! What is known of the use of objects, for each tenant apart. What others use changes neither the order in which the
//! objects of a tenant go, nor which of its evicted keys are remembered.
//!
//! Disks have one lane for all tenants. What is known of the use of all objects together orders the ranges there.

use super::account::Tenants;
use super::lane::account_of_lane;
use crate::Meta;
use crate::eviction::Usage;
use crate::objects::Class;

impl Tenants {
    /// What is known of the use of the objects of the tenant that has this stored key, and how many it has in memory;
    /// none if it has no account.
    fn usage_of_key(&mut self, key: &str) -> Option<(&mut Usage, usize)> {
        if !self.is_enforced() {
            return None;
        }
        let account = self.of_key(key)?;
        let account = &mut self.accounts[account];
        Some((&mut account.usage, account.objects as usize))
    }
}

impl Meta {
    /// What is known of the use of the objects of a lane.
    #[inline]
    pub(crate) fn usage_of(&self, lane: u32) -> &Usage {
        match account_of_lane(lane) {
            Some(account) => &self.tenants.accounts[account].usage,
            None => &self.usage,
        }
    }

    /// Counts a use of an object, or the moment at which it became readable. Learns from it if the key is in the
    /// sample.
    pub(crate) fn learn_use(&mut self, object: u32, class: Class) {
        let key = &self.objects[object].key;
        let hash = || self.index.hash(key);
        if let Some((usage, objects)) = self.tenants.usage_of_key(key) {
            usage.note_use(class, objects, hash);
        }
        self.usage.note_use(class, self.objects.len(), hash);
    }

    /// Notes that an object is evicted. It has no range any more, and still holds its key.
    pub(crate) fn note_evicted(&mut self, object: u32, class: Class) {
        let key = &self.objects[object].key;
        let hash = self.index.hash(key);
        match self.tenants.usage_of_key(key) {
            Some((usage, objects)) => usage.note_evicted(hash, class, objects),
            None => self.usage.note_evicted(hash, class, self.objects.len()),
        }
    }

    /// Takes the note of a stored key: how often its object had been used, if it was evicted recently.
    pub(crate) fn recall_evicted(&mut self, (key, hash): (&str, u64)) -> Option<u8> {
        match self.tenants.usage_of_key(key) {
            Some((usage, _)) => usage.recall(hash),
            None => self.usage.recall(hash),
        }
    }
}
