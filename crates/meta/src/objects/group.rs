//! Groups: objects that are leased together and evicted together.
//!
//! A group has at most [`MAX_GROUP_OBJECTS`](mooncake_types::limits::MAX_GROUP_OBJECTS) objects. Further objects with
//! the same group name begin another group, which shares nothing with the first.

use mooncake_types::{Tick, split_tenant, stored_beside};

use super::record::{ObjectState, Pin};
use crate::Meta;
use crate::slab::NONE;

impl Meta {
    /// The name of an object's group, if it has one.
    pub(crate) fn group_name(&self, object: u32) -> Option<&str> {
        let slot = self.objects[object].group;
        (slot != NONE).then(|| split_tenant(&self.groups.slots[slot].name).1)
    }

    /// Adds an object to the group of this name. An empty name stands for no group.
    pub(crate) fn join_group(&mut self, object: u32, name: &str) {
        if !name.is_empty() {
            // Tenants have groups of their own, as they have keys.
            let stored = stored_beside(&self.objects[object].key, name);
            let slot = self.groups.open(&stored);
            self.enter_group(object, slot);
        }
    }

    /// Adds an upsert to the group of the object that it is to replace.
    pub(super) fn join_group_of(&mut self, object: u32, other: u32) {
        match self.objects[other].group {
            NONE => {}
            slot => self.enter_group(object, slot),
        }
    }

    fn enter_group(&mut self, object: u32, slot: u32) {
        self.objects.at_mut(object).group = slot;
        let group = &mut self.groups.slots[slot];
        let place = group.members.partition_point(|&member| member < object);
        group.members.insert(place, object);
        self.count_bytes_in_group(object, self.bytes_of(object));
    }

    fn bytes_of(&self, object: u32) -> i64 {
        self.ranges_of(object).map(|(_, range)| range.len as i64).sum()
    }

    /// Counts bytes that an object's ranges have from now on, or (below zero) have not any more.
    pub(super) fn count_bytes_in_group(&mut self, object: u32, change: i64) {
        let group = self.objects[object].group;
        if group != NONE {
            let bytes = &mut self.groups.slots[group].bytes;
            *bytes = bytes.strict_add_signed(change);
        }
    }

    /// Notes that a task of an object begins or ends.
    pub(crate) fn count_task_in_group(&mut self, object: u32, is_begun: bool) {
        let group = self.objects[object].group;
        if group != NONE {
            self.groups.count_task(group, if is_begun { 1 } else { -1 });
        }
    }

    /// Removes an object from its group, because the object loses its key or its record.
    pub(super) fn leave_group(&mut self, object: u32) {
        if self.objects[object].group == NONE {
            return;
        }
        self.count_bytes_in_group(object, -self.bytes_of(object));
        let record = self.objects.at_mut(object);
        let slot = std::mem::replace(&mut record.group, NONE);
        let pinned = record.state == ObjectState::Complete && record.pin == Pin::Hard;
        let group = &mut self.groups.slots[slot];
        group.hard -= u32::from(pinned);
        let place = group.members.binary_search(&object).expect("a group knows its members");
        group.members.remove(place);
        if group.members.is_empty() {
            self.groups.close(slot);
        }
    }

    /// Notes that an object became readable. The next access to its group leases it too.
    pub(crate) fn count_in_group(&mut self, object: u32) {
        let record = &self.objects[object];
        if record.group == NONE {
            return;
        }
        let group = &mut self.groups.slots[record.group];
        group.hard += u32::from(record.pin == Pin::Hard);
        if group.newcomers.len() < group.members.len() {
            group.newcomers.push(object);
        } else {
            // Most newcomers have left the group again: the next access leases all members.
            group.newcomers.clear();
            group.refreshed_until = Tick::ZERO;
        }
    }

    /// Leases the members of a group, because one was accessed. If all were leased together recently, only the
    /// newcomers since then are leased. Does nothing once the request has prolonged too many leases.
    pub(super) fn lease_group(&mut self, slot: u32) {
        let until = self.now.after_ms(self.config.lease_ttl_ms);
        let soon = self.now.after_ms(self.config.lease_ttl_ms / 2);
        let group = &mut self.groups.slots[slot];
        group.leased_until = until;
        let all = group.refreshed_until <= soon;
        let count = if all { group.members.len() } else { group.newcomers.len() };
        if count > self.groups.refreshes_left {
            return;
        }
        self.groups.refreshes_left -= count;
        let newcomers = std::mem::take(&mut group.newcomers);
        if !all {
            return self.lease_members(slot, &newcomers);
        }
        group.refreshed_until = until;
        let members = group.members.clone();
        self.lease_members(slot, &members);
    }

    /// Leases the finished members of the group among these objects.
    fn lease_members(&mut self, slot: u32, objects: &[u32]) {
        for &object in objects {
            let found = self.objects.get(object);
            if found.is_some_and(|it| it.group == slot && it.state == ObjectState::Complete) {
                self.access_alone(object);
            }
        }
    }

    /// Whether eviction must leave a group alone: a member is leased, hard-pinned, or soft-pinned unless
    /// `pinned_too`.
    pub(crate) fn group_stays(&self, slot: u32, pinned_too: bool) -> bool {
        let group = &self.groups.slots[slot];
        group.leased_until > self.now || group.hard > 0 || (!pinned_too && group.soft > 0)
    }
}
