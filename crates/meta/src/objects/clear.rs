//! Clearing: a client drops replicas of objects that it put.

use mooncake_types::{ClientId, ErrorCode};

use super::record::{ObjectState, QueueKind};
use crate::Meta;
use crate::meta::check_key;
use crate::slab::NONE;
use crate::tombstones::Gathered;

impl Meta {
    /// Drops the replicas of an object on segments of that name, or all of them if it is empty. Names what nodes still hold.
    pub(crate) fn clear(
        &mut self,
        from: ClientId,
        key: &str,
        segment: &str,
        gathered: &mut Gathered,
    ) -> Result<(), ErrorCode> {
        check_key(key)?;
        self.touch(key);
        let result = self.clear_replicas(from, key, segment);
        self.gather_tombstones(key, None, gathered);
        result
    }

    fn clear_replicas(
        &mut self,
        from: ClientId,
        key: &str,
        segment: &str,
    ) -> Result<(), ErrorCode> {
        let object = self.find_living(key).ok_or(ErrorCode::ObjectNotFound)?;
        if self.objects[object].writer != self.number_of(from) {
            return Err(ErrorCode::IllegalClient);
        }
        if self.objects[object].state != ObjectState::Complete {
            return Err(ErrorCode::ReplicaIsNotReady);
        }
        if self.is_young(object) || !self.leaving.of_key(key).is_empty() {
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

    /// Whether the object is leased, or nobody has read it and it was put so recently that somebody may be about to.
    fn is_young(&self, object: u32) -> bool {
        let record = &self.objects[object];
        let was_read = matches!(
            self.ranges[record.first_range].queue,
            QueueKind::Leased | QueueKind::PinnedLeased
        );
        let grace_ms = if was_read { 0 } else { self.config.lease_ttl_ms };
        record.touched.after_ms(grace_ms) > self.now
    }

    /// The replicas of an object that lie, at least in part, on segments of that name, as bits.
    pub(crate) fn replicas_on(&self, object: u32, name: &str) -> u32 {
        self.ranges_of(object)
            .filter(|(_, range)| &*self.segments[range.segment].name == name)
            .fold(0, |set, (_, range)| set | 1 << range.replica)
    }
}
