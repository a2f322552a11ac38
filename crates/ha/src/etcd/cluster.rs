use std::sync::Arc;
use std::time::Duration;

use serde::de::IgnoredAny;
use serde_json::json;

use super::gateway::Gateway;
use super::message::{GrantAnswer, KeyValue, TxnAnswer, created_at, read, write, written_at};
use super::term::{EtcdTerm, Revisions};
use crate::backend::{Backend, Claim, Claimed, Won};
use crate::holder::Holder;
use crate::{CoordinatorError, LeaderView, Options, Record, boot_time};

/// Largest record that is written, in bytes. A member takes requests of 1.5 MiB unless it is told otherwise.
pub(super) const MAX_RECORD_BYTES: usize = 1 << 20;

/// Longest pause between two questions: they are cheap.
const QUICK_POLL: Duration = Duration::from_millis(50);

/// The keys of a cluster of masters in a cluster of etcd.
#[derive(Debug)]
pub(crate) struct Cluster {
    keys: Arc<Keys>,
    options: Options,
}

/// Where the two things lie, and how they are reached.
#[derive(Debug)]
pub(super) struct Keys {
    pub(super) gateway: Gateway,
    pub(super) cluster_id: String,
    pub(super) leader: String,
    pub(super) record: String,
    ttl_seconds: u64,
}

/// Both as of one moment.
#[derive(Debug)]
pub(super) struct BothKeys {
    pub(super) holder: Option<(Holder, i64)>,
    pub(super) record: Option<KeyValue>,
}

impl Keys {
    /// Runs a transaction. If its conditions do not hold, both keys are read instead.
    pub(super) fn txn(
        &self,
        conditions: &[serde_json::Value],
        operations: &[serde_json::Value],
    ) -> Result<TxnAnswer, CoordinatorError> {
        let otherwise = [read(&self.leader), read(&self.record)];
        let body = json!({"compare": conditions, "success": operations, "failure": otherwise});
        let answer: TxnAnswer = self.gateway.call("/v3/kv/txn", &body)?;
        let expected = if answer.succeeded { operations.len() } else { otherwise.len() };
        match answer.has(expected) {
            true => Ok(answer),
            false => {
                let reason = "its answer to a transaction lacks parts";
                Err(CoordinatorError::unavailable("etcd", reason))
            }
        }
    }

    /// Both keys.
    pub(super) fn look(&self) -> Result<BothKeys, CoordinatorError> {
        let answer = self.txn(&[], &[read(&self.leader), read(&self.record)])?;
        self.found(answer)
    }

    /// Both keys, from a transaction that read them.
    pub(super) fn found(&self, mut answer: TxnAnswer) -> Result<BothKeys, CoordinatorError> {
        let (leader, record) = (answer.found(0), answer.found(1));
        let holder = leader.map(|found| self.decode_holder(&found)).transpose()?;
        Ok(BothKeys { holder, record })
    }

    fn decode_holder(&self, found: &KeyValue) -> Result<(Holder, i64), CoordinatorError> {
        let holder = Holder::decode(&found.value)
            .map_err(|reason| CoordinatorError::corrupt(self.place(&self.leader), reason))?;
        Ok((holder, found.create_revision))
    }

    pub(super) fn decode_record(
        &self,
        found: Option<&KeyValue>,
    ) -> Result<Record, CoordinatorError> {
        let Some(found) = found else { return Ok(Record::empty()) };
        Record::decode(&found.value, &self.cluster_id)
            .map_err(|reason| CoordinatorError::corrupt(self.place(&self.record), reason))
    }

    /// The text of a record, unless it is too long.
    pub(super) fn encode_record(&self, record: &Record) -> Result<String, CoordinatorError> {
        let text = record.encode(&self.cluster_id);
        let (len_bytes, limit_bytes) = (text.len(), MAX_RECORD_BYTES);
        match len_bytes <= limit_bytes {
            true => Ok(text),
            false => {
                let place = self.place(&self.record);
                Err(CoordinatorError::Full { place, len_bytes, limit_bytes })
            }
        }
    }

    fn place(&self, key: &str) -> String {
        format!("the key {key} of etcd")
    }

