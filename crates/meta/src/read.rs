//! Reading: where objects lie, whether they exist, and the lease that both grant.

use mooncake_types::{ErrorCode, Located, Reply};

use crate::Meta;
use crate::meta::check_key;
use crate::record::ObjectState;
use crate::reply::AddressTable;
use crate::slab::NONE;

impl Meta {
    pub(crate) fn get_replica_list(&mut self, keys: &[&str]) -> Reply {
        let mut table = AddressTable::default();
        let results = keys.iter().map(|key| self.read(key, &mut table)).collect();
        Reply::Located {
            results,
            segments: table.into_addresses(),
            lease_ms: self.config.lease_ttl_ms,
        }
    }

    fn read(&mut self, key: &str, table: &mut AddressTable) -> Result<Located, ErrorCode> {
        check_key(key)?;
        self.counters.lookups += 1;
        let object = self.find_living(key).ok_or(ErrorCode::ObjectNotFound)?;
        if self.objects[object].state != ObjectState::Complete {
            return Err(ErrorCode::ReplicaIsNotReady);
        }
        self.access(object);
        self.counters.lookup_hits += 1;
        self.counters.lookup_hit_bytes += self.objects[object].len;
        Ok(self.locate(object, table))
    }

    pub(crate) fn exist(&mut self, key: &str) -> Result<bool, ErrorCode> {
        check_key(key)?;
        let Some(object) = self.find_living(key) else { return Ok(false) };
        if self.objects[object].state != ObjectState::Complete {
            return Ok(false);
        }
        self.access(object);
        Ok(true)
    }

    /// The object of a key; a finished one that no segment holds any more is dropped on the way.
    pub(crate) fn find_living(&mut self, key: &str) -> Option<u32> {
        loop {
            let object = self.find(key)?;
            if self.objects[object].state != ObjectState::Complete || self.is_readable(object) {
                return Some(object);
            }
            self.drop_lost(object);
        }
    }

    /// Grants a lease and makes the object the most recently used one, together with its group.
    pub(crate) fn access(&mut self, object: u32) {
        self.access_alone(object);
        let group = self.objects[object].group;
        if group != NONE {
            self.lease_group(group);
        }
    }

    pub(crate) fn access_alone(&mut self, object: u32) {
        let until = self.now.after_ms(self.config.lease_ttl_ms);
        if self.objects[object].touched >= until {
            return;
        }
        self.objects[object].touched = until;
        self.slide_soft_pin(object);
        self.requeue(object, self.queue_after(object, true));
    }

    /// Whether a reader may be reading the object under a lease.
    pub(crate) fn is_leased(&self, object: u32) -> bool {
        let record = &self.objects[object];
        record.state == ObjectState::Complete && record.touched > self.now
    }
}
