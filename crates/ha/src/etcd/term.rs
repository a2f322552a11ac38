use std::sync::{Arc, Mutex, PoisonError};

use mooncake_types::Epoch;
use serde_json::json;

use super::keys::{BothKeys, Keys, MAX_RECORD_BYTES};
use super::message::{KeepAliveAnswer, created_at, write, written_at};
use crate::backend::Term;
use crate::holder::Holder;
use crate::{CoordinatorError, Record};

/// How often a write is tried that finds the record changed by its own earlier attempt.
const ATTEMPTS: usize = 3;

/// The revisions that a leader's transactions require.
#[derive(Clone, Copy, Debug)]
pub(super) struct Revisions {
    /// At which the leader's key was created.
    pub(super) holder: i64,
    /// At which the record was written last.
    pub(super) record: i64,
}

/// A leader's key, its lease, and the record.
#[derive(Debug)]
pub(super) struct EtcdTerm {
    keys: Arc<Keys>,
    holder: Holder,
    hold: Mutex<Hold>,
    record_written_at: Mutex<i64>,
}

/// The lease and the key that hold the place. They may change when the leadership is resumed.
#[derive(Clone, Copy, Debug)]
struct Hold {
    lease: i64,
    /// The revision at which the leader's key was created.
    made_at: i64,
}

impl EtcdTerm {
    pub(super) fn new(keys: Arc<Keys>, holder: Holder, lease: i64, revisions: Revisions) -> Self {
        let record_written_at = Mutex::new(revisions.record);
        let hold = Mutex::new(Hold { lease, made_at: revisions.holder });
        Self { keys, holder, hold, record_written_at }
    }

    fn hold(&self) -> Hold {
        *self.hold.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_own(&self, found: &BothKeys) -> bool {
        let own = self.hold().made_at;
        matches!(&found.holder, Some((holder, made_at)) if *holder == self.holder && *made_at == own)
    }

    fn deposed(&self, reason: String) -> CoordinatorError {
        CoordinatorError::Deposed { epoch: Epoch(self.holder.epoch), reason }
    }

    fn deposed_by(&self, found: &BothKeys) -> CoordinatorError {
        self.deposed(match &found.holder {
            Some((holder, _)) => format!("{} leads under epoch {}", holder.address, holder.epoch),
            None => "its key is gone".to_owned(),
        })
    }
}

impl Term for EtcdTerm {
    fn renew(&self) -> Result<(), CoordinatorError> {
        let Hold { lease, made_at } = self.hold();
        let body = json!({"ID": lease.to_string()});
        let answer: KeepAliveAnswer = self.keys.gateway.call("/v3/lease/keepalive", &body)?;
        if answer.result.ttl_seconds <= 0 {
            return Err(self.deposed("its lease is over".to_owned()));
        }
        // The lease alone proves nothing: the key may have been removed. And a deposed etcd leader that does not know
        // it yet renews leases that its successor lets end. A transaction needs a majority of the members.
        let renewed_in = answer.result.term();
        let answer = self.keys.txn(&[created_at(&self.keys.leader, made_at)], &[])?;
        if !answer.succeeded {
            return Err(self.deposed_by(&self.keys.found(answer)?));
        }
        match answer.term() == renewed_in {
            true => Ok(()),
            false => Err(CoordinatorError::unavailable("etcd", "it has just elected a leader")),
        }
    }

    fn resume(&self, acknowledged: Epoch) -> Result<(), CoordinatorError> {
        let found = self.keys.look()?;
        let made_at = match &found.holder {
            // A lease may outlast a restart of etcd, and an attempt whose answer was lost may have created the key
            // again.
            Some((holder, made_at)) if *holder == self.holder => *made_at,
            Some(_) => return Err(self.deposed_by(&found)),
            None => 0,
        };
        let epoch = self.keys.decode_record(found.record.as_ref())?.epoch();
        if epoch != acknowledged {
            return Err(self.deposed(format!("epoch {epoch} has begun")));
        }
        let seen = found.record.as_ref().map_or(0, |found| found.mod_revision);
        let Keys { leader, record, .. } = &*self.keys;
        let lease = self.keys.grant_lease()?.id;
        let conditions = [created_at(leader, made_at), written_at(record, seen)];
        let operations = [write(leader, &self.holder.encode(), lease)];
        let changed = match self.keys.txn(&conditions, &operations) {
            Ok(answer) if answer.succeeded => {
                let made_at = if made_at == 0 { answer.revision() } else { made_at };
                let mut hold = self.hold.lock().unwrap_or_else(PoisonError::into_inner);
                *hold = Hold { lease, made_at };
                return Ok(());
            }
            Ok(_) => CoordinatorError::unavailable("etcd", "the place is just changing"),
            Err(error) => error,
        };
        // Best effort: an unused lease expires.
        let _ = self.keys.revoke(lease);
        Err(changed)
    }

    fn write(&self, record: &Record) -> Result<(), CoordinatorError> {
        let text = self.keys.encode_record(record)?;
        let mut written = self.record_written_at.lock().unwrap_or_else(PoisonError::into_inner);
        let operations = [write(&self.keys.record, &text, 0)];
        for _ in 0..ATTEMPTS {
            let conditions = [
                created_at(&self.keys.leader, self.hold().made_at),
                written_at(&self.keys.record, *written),
            ];
            let answer = self.keys.txn(&conditions, &operations)?;
            if answer.succeeded {
                *written = answer.revision();
                return Ok(());
            }
            let found = self.keys.found(answer)?;
            if !self.is_own(&found) {
                return Err(self.deposed_by(&found));
            }
            let Some(stored) = &found.record else {
                let reason = "the record was removed under its leader";
                return Err(CoordinatorError::corrupt(&self.keys.record, reason));
            };
            // Only this leader writes, so an attempt whose answer was lost has changed it, perhaps of this very
            // write.
            *written = stored.mod_revision;
            if stored.value == text.as_bytes() {
                return Ok(());
            }
        }
        Err(CoordinatorError::unavailable("etcd", "the record changes all the time"))
    }

    fn limit_bytes(&self) -> usize {
        MAX_RECORD_BYTES
    }

    fn resign(&self) -> Result<(), CoordinatorError> {
        self.keys.revoke(self.hold().lease)
    }
}
