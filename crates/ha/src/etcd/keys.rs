use serde::de::IgnoredAny;
use serde_json::json;

use super::gateway::Gateway;
use super::message::{GrantAnswer, KeyValue, TxnAnswer, read};
use crate::holder::Holder;
use crate::location::EtcdCluster;
use crate::{CoordinatorError, Options, Record};

/// Largest record that is written, in bytes. By default a member takes requests of 1.5 MiB.
pub(super) const MAX_RECORD_BYTES: usize = 1 << 20;

/// The keys of the leader and of the record, and access to them.
#[derive(Debug)]
pub(super) struct Keys {
    pub(super) gateway: Gateway,
    cluster_id: String,
    pub(super) leader: String,
    pub(super) record: String,
    ttl_seconds: u64,
}

/// Both keys at one moment.
#[derive(Debug)]
pub(super) struct BothKeys {
    pub(super) holder: Option<(Holder, i64)>,
    pub(super) record: Option<KeyValue>,
}

impl Keys {
    pub(super) fn new(cluster: &EtcdCluster, options: &Options) -> Self {
        let cluster_id = options.cluster_id.clone();
        let prefix = format!("mooncake-store/{cluster_id}");
        Self {
            gateway: Gateway::new(cluster, options.request_timeout()),
            cluster_id,
            leader: format!("{prefix}/master_view"),
            record: format!("{prefix}/membership"),
            ttl_seconds: options.ttl_seconds(),
        }
    }

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

    /// Reads both keys.
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

    /// Grants a lease that has no keys yet.
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

    /// Ends a lease, which deletes its keys.
    pub(super) fn revoke(&self, lease: i64) -> Result<(), CoordinatorError> {
        let body = json!({"ID": lease.to_string()});
        self.gateway.call::<IgnoredAny>("/v3/lease/revoke", &body).map(|_| ())
    }
}
