use std::sync::{Arc, Mutex, PoisonError};

use mooncake_types::Epoch;

use super::keys::{Keys, MAX_RECORD_BYTES, Outcome, ScriptAnswer};
use super::script;
use crate::backend::Term;
use crate::holder::Holder;
use crate::{CoordinatorError, Record};

/// How often a write is tried that finds the record changed by its own earlier attempt.
const ATTEMPTS: usize = 3;

/// A leader's key, and the stamp of the record that it wrote last.
#[derive(Debug)]
pub(super) struct RedisTerm {
    keys: Arc<Keys>,
    holder: Holder,
    stamp: Mutex<String>,
}

impl RedisTerm {
    pub(super) fn new(keys: Arc<Keys>, holder: Holder, stamp: String) -> Self {
        Self { keys, holder, stamp: Mutex::new(stamp) }
    }

    fn deposed(&self, reason: String) -> CoordinatorError {
        CoordinatorError::Deposed { epoch: Epoch(self.holder.epoch), reason }
    }

    fn deposed_by(&self, answer: &ScriptAnswer) -> CoordinatorError {
        self.deposed(match &answer.holder {
            Some(holder) => format!("{} leads under epoch {}", holder.address, holder.epoch),
            None => "its key is gone".to_owned(),
        })
    }
}

impl Term for RedisTerm {
    fn renew(&self) -> Result<(), CoordinatorError> {
        let ttl_ms = self.keys.ttl.as_millis().to_string();
        let answer = self.keys.run(script::RENEW, &[&self.holder.encode(), &ttl_ms])?;
        match answer.outcome {
            Outcome::Own => Ok(()),
            Outcome::Held | Outcome::Changed => Err(self.deposed_by(&answer)),
        }
    }

    fn resume(&self, acknowledged: Epoch) -> Result<(), CoordinatorError> {
        let (stamp, text) = self.keys.stored()?;
        let epoch = self.keys.decode_record(text.as_deref())?.epoch();
        // A server that has forgotten everything has no record, whose epoch is zero.
        if epoch != acknowledged {
            return Err(self.deposed(format!("the record is that of epoch {epoch}")));
        }
        let ttl_ms = self.keys.ttl.as_millis().to_string();
        let answer = self.keys.run(script::RESUME, &[&stamp, &self.holder.encode(), &ttl_ms])?;
        match answer.outcome {
            Outcome::Own => Ok(()),
            _ if answer.holder.as_ref().is_some_and(|holder| *holder != self.holder) => {
                Err(self.deposed_by(&answer))
            }
            _ => Err(self.keys.just_changing()),
        }
    }

    fn write(&self, record: &Record) -> Result<(), CoordinatorError> {
        let text = self.keys.encode_record(record)?;
        let holder = self.holder.encode();
        let mut stamp = self.stamp.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..ATTEMPTS {
            let answer = self.keys.run(script::WRITE, &[&holder, &stamp, &text])?;
            match answer.outcome {
                Outcome::Held => return Err(self.deposed_by(&answer)),
                Outcome::Changed if answer.stamp.is_empty() => {
                    return Err(self.keys.record_is_gone());
                }
                // Only this leader writes: an attempt whose answer was lost has changed it.
                Outcome::Changed => *stamp = answer.stamp,
                Outcome::Own => {
                    *stamp = answer.stamp;
                    return Ok(());
                }
            }
        }
        Err(self.keys.always_changing())
    }

    fn limit_bytes(&self) -> usize {
        MAX_RECORD_BYTES
    }

    fn resign(&self) -> Result<(), CoordinatorError> {
        self.keys.run(script::RESIGN, &[&self.holder.encode()]).map(|_| ())
    }
}
