//! All groups, and the state of each.

use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use mooncake_types::{Tick, limits};

use crate::slab::Slab;

/// Most objects whose leases one request prolongs only because they share a group with an accessed object.
const REFRESHES_PER_REQUEST: usize = 16_384;

/// All groups that have objects.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    pub(super) slots: Slab<Group>,
    /// By name, the group that new objects join.
    open: HashMap<Arc<str>, u32, FixedState>,
    /// How many more leases the current request may prolong only because of a group.
    pub(super) refreshes_left: usize,
}

/// Objects that are leased together and evicted together.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) name: Arc<str>,
    /// In growing order of their indices, running puts included.
    pub(super) members: Vec<u32>,
    /// Bytes of all ranges of the members.
    pub(super) bytes: u64,
    /// Finished members that are hard-pinned.
    pub(super) hard: u32,
    /// Members whose soft pins are in force.
    pub(super) soft: u32,
    /// Members that have a task.
    pub(super) tasks: u32,
    /// The latest end of any lease of a member. It may have passed.
    pub(super) leased_until: Tick,
    /// When all members were last leased together: the end of these leases.
    pub(super) refreshed_until: Tick,
    /// Members that became readable since then and have no lease yet. Some may have left the group again.
    pub(super) newcomers: Vec<u32>,
}

impl Groups {
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The members of a group in growing order of their indices, running puts included.
    pub(crate) fn members(&self, slot: u32) -> &[u32] {
        &self.slots[slot].members
    }

    /// Bytes of all ranges of the members of a group.
    pub(crate) fn bytes(&self, slot: u32) -> u64 {
        self.slots[slot].bytes
    }

    /// Lets the next request prolong its full number of leases.
    pub(crate) fn begin_request(&mut self) {
        self.refreshes_left = REFRESHES_PER_REQUEST;
    }

    /// Notes that a member is leased until this time.
    pub(super) fn note_lease(&mut self, slot: u32, until: Tick) {
        let group = &mut self.slots[slot];
        group.leased_until = group.leased_until.max(until);
    }

    /// Counts a soft pin of a member that came into force (1) or ended (-1).
    pub(super) fn count_soft(&mut self, slot: u32, change: i32) {
        let group = &mut self.slots[slot];
        group.soft = group.soft.strict_add_signed(change);
    }

    /// Counts a task of a member that began (1) or ended (-1).
    pub(super) fn count_task(&mut self, slot: u32, change: i32) {
        let group = &mut self.slots[slot];
        group.tasks = group.tasks.strict_add_signed(change);
    }

    /// Whether any member has a task.
    pub(crate) fn has_task(&self, slot: u32) -> bool {
        self.slots[slot].tasks > 0
    }

    /// The group that a new object with this group name joins. Opens another if there is none or it is full.
    pub(super) fn open(&mut self, name: &str) -> u32 {
        if let Some(&slot) = self.open.get(name)
            && self.slots[slot].members.len() < limits::MAX_GROUP_OBJECTS
        {
            return slot;
        }
        let name: Arc<str> = name.into();
        let group = Group {
            name: Arc::clone(&name),
            members: Vec::new(),
            bytes: 0,
            hard: 0,
            soft: 0,
            tasks: 0,
            leased_until: Tick::ZERO,
            refreshed_until: Tick::ZERO,
            newcomers: Vec::new(),
        };
        let slot = self.slots.insert(group);
        self.open.insert(name, slot);
        slot
    }

    pub(super) fn close(&mut self, slot: u32) {
        let name = self.slots.remove(slot).name;
        if self.open.get(&name) == Some(&slot) {
            self.open.remove(&name);
        }
    }
}
