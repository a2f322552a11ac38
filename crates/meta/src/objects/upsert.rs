//! Upserts: a new version of a key is written beside the old one, and replaces it when its put ends.
//!
//! At most one object of a key holds the key: the index leads to it, and readers, removals and other puts meet it.
//! The other objects of the key are puts that have not ended, kept here by key. While one of these can still become
//! readable, some object holds the key. Versions of a key become readable in growing order: a put that a newer
//! version overtook never does.
//!
//! An insert does the same if the object that holds its key cannot be read: it replaces that object.

use mooncake_types::{ErrorCode, PutItem, PutMode, Version};

use super::index::Hashed;
use super::record::{ObjectState, Pin, QueueKind};
use crate::Meta;

/// Most puts of one key beside the object that holds it.
pub(super) const MOST_BESIDE: usize = 64;

impl Meta {
    /// Checks that an upsert of this key may start: the key is free, or the put runs beside the object that holds it.
    pub(super) fn admit_upsert(
        &mut self,
        item: &PutItem<'_>,
        key: Hashed<'_>,
    ) -> Result<(), ErrorCode> {
        let Some(holder) = self.find_holder(key) else { return Ok(()) };
        if self.is_readable(holder) {
            self.ensure_no_callers_task(holder)?;
        }
        if !item.group.is_empty() && self.group_name(holder) != Some(item.group) {
            return Err(ErrorCode::InvalidParams);
        }
        match self.beside(item.key).len() < MOST_BESIDE {
            true => Ok(()),
            false => Err(ErrorCode::ObjectReplicaBusy),
        }
    }

    /// The puts of a key that do not hold it, oldest first.
    pub(crate) fn beside(&self, key: &str) -> &[u32] {
        self.beside.get(key)
    }

    /// The put of a key with this version, if it does not hold the key.
    pub(crate) fn find_beside(&self, key: &str, version: Version) -> Option<u32> {
        self.beside(key).iter().copied().find(|&object| self.objects[object].version == version)
    }

    /// Keeps a put by its key, beside the object that holds the key.
    pub(super) fn put_beside(&mut self, object: u32, state: ObjectState) {
        self.objects.at_mut(object).state = state;
        self.beside.insert(&self.objects, object);
    }

    /// A put loses its key to a finished object of an older version, as if it had begun while that object held the key.
    pub(crate) fn step_aside(&mut self, put: u32) {
        self.index.remove(&self.objects, put);
        self.put_beside(put, ObjectState::Waiting);
    }

    /// Takes its key from an object. The oldest put that waits for the key then holds it.
    pub(crate) fn leave_key(&mut self, object: u32) {
        match self.objects[object].state {
            ObjectState::Processing | ObjectState::Complete => {
                self.index.remove(&self.objects, object);
                self.lose_task(object);
                self.pass_key_on(object);
            }
            ObjectState::Waiting | ObjectState::Overtaken => {
                self.beside.remove(&self.objects, object);
            }
            ObjectState::Tombstone | ObjectState::Copying | ObjectState::Gathering => {}
        }
    }

    /// The put that holds a key next, once the present holder is gone.
    pub(crate) fn next_holder(&self, key: &str) -> Option<u32> {
        let waits = |&put: &u32| self.objects[put].state == ObjectState::Waiting;
        self.beside(key).iter().copied().find(waits)
    }

    fn pass_key_on(&mut self, from: u32) {
        if self.beside.len() == 0 {
            return;
        }
        let Some(next) = self.next_holder(&self.objects[from].key) else { return };
        self.beside.remove(&self.objects, next);
        self.objects.at_mut(next).state = ObjectState::Processing;
        self.index.insert(&self.objects, next);
    }

    /// Gives the key to a put that has ended. The present holder and older puts give way. The entries of older puts
    /// get tombstones: if the newer version were lost, a later leader could serve these entries.
    pub(super) fn take_key(&mut self, object: u32) {
        self.beside.remove(&self.objects, object);
        let version = self.objects[object].version;
        let older = self.beside(&self.objects[object].key).to_vec();
        for put in older {
            let record = self.objects.at_mut(put);
            if record.version < version {
                record.state = ObjectState::Overtaken;
                self.leave_tombstones_of(put);
            }
        }
        let holder = self.find(&self.objects[object].key);
        let holder = holder.expect("somebody holds the key while an upsert waits");
        if self.objects[object].asked.mode() == PutMode::Upsert && self.lives(holder) {
            self.inherit_pin(holder, object);
        }
        let hash = self.index.hash(&self.objects[object].key);
        self.give_key(object, hash, Some(holder));
    }

    /// Gives a key to an object. The present holder gives way: a finished object becomes a tombstone, a put is
    /// overtaken.
    pub(crate) fn give_key(&mut self, object: u32, hash: u64, holder: Option<u32>) {
        if let Some(holder) = holder {
            self.index.remove(&self.objects, holder);
            self.lose_task(holder);
            match self.objects[holder].state {
                ObjectState::Complete => self.leave_leased_tombstone(holder),
                _ => {
                    self.put_beside(holder, ObjectState::Overtaken);
                    self.leave_tombstones_of(holder);
                }
            }
        }
        self.index.insert_hashed(&self.objects, object, hash);
    }

    /// Decides the pin of a new version: the pin that its put asked for, or that of the old version.
    fn inherit_pin(&mut self, old: u32, new: u32) {
        if self.objects[old].pin == Pin::Hard {
            self.forget_soft_pin(new);
            if self.objects[new].pin != Pin::Hard {
                self.objects.at_mut(new).pin = Pin::Hard;
                self.count_newly_pinned(new, &self.range_ids(new, u32::MAX));
            }
        } else if self.objects[new].pin == Pin::Inherited && self.objects[old].pin == Pin::Soft {
            self.hand_over_soft_pin(old, new);
        }
    }

    /// Answers the end of an overtaken put. An upsert counts as done and replaced; an insert came too late.
    pub(super) fn end_overtaken(&mut self, object: u32) -> Result<(), ErrorCode> {
        let mode = self.objects[object].asked.mode();
        self.requeue_put(object, QueueKind::Out);
        self.drop_object(object);
        match mode {
            PutMode::Upsert => Ok(()),
            PutMode::Insert => Err(ErrorCode::ObjectAlreadyExists),
        }
    }
}
