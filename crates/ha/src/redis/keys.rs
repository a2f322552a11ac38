use std::fmt;
use std::time::Duration;

use super::client::RedisClient;
use super::reply::Reply;
use crate::holder::Holder;
use crate::location::RedisServer;
use crate::{CoordinatorError, Options, Record};

/// Largest record that is written, in bytes.
pub(super) const MAX_RECORD_BYTES: usize = 2 << 20;

/// The keys of the leader and of the record, and access to them.
pub(super) struct Keys {
    client: RedisClient,
    cluster_id: String,
    leader: String,
    record: String,
    pub(super) ttl: Duration,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.client.fmt(f)
    }
}

/// The answer of a script.
#[derive(Debug)]
pub(super) struct ScriptAnswer {
    pub(super) outcome: Outcome,
    /// The master that holds the place.
    pub(super) holder: Option<Holder>,
    /// The stamp of the record, if the script deals with it.
    pub(super) stamp: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Done.
    Own,
    /// Another master holds the place, or none.
    Held,
    /// This master holds the place, but the record has changed since its last write.
    Changed,
}

impl Keys {
    pub(super) fn new(server: RedisServer, options: &Options) -> Self {
        let cluster_id = options.cluster_id.clone();
        // The braces put both keys of a cluster on one server of a Redis cluster.
        let prefix = format!("mooncake-store/{{{cluster_id}}}");
        Self {
            client: RedisClient::new(server, options.request_timeout()),
            cluster_id,
            leader: format!("{prefix}/master_view"),
            record: format!("{prefix}/membership"),
            ttl: options.ttl,
        }
    }

    fn failed(&self, error: impl ToString) -> CoordinatorError {
        CoordinatorError::unavailable(format!("{:?}", self.client), error)
    }

    fn corrupt(&self, key: &str, reason: impl ToString) -> CoordinatorError {
        CoordinatorError::corrupt(format!("the key {key} of {:?}", self.client), reason)
    }

    fn call(&self, words: &[&str]) -> Result<Reply, CoordinatorError> {
        match self.client.call(words).map_err(|error| self.failed(error))? {
            Reply::Refused(reason) if reason.contains("WRONGTYPE") => {
                Err(self.corrupt(&self.leader, reason))
            }
            Reply::Refused(reason) => Err(self.failed(reason)),
            reply => Ok(reply),
        }
    }

    /// Runs a script on both keys.
    pub(super) fn run(
        &self,
        script: &str,
        arguments: &[&str],
    ) -> Result<ScriptAnswer, CoordinatorError> {
        let mut words = vec!["EVAL", script, "2", &self.leader, &self.record];
        words.extend(arguments);
        let reply = self.call(&words)?;
        let Reply::Array(parts) = reply else { return Err(self.failed("an odd answer")) };
        let [Reply::Text(outcome), Reply::Text(holder), Reply::Text(stamp)] = &parts[..] else {
            return Err(self.failed("an odd answer"));
        };
        let outcome = match &outcome[..] {
            b"own" => Outcome::Own,
            b"held" => Outcome::Held,
            b"changed" => Outcome::Changed,
            _ => return Err(self.failed("an odd answer")),
        };
        let stamp = String::from_utf8_lossy(stamp).into_owned();
        let holder = if holder.is_empty() { None } else { Some(self.decode_holder(holder)?) };
        Ok(ScriptAnswer { outcome, holder, stamp })
    }

    fn decode_holder(&self, text: &[u8]) -> Result<Holder, CoordinatorError> {
        Holder::decode(text).map_err(|reason| self.corrupt(&self.leader, reason))
    }

    /// The master that holds the place.
    pub(super) fn holder(&self) -> Result<Option<Holder>, CoordinatorError> {
        match self.call(&["GET", &self.leader])? {
            Reply::Nil => Ok(None),
            Reply::Text(text) => self.decode_holder(&text).map(Some),
            _ => Err(self.failed("an odd answer")),
        }
    }

    /// The stamp and the text of the record. The stamp is empty if there is no record.
    pub(super) fn stored(&self) -> Result<(String, Option<Vec<u8>>), CoordinatorError> {
        let reply = self.call(&["HMGET", &self.record, "stamp", "text"])?;
        let Reply::Array(parts) = reply else { return Err(self.failed("an odd answer")) };
        match &parts[..] {
            [Reply::Nil, Reply::Nil] => Ok((String::new(), None)),
            [Reply::Text(stamp), Reply::Text(text)] => {
                Ok((String::from_utf8_lossy(stamp).into_owned(), Some(text.clone())))
            }
            _ => Err(self.corrupt(&self.record, "it has no stamp or no text")),
        }
    }

    pub(super) fn decode_record(&self, text: Option<&[u8]>) -> Result<Record, CoordinatorError> {
        let Some(text) = text else { return Ok(Record::empty()) };
        Record::decode(text, &self.cluster_id).map_err(|reason| self.corrupt(&self.record, reason))
    }

    /// The text of a record, unless it is too long.
    pub(super) fn encode_record(&self, record: &Record) -> Result<String, CoordinatorError> {
        let text = record.encode(&self.cluster_id);
        let (len_bytes, limit_bytes) = (text.len(), MAX_RECORD_BYTES);
        match len_bytes <= limit_bytes {
            true => Ok(text),
            false => {
                let place = format!("the key {} of {:?}", self.record, self.client);
                Err(CoordinatorError::Full { place, len_bytes, limit_bytes })
            }
        }
    }

    pub(super) fn record_is_gone(&self) -> CoordinatorError {
        self.corrupt(&self.record, "it was removed under its leader")
    }

    pub(super) fn just_changing(&self) -> CoordinatorError {
        self.failed("the place is just changing")
    }

    pub(super) fn always_changing(&self) -> CoordinatorError {
        self.failed("the record changes all the time")
    }
}
