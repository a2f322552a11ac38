//! All groups, and what is known of each.

use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use mooncake_types::{Tick, limits};

use crate::slab::Slab;

/// Objects whose leases the accesses of one request prolong only because they share a group with what was read.
const REFRESHES_PER_REQUEST: usize = 16_384;

/// All groups that have objects.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    pub(super) slots: Slab<Group>,
    /// The group of a name that new objects join.
    open: HashMap<Arc<str>, u32, FixedState>,
    /// How many more leases this request may prolong only because of a group.
    pub(super) refreshes_left: usize,
}

/// Objects that share leases.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) name: Arc<str>,
    /// In growing order; running puts too.
    pub(super) members: Vec<u32>,
    /// Finished members that are hard-pinned.
    pub(super) hard: u32,
    /// Members whose soft pins are in force.
    pub(super) soft: u32,
    /// Members that a task is about.
    pub(super) tasks: u32,
    /// The furthest lease of any member, past ones included.
    pub(super) leased_until: Tick,
    /// When the leases of all members were last prolonged: to this moment.
    pub(super) refreshed_until: Tick,
    /// Members that became readable since then, and have no lease yet. Some may have gone again.
    pub(super) newcomers: Vec<u32>,
}

impl Groups {
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The objects of a group, in growing order; running puts too.
    pub(crate) fn members(&self, slot: u32) -> &[u32] {
        &self.slots[slot].members
    }

    /// Another request begins.
    pub(crate) fn begin_request(&mut self) {
        self.refreshes_left = REFRESHES_PER_REQUEST;
    }

    /// A member is leased until then.
    pub(super) fn note_lease(&mut self, slot: u32, until: Tick) {
        let group = &mut self.slots[slot];
        group.leased_until = group.leased_until.max(until);
    }

    /// The soft pin of a member came into force, or is no more.
    pub(super) fn count_soft(&mut self, slot: u32, change: i32) {
        let group = &mut self.slots[slot];
        group.soft = group.soft.strict_add_signed(change);
    }

    /// A task is about a member, or is so no longer.
    pub(super) fn count_task(&mut self, slot: u32, change: i32) {
        let group = &mut self.slots[slot];
        group.tasks = group.tasks.strict_add_signed(change);
    }

    /// Whether a task is about any member.
    pub(crate) fn has_task(&self, slot: u32) -> bool {
        self.slots[slot].tasks > 0
    }

    /// The group that an object of this name joins.
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
