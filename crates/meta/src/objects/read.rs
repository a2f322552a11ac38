//! Reads: where objects lie, whether they exist, and the lease that either question grants.

use mooncake_types::mutation::{Rule, is_broken};
use mooncake_types::{ErrorCode, ExistOptions, Reply};

use super::index::Hashed;
use super::index::check_key;
use super::record::{ObjectState, QueueKind};
use crate::Meta;
use crate::segments::AddressTable;
use crate::slab::NONE;

impl Meta {
    /// Where these objects lie. `uses` says how often each key was read; a key beyond its end was read once.
    pub(crate) fn get_replica_list(&mut self, keys: &[&str], uses: &[u32]) -> Reply {
        let mut table = AddressTable::default();
        let found: Vec<Result<u32, ErrorCode>> = keys.iter().map(|key| self.look_up(key)).collect();
        let locate =
            |found: &Result<u32, ErrorCode>| found.map(|object| self.locate(object, &mut table));
        let mut results: Vec<_> = found.iter().map(locate).collect();
        // From the last to the first, so that the first object becomes the most recently used.
        for (place, object) in found.into_iter().enumerate().rev() {
            let Ok(object) = object else { continue };
            self.access(object);
            self.note_named(object);
            let reads = uses.get(place).copied().unwrap_or(1);
            self.note_reads(object, reads);
            self.note_disk_reads(object, reads);
            self.offload_used(object);
        }
        let mut successors = Vec::new();
        let mut until = self.now.after_ms(self.config.lease_ttl_ms);
        if self.tombstones.leased().len() > 0 {
            for (item, found) in keys.iter().copied().enumerate().zip(&mut results) {
                let end = self.precede(item, found, (&mut successors, &mut table));
                until = end.map_or(until, |end| until.min(end));
            }
        }
        let predecessors = self.gather_predecessors(keys, &mut results, &mut table);
        let (segments, lease_ms) = (table.into_addresses(), until.since_ms(self.now));
        Reply::Located { results, successors, predecessors, segments, lease_ms }
    }

    fn look_up(&mut self, key: &str) -> Result<u32, ErrorCode> {
        check_key(key)?;
        self.counters.lookups += 1;
        let found = self.find_finished(key);
        self.count_tenant_lookup(key, found.is_ok());
        found
    }

    /// The object of a key, if readers may get it.
    pub(crate) fn find_finished(&mut self, key: &str) -> Result<u32, ErrorCode> {
        let object = self.find_readable(key).ok_or(ErrorCode::ObjectNotFound)?;
        if self.objects[object].state != ObjectState::Complete {
            return Err(ErrorCode::ReplicaIsNotReady);
        }
        Ok(object)
    }

    pub(crate) fn exist(&mut self, key: &str, options: ExistOptions) -> Result<bool, ErrorCode> {
        let found = self.find_existing(key)?;
        if let Some(object) = found.filter(|_| !options.probe) {
            self.access(object);
        }
        if let (Some(object), Some(limits)) = (found, options.prefetch) {
            self.prefetch_found(object, limits);
        }
        Ok(found.is_some())
    }

    /// How many keys have objects, from the first key on without a gap. Those from position `leased_from` on get leases.
    pub(crate) fn prefix_len(&mut self, keys: &[&str], leased_from: u32) -> Reply {
        let mut found = Vec::new();
        for key in keys {
            match self.find_existing(key) {
                Ok(Some(object)) => found.push(object),
                Ok(None) => break,
                Err(code) => return Reply::Refused(code),
            }
        }
        // From the last to the first, so that the first object becomes the most recently used.
        for (place, &object) in found.iter().enumerate().rev() {
            match place < leased_from as usize {
                true => self.freshen(object),
                false => self.access(object),
            }
        }
        Reply::PrefixLen(found.len() as u32)
    }

    /// Makes an object the most recently used, without a lease and without counting a use: its caller holds a copy, and
    /// needs the objects that lie behind it.
    fn freshen(&mut self, object: u32) {
        if !self.is_leased(object) && !self.usage.keeps_places() {
            self.requeue(object, self.queue_after(object, false));
        }
    }

    /// The object of a key, if it is finished and readers may get it.
    fn find_existing(&mut self, key: &str) -> Result<Option<u32>, ErrorCode> {
        check_key(key)?;
        let found = self.find_readable(key);
        Ok(found.filter(|&object| self.objects[object].state == ObjectState::Complete))
    }

    /// The object that holds a key, in sight or not. Drops a finished object that has lost all its replicas, and
    /// looks again.
    pub(super) fn find_living(&mut self, key: Hashed<'_>) -> Option<u32> {
        loop {
            let object = self.index.get(&self.objects, key)?;
            if self.objects[object].state != ObjectState::Complete || self.lives(object) {
                return Some(object);
            }
            self.drop_lost(object);
        }
    }

    /// The object of a key as readers see it. A finished object that cannot be read does not count; the put that is
    /// to replace it counts instead.
    pub(crate) fn find_readable(&mut self, key: &str) -> Option<u32> {
        let hashed = self.index.hashed(key);
        let object = self.index.get(&self.objects, hashed)?;
        if self.is_readable(object) {
            return Some(object);
        }
        self.reveal(object);
        let object = self.find_living(hashed)?;
        match self.objects[object].state == ObjectState::Complete && !self.is_readable(object) {
            true => self.next_holder(key),
            false => Some(object),
        }
    }

    /// Leases the object and its group, and makes them the most recently used.
    fn access(&mut self, object: u32) {
        self.access_alone(object);
        let group = self.objects[object].group;
        if group != NONE {
            self.lease_group(group);
        }
    }

    pub(super) fn access_alone(&mut self, object: u32) {
        let until = self.now.after_ms(self.config.lease_ttl_ms);
        if self.objects[object].leased_until() >= until || is_broken(Rule::ReadsGrantLeases) {
            return;
        }
        // Accesses under one lease are one use: a client looks up a key before it reads the object, perhaps in
        // several processes.
        let under_lease = self.is_leased(object);
        self.objects.at_mut(object).time = until;
        self.slide_soft_pin(object);
        let kind = self.queue_after(object, true);
        if kind != QueueKind::Leased && self.usage.keeps_places() {
            return self.access_in_place(object, kind, under_lease);
        }
        match under_lease {
            true => self.requeue(object, kind),
            false => self.requeue_used(object, kind),
        }
    }

    /// An access under a policy by which objects keep their places, unless they are pinned.
    fn access_in_place(&mut self, object: u32, kind: QueueKind, under_lease: bool) {
        if !under_lease {
            self.note_visit(object);
        }
        if kind != QueueKind::Fresh {
            self.requeue(object, kind);
        }
    }

    /// Whether the object is finished and has a lease that is not over.
    pub(crate) fn is_leased(&self, object: u32) -> bool {
        let record = &self.objects[object];
        record.state == ObjectState::Complete && record.leased_until() > self.now
    }

    /// Grants a lease on an object from now on, without counting a use.
    pub(crate) fn lease_anew(&mut self, object: u32) {
        let until = self.now.after_ms(self.config.lease_ttl_ms);
        let record = self.objects.at_mut(object);
        record.time = until;
        if record.group != NONE {
            self.groups.note_lease(record.group, until);
        }
        self.requeue(object, self.queue_after(object, true));
    }
}
