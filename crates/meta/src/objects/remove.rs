use mooncake_types::ErrorCode;

use super::index::check_key;
use super::record::ObjectState;
use crate::Meta;
use crate::tombstones::{DropList, MOST_LEASED};

impl Meta {
    pub(crate) fn remove(
        &mut self,
        key: &str,
        force: bool,
        gathered: &mut DropList,
    ) -> Result<(), ErrorCode> {
        check_key(key)?;
        let hashed = self.index.hashed(key);
        // Also if no object holds the key: a node may report one later, and it must not come back.
        self.overrule(hashed.hash);
        // The client that removed these versions may have died before the nodes dropped them.
        self.gather_leased(key, gathered);
        let result = match self.find_living(hashed) {
            Some(object) => self.remove_object(object, force, gathered),
            None => Err(ErrorCode::ObjectNotFound),
        };
        if result.is_ok() {
            gathered.name_again(hashed.hash);
        }
        self.gather_tombstones(hashed.hash, None, gathered);
        result
    }

    fn remove_object(
        &mut self,
        object: u32,
        force: bool,
        gathered: &mut DropList,
    ) -> Result<(), ErrorCode> {
        if self.objects[object].state != ObjectState::Complete {
            return Err(ErrorCode::ReplicaIsNotReady);
        }
        if self.is_leased(object) && !force {
            return Err(ErrorCode::ObjectHasLease);
        }
        self.ensure_no_callers_task(object)?;
        if !force {
            self.drop_object(object);
            return Ok(());
        }
        if self.tombstones.leased().of_key(&self.objects[object].key).len() >= MOST_LEASED {
            return Err(ErrorCode::ObjectReplicaBusy);
        }
        self.gather(object, u32::MAX, gathered);
        self.leave_key(object);
        self.leave_leased_tombstone(object);
        Ok(())
    }
}
