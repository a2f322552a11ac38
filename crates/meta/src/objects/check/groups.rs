use mooncake_types::limits;

use crate::Meta;
use crate::check::{Check, ensure};
use crate::objects::upsert::MOST_BESIDE;
use crate::objects::{ObjectState, Pin};
use crate::slab::NONE;

impl Meta {
    pub(crate) fn every_group_knows_its_members(&self) -> Check {
        let grouped = self.objects.iter().filter(|(_, object)| object.group != NONE);
        let mut expected = 0;
        for (id, object) in grouped {
            expected += 1;
            let members = &self.groups.slots[object.group].members;
            ensure(
                "an object is a member of its group",
                members.binary_search(&id).is_ok(),
                || format!("object {id}: {object:?}, {members:?}"),
            )?;
            let has_key = object.state.holds_key() || object.state.is_running();
            ensure("a member is an object or is to become one", has_key, || {
                format!("object {id}: {object:?}")
            })?;
        }
        let mut counted = 0;
        for (slot, group) in self.groups.slots.iter() {
            counted += group.members.len();
            // Until they end, upserts of members are members too.
            let most = limits::MAX_GROUP_OBJECTS * (1 + MOST_BESIDE);
            ensure(
                "a group is neither empty nor too large",
                (1..=most).contains(&group.members.len()),
                || format!("group {slot} {:?}: {} members", group.name, group.members.len()),
            )?;
            let of_members = group.members.iter().flat_map(|&id| self.ranges_of(id));
            let bytes: u64 = of_members.map(|(_, range)| range.len).sum();
            ensure("bytes of members are counted", bytes == group.bytes, || {
                format!("group {slot}: {bytes}, {} counted", group.bytes)
            })?;
            let complete = |&&id: &&u32| self.objects[id].state == ObjectState::Complete;
            let done = || group.members.iter().filter(complete).map(|&id| &self.objects[id]);
            let hard = done().filter(|object| object.pin == Pin::Hard).count();
            ensure("hard-pinned members are counted", hard == group.hard as usize, || {
                format!("group {slot}: {hard}, {} counted", group.hard)
            })?;
            let soft = group.members.iter().filter(|&&id| self.soft_pin_in_force(id)).count();
            ensure("soft-pinned members are counted", soft == group.soft as usize, || {
                format!("group {slot}: {soft}, {} counted", group.soft)
            })?;
            let tasks = group.members.iter().filter(|&&id| self.has_task(id)).count();
            ensure("members that have tasks are counted", tasks == group.tasks as usize, || {
                format!("group {slot}: {tasks}, {} counted", group.tasks)
            })?;
            ensure(
                "a group is leased as long as any member",
                done().all(|object| object.leased_until() <= group.leased_until.max(self.now)),
                || format!("group {slot}: {group:?}"),
            )?;
        }
        ensure("groups have no other members", counted == expected, || {
            format!("{counted} members, {expected} objects")
        })
    }
}
