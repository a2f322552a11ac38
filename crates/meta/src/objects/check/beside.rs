use std::collections::BTreeSet;

use crate::Meta;
use crate::check::{Check, ensure};
use crate::objects::{ObjectState, Pin};
use crate::timer::Timer;

impl Meta {
    pub(crate) fn every_put_beside_a_key_is_kept_by_key(&self) -> Check {
        let mut keys = BTreeSet::new();
        let mut replaced = 0;
        for (id, object) in self.objects.iter() {
            let due = object.leased_until();
            let is_replaced = object.state == ObjectState::Tombstone;
            replaced += usize::from(is_replaced);
            let leaves = self.tombstones.leased().of_key(&object.key).contains(&id);
            ensure(
                "a leased tombstone is kept by key, and nothing else",
                leaves == is_replaced,
                || format!("object {id}: {object:?}"),
            )?;
            let newer = self.find(&object.key).map(|holder| self.objects[holder].version);
            ensure(
                "a leased tombstone is older than what holds its key",
                !is_replaced || newer.is_none_or(|newer| newer > object.version),
                || format!("object {id}: {object:?}, held by {newer:?}"),
            )?;
            ensure(
                "a replaced object has a timer, and no other",
                self.timers.contains(&(due, Timer::LeasedTombstone(id))) == is_replaced,
                || format!("object {id}: {object:?}"),
            )?;
            let inherits = object.pin == Pin::Inherited;
            ensure(
                "a finished object has its own pin",
                !(inherits && object.state == ObjectState::Complete),
                || format!("object {id}: {object:?}"),
            )?;
            let kept = self.beside(&object.key).contains(&id);
            let beside = matches!(object.state, ObjectState::Waiting | ObjectState::Overtaken);
            ensure("a put beside the holder of its key is kept by key", kept == beside, || {
                format!("object {id}: {object:?}")
            })?;
            if beside {
                keys.insert(&object.key);
                self.check_beside(id)?;
            }
        }
        ensure("replaced objects are counted", replaced == self.tombstones.leased().len(), || {
            format!("{replaced} replaced, {} counted", self.tombstones.leased().len())
        })?;
        ensure(
            "keys without puts beside them are forgotten",
            keys.len() == self.beside.len(),
            || format!("{} keys, {} kept", keys.len(), self.beside.len()),
        )
    }

    fn check_beside(&self, id: u32) -> Check {
        let object = &self.objects[id];
        let holder = self.find(&object.key).map(|holder| &self.objects[holder]);
        let waits = object.state == ObjectState::Waiting;
        ensure(
            "somebody holds the key for which an upsert waits",
            !waits || holder.is_some(),
            || format!("object {id}: {object:?}"),
        )?;
        let ahead = holder.is_none_or(|holder| holder.version < object.version);
        ensure("what waits for a key is newer than what holds it", !waits || ahead, || {
            format!("object {id}: {object:?}, {holder:?}")
        })?;
        let puts = self.beside(&object.key);
        let sorted = puts
            .windows(2)
            .all(|pair| self.objects[pair[0]].version < self.objects[pair[1]].version);
        ensure("puts beside a key are in the order of their versions", sorted, || {
            format!("{:?}: {puts:?}", object.key)
        })
    }
}