    /// A lease that nothing hangs on yet.
    pub(super) fn grant_lease(&self) -> Result<GrantAnswer, CoordinatorError> {
        let body = json!({"TTL": self.ttl_seconds.to_string(), "ID": "0"});
        let granted: GrantAnswer = self.gateway.call("/v3/lease/grant", &body)?;
        let wanted = i64::try_from(self.ttl_seconds).unwrap_or(i64::MAX);
        match granted.ttl_seconds >= wanted && granted.id != 0 {
            true => Ok(granted),
            false => {
                let reason = format!("it gave a lease of {} s", granted.ttl_seconds);
                Err(CoordinatorError::unavailable("etcd", reason))
            }
        }
    }

    /// Ends a lease, and what hangs on it.
    pub(super) fn revoke(&self, lease: i64) -> Result<(), CoordinatorError> {
        let body = json!({"ID": lease.to_string()});
        self.gateway.call::<IgnoredAny>("/v3/lease/revoke", &body).map(|_| ())
    }
}

impl Cluster {
    pub(crate) fn new(endpoints: &[String], options: &Options) -> Self {
        let cluster_id = options.cluster_id.clone();
        let prefix = format!("mooncake-store/{cluster_id}");
        let keys = Keys {
            gateway: Gateway::new(endpoints, options.request_timeout()),
            cluster_id,
            leader: format!("{prefix}/master_view"),
            record: format!("{prefix}/membership"),
            ttl_seconds: options.ttl_seconds(),
        };
        Self { keys: Arc::new(keys), options: options.clone() }
    }

    /// Makes the leader's key, if there is none and the record is as it was found.
    fn take(&self, claim: &Claim, found: &BothKeys, lease: i64) -> Result<Taken, CoordinatorError> {
        let Keys { leader, record: record_key, .. } = &*self.keys;
        let record = self.keys.decode_record(found.record.as_ref())?.succeed(claim.now);
        let text = self.keys.encode_record(&record)?;
        let holder = claim.holder(record.epoch());
        let seen = found.record.as_ref().map_or(0, |found| found.mod_revision);
        let conditions = [created_at(leader, 0), written_at(record_key, seen)];
        let operations = [write(leader, &holder.encode(), lease), write(record_key, &text, 0)];
        let answer = self.keys.txn(&conditions, &operations)?;
        if answer.succeeded {
            let revision = answer.revision();
            return Ok(Taken::Own(
                holder,
                record,
                Revisions { holder: revision, record: revision },
            ));
        }
        let now = self.keys.found(answer)?;
        match (now.holder, now.record) {
            // Done by an earlier attempt whose answer was lost.
            (Some((found, made_at)), Some(written)) if found == holder => {
                let revisions = Revisions { holder: made_at, record: written.mod_revision };
                Ok(Taken::Own(holder, record, revisions))
            }
            (other, _) => Ok(Taken::Other(other.map(|(holder, _)| holder.view()))),
        }
    }
}

enum Taken {
    Own(Holder, Record, Revisions),
    Other(Option<LeaderView>),
}

impl Backend for Cluster {
    fn claim(&self, claim: &Claim) -> Result<Claimed, CoordinatorError> {
        let found = self.keys.look()?;
        if let Some((holder, _)) = &found.holder {
            return Ok(Claimed::Held(Some(holder.view())));
        }
        self.keys.decode_record(found.record.as_ref())?;
        let asked_at = boot_time::now();
        let lease = self.keys.grant_lease()?.id;
        let taken = self.take(claim, &found, lease);
        match taken {
            Ok(Taken::Own(holder, record, revisions)) => {
                let term =
                    Box::new(EtcdTerm::new(Arc::clone(&self.keys), holder, lease, revisions));
                Ok(Claimed::Won(Won { term, record, asked_at }))
            }
            Ok(Taken::Other(seen)) => {
                // Best effort: an unused lease goes by itself.
                let _ = self.keys.revoke(lease);
                Ok(Claimed::Held(seen))
            }
            Err(error) => {
                // If the key was made after all, this takes it away again.
                let _ = self.keys.revoke(lease);
                Err(error)
            }
        }
    }

    fn leader(&self) -> Result<Option<LeaderView>, CoordinatorError> {
        let answer = self.keys.txn(&[], &[read(&self.keys.leader)])?;
        let found = self.keys.found(answer)?;
        Ok(found.holder.map(|(holder, _)| holder.view()))
    }

    fn poll_every(&self) -> Duration {
        self.options.poll_every().min(QUICK_POLL)
    }
}
