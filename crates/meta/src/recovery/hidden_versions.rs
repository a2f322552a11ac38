//! Versions that hide older ones of their keys on segments that are behind, and go although nobody removed them: they are
//! evicted, or nodes lose their bytes. The record must overrule the older ones before, or a later leader would serve them.

use mooncake_types::{RangeDrop, Version};

use super::written_ahead::before;
use crate::Meta;
use crate::objects::check_key;

impl Meta {
    /// Whether an object may be evicted: the record has its key, or it hides no older version on a segment that is
    /// behind.
    pub(crate) fn may_be_evicted(&mut self, object: u32) -> bool {
        if !self.members.has_trackable() {
            return true;
        }
        let (key, version) = (self.objects[object].key.clone(), self.objects[object].version);
        !self.may_hide_older(object) || self.write_ahead(&key, version)
    }

    /// Whether segments that are behind may hold an older version of an object.
    fn may_hide_older(&self, object: u32) -> bool {
        let record = &self.objects[object];
        let is_newer = |oldest: Version| record.version > oldest;
        self.members.oldest_lacking().is_some_and(is_newer)
            || self.is_replacing(object)
            || self.has_outdated(self.index.hash(&record.key))
    }

    /// Whether an object may lose a replica whose bytes are gone: segments in step hold another one, or the record has
    /// the versions that the object hides. False while the change is under way.
    pub(crate) fn may_lose(&mut self, object: u32, replica: u8) -> bool {
        if !self.members.has_trackable() {
            return true;
        }
        let lacking = self.replicas_where(object, |range| !self.is_in_step(range));
        if self.has_replica_but(object, lacking | 1 << replica) || !self.may_hide_older(object) {
            return true;
        }
        let (key, replaced) = (self.objects[object].key.clone(), self.objects[object].version);
        self.write_ahead(&key, before(replaced))
    }

    /// Whether this leader and later ones know what a version hid that a member lost before it reported. The member tells of
    /// its losses first, and segments that are behind report after it. So the leader believes no older version of the
    /// key from now on. False while the change of the record is under way.
    ///
    /// The put of the lost version may never have ended. Then its key has lost the older version as well.
    pub(crate) fn is_loss_told(&mut self, key: &str, lost: &RangeDrop) -> bool {
        let is_of_earlier_leader = lost.version.epoch < self.term.epoch();
        if !is_of_earlier_leader
            || !self.recovery.is_missing(lost.segment)
            || check_key(key).is_err()
        {
            return true;
        }
        self.overrule_below(self.index.hash(key), lost.version);
        self.write_ahead(key, before(lost.version))
    }
}
