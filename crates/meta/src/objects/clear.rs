//! Clearing: a client drops replicas of objects that it has put.

use mooncake_types::{ClientId, ErrorCode};

use super::index::check_key;
use super::record::{ObjectState, QueueKind};
use crate::Meta;
use crate::slab::NONE;
use crate::tombstones::DropList;

impl Meta {
    /// Drops the replicas of an object on segments with the name `segment`; all replicas if the name is empty.
    /// Gathers the entries that nodes may still hold.
    pub(crate) fn clear(
        &mut self,
        from: ClientId,
        key: &str,
        segment: &str,
        gathered: &mut DropList,
    ) -> Result<(), ErrorCode> {
        check_key(key)?;
        let hash = self.index.hash(key);
        self.overrule(hash);
        let result = self.clear_replicas(from, key, segment);
        if result.is_ok() {
            gathered.name_again(hash);
        }
        self.gather_tombstones(hash, None, gathered);
        result
    }

    fn clear_replicas(
        &mut self,
        from: ClientId,
        key: &str,
        segment: &str,
    ) -> Result<(), ErrorCode> {
        let object = self.find_living(self.index.hashed(key)).ok_or(ErrorCode::ObjectNotFound)?;
        if self.objects[object].writer != self.number_of(from) {
            return Err(ErrorCode::IllegalClient);
        }
        if self.objects[object].state != ObjectState::Complete {
            return Err(ErrorCode::ReplicaIsNotReady);
        }
        if self.is_young(object) || !self.tombstones.leased().of_key(key).is_empty() {
            return Err(ErrorCode::ObjectHasLease);
        }
        let set = match segment {
            "" => u32::MAX,
            name => self.replicas_on(object, name),
        };
        if set == 0 {
            return Err(ErrorCode::ReplicaNotFound);
        }
        self.give_way(object)?;
        self.free_replicas(object, set);
        if self.objects[object].first_range == NONE {
            self.drop_object(object);
        } else {
            self.ask_for_no_more(object);
        }
        Ok(())
    }

    /// Whether the object is leased, or was put less than a lease ago and has had no lease yet.
    fn is_young(&self, object: u32) -> bool {
        let grace_ms = if self.was_read(object) { 0 } else { self.config.lease_ttl_ms };
        self.objects[object].leased_until().after_ms(grace_ms) > self.now
    }

    /// Whether the object was leased since its put, as far as its queue and its uses say.
    fn was_read(&self, object: u32) -> bool {
        match self.ranges[self.objects[object].first_range].queue {
            QueueKind::Leased | QueueKind::PinnedLeased => true,
            // Neither hard-pinned objects nor objects that keep their places change queues when they are read.
            QueueKind::Hard => self.was_used_again(object),
            _ => self.usage.keeps_places() && self.was_used_again(object),
        }
    }

    /// The replicas of an object, as bits, that have a range on a segment with this name.
    pub(crate) fn replicas_on(&self, object: u32, name: &str) -> u32 {
        self.replicas_where(object, |range| &*self.segments[range.segment].name == name)
    }
}
