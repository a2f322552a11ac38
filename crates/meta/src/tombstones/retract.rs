//! Removals that begin under one leader and end under another. The later leader may have found the removed versions in
//! inventories, and may have had copies made of them.

use std::collections::BTreeSet;

use mooncake_types::mutation::{Rule, is_broken};
use mooncake_types::{ErrorCode, RangeDrop, Reply, Version};

use super::{DropList, MOST_LEASED};
use crate::Meta;
use crate::objects::ObjectState;
use crate::objects::check_key;

impl Meta {
    /// See [`mooncake_types::Request::Retract`].
    pub(crate) fn retract(&mut self, keys: &[&str], ranges: &[RangeDrop]) -> Reply {
        if let Some(code) = keys.iter().find_map(|key| check_key(key).err()) {
            return Reply::Refused(code);
        }
        let is_of_another = |range: &RangeDrop| range.grant.epoch < self.term.began_under();
        if keys.is_empty() && ranges.iter().any(is_of_another) {
            // This leader may have found these versions in inventories, and could look for them only by their keys.
            return Reply::Refused(ErrorCode::InvalidVersion);
        }
        let versions: BTreeSet<Version> = ranges.iter().map(|range| range.version).collect();
        let mut gathered = DropList::default();
        for key in keys {
            self.overrule(self.index.hash(key));
            self.give_up_found(key, &versions);
            if is_broken(Rule::RepeatsAreBounded) {
                let _ = self.remove(key, true, &mut gathered);
            }
        }
        for &version in &versions {
            if let Some(object) = self.tombstones.leased.of_version(version) {
                self.gather_leased_once(object, &mut gathered);
            }
        }
        let hashes: BTreeSet<u64> = keys.iter().map(|key| self.index.hash(key)).collect();
        for hash in hashes {
            self.name_tombstones(hash, |version| versions.contains(&version), &mut gathered);
        }
        for range in ranges {
            if let Some(slot) = self.segments.find(range.segment) {
                self.name_tombstone(slot, (range.offset, range.version), &mut gathered);
            }
        }
        gathered.into_reply(self.now, vec![Ok(()); keys.len()])
    }

    /// Gives up the object of a key, with all its replicas, if this leader found it in inventories and it is one of
    /// these versions.
    fn give_up_found(&mut self, key: &str, versions: &BTreeSet<Version>) {
        let is_found = |&object: &u32| {
            let record = &self.objects[object];
            record.state == ObjectState::Complete
                && record.version.epoch < self.term.began_under()
                && versions.contains(&record.version)
        };
        let Some(object) = self.find(key).filter(is_found) else { return };
        if self.tombstones.leased.of_key(key).len() >= MOST_LEASED {
            return self.drop_object(object);
        }
        // Readers may have routes to the object.
        self.leave_key(object);
        self.leave_leased_tombstone(object);
    }
}
