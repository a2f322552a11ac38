use std::sync::{Arc, Mutex, PoisonError};

use mooncake_types::Epoch;
use serde_json::json;

use super::cluster::{Found, Keys};
use super::message::{KeepAliveAnswer, created_at, write, written_at};
use crate::backend::Tenure;
use crate::seat::Seat;
use crate::{CoordinatorError, Record};

/// How often a write is repeated that found the record changed by an earlier attempt of its own.
const ATTEMPTS: usize = 3;

/// What a leader's transactions are tied to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Revisions {
    /// At which the leader's key was made.
    pub(super) seat: i64,
    /// At which the record was written last.
    pub(super) record: i64,
}

/// A leader's key, its lease, and the record.
#[derive(Debug)]
pub(super) struct Tenancy {
    keys: Arc<Keys>,
    seat: Seat,
    lease: i64,
    made_at: i64,
    record_written_at: Mutex<i64>,
}

impl Tenancy {
    pub(super) fn new(keys: Arc<Keys>, seat: Seat, lease: i64, revisions: Revisions) -> Self {
        let record_written_at = Mutex::new(revisions.record);
        Self { keys, seat, lease, made_at: revisions.seat, record_written_at }
    }

    fn is_own(&self, found: &Found) -> bool {
        matches!(&found.seat, Some((seat, made_at)) if *seat == self.seat && *made_at == self.made_at)
    }

    fn deposed(&self, reason: String) -> CoordinatorError {
        CoordinatorError::Deposed { epoch: Epoch(self.seat.epoch), reason }
    }

    fn deposed_by(&self, found: &Found) -> CoordinatorError {
        self.deposed(match &found.seat {
            Some((seat, _)) => format!("{} leads under epoch {}", seat.address, seat.epoch),
            None => "its key is gone".to_owned(),
        })
    }
}

impl Tenure for Tenancy {
    fn renew(&self) -> Result<(), CoordinatorError> {
        let body = json!({"ID": self.lease.to_string()});
        let answer: KeepAliveAnswer = self.keys.gateway.call("/v3/lease/keepalive", &body)?;
        if answer.result.ttl_seconds <= 0 {
            return Err(self.deposed("its lease is over".to_owned()));
        }
        // The lease alone says nothing: somebody may have removed the key. And a member that leads no more, but does
        // not know it yet, renews leases that its successor lets end; a transaction goes through all of them.
        let renewed_in = answer.result.term();
        let answer = self.keys.txn(&[created_at(&self.keys.leader, self.made_at)], &[])?;
        if !answer.succeeded {
            return Err(self.deposed_by(&self.keys.found(answer)?));
        }
        match answer.term() == renewed_in {
            true => Ok(()),
            false => Err(CoordinatorError::unavailable("etcd", "it has just elected a leader")),
        }
    }

    fn write(&self, record: &Record) -> Result<(), CoordinatorError> {
        let text = self.keys.encode_record(record)?;
        let mut written = self.record_written_at.lock().unwrap_or_else(PoisonError::into_inner);
        let operations = [write(&self.keys.record, &text, 0)];
        for _ in 0..ATTEMPTS {
            let conditions = [
                created_at(&self.keys.leader, self.made_at),
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
            // Only this leader writes: it is an attempt whose answer was lost, perhaps this very one.
            *written = stored.mod_revision;
            if stored.value == text.as_bytes() {
                return Ok(());
            }
        }
        Err(CoordinatorError::unavailable("etcd", "the record changes all the time"))
    }

    fn resign(&self) -> Result<(), CoordinatorError> {
        self.keys.revoke(self.lease)
    }
}
