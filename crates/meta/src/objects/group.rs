//! Groups: objects that are leased together and evicted together.
//!
//! A group has at most [`MAX_GROUP_OBJECTS`](mooncake_types::limits::MAX_GROUP_OBJECTS) objects. Further ones of the same name
//! begin another group of that name, which lives apart from the first.

use mooncake_types::Tick;

use super::record::{ObjectState, Pin};
use crate::Meta;
use crate::slab::NONE;

impl Meta {
    /// The name of an object's group.
    pub(crate) fn group_name(&self, object: u32) -> Option<&str> {
        let slot = self.objects[object].group;
        (slot != NONE).then(|| &*self.groups.slots[slot].name)
    }

    /// Makes an object a member of the group of that name; an empty name is none.
    pub(crate) fn join_group(&mut self, object: u32, name: &str) {
        if !name.is_empty() {
            let slot = self.groups.open(name);
            self.enter_group(object, slot);
        }
    }

    /// Makes an upsert a member of the group of the object whose place it is to take.
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
    }

    /// A task is about an object from now on, or is so no longer.
    pub(crate) fn count_task_in_group(&mut self, object: u32, is_begun: bool) {
        let group = self.objects[object].group;
        if group != NONE {
            self.groups.count_task(group, if is_begun { 1 } else { -1 });
        }
    }

    /// The object is going, and its membership with it.
    pub(super) fn leave_group(&mut self, object: u32) {
        let record = self.objects.at_mut(object);
        let slot = std::mem::replace(&mut record.group, NONE);
        if slot == NONE {
            return;
        }
        let pinned = record.state == ObjectState::Complete && record.pin == Pin::Hard;
        let group = &mut self.groups.slots[slot];
        group.hard -= u32::from(pinned);
        let place = group.members.binary_search(&object).expect("a group knows its members");
        group.members.remove(place);
        if group.members.is_empty() {
            self.groups.close(slot);
        }
    }

    /// An object became readable: the next access to its group leases it too.
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
            // Most of them have gone again.
            group.newcomers.clear();
            group.refreshed_until = Tick::ZERO;
        }
    }

    /// An access to a member: all members are leased. Those that were leased not long ago are left as they are.
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

    /// Leases those of these objects that are readable members of the group.
    fn lease_members(&mut self, slot: u32, objects: &[u32]) {
        for &object in objects {
            let found = self.objects.get(object);
            if found.is_some_and(|it| it.group == slot && it.state == ObjectState::Complete) {
                self.access_alone(object);
            }
        }
    }

    /// Whether eviction must leave a group alone: a reader may be at one of its objects, or one is pinned.
    pub(crate) fn group_stays(&self, slot: u32, pinned_too: bool) -> bool {
        let group = &self.groups.slots[slot];
        group.leased_until > self.now || group.hard > 0 || (!pinned_too && group.soft > 0)
    }
}
