use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, de::Error};
use serde_json::{Value, json};

/// Bytes in base64, as JSON needs them.
pub(crate) fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// A condition: the key was made at this revision, or does not exist at zero.
pub(super) fn created_at(key: &str, revision: i64) -> Value {
    let key = encode(key.as_bytes());
    json!({"key": key, "target": "CREATE", "result": "EQUAL", "create_revision": revision.to_string()})
}

/// A condition: the key was written last at this revision, or does not exist at zero.
pub(super) fn written_at(key: &str, revision: i64) -> Value {
    let key = encode(key.as_bytes());
    json!({"key": key, "target": "MOD", "result": "EQUAL", "mod_revision": revision.to_string()})
}

/// Reads a key.
pub(super) fn read(key: &str) -> Value {
    json!({"request_range": {"key": encode(key.as_bytes())}})
}

/// Writes a key, bound to a lease, or to none at zero.
pub(super) fn write(key: &str, value: &str, lease: i64) -> Value {
    let (key, value) = (encode(key.as_bytes()), encode(value.as_bytes()));
    json!({"request_put": {"key": key, "value": value, "lease": lease.to_string()}})
}

/// The answer to a transaction. The server leaves out false, zero and empty values.
#[derive(Debug, Deserialize)]
pub(super) struct TxnAnswer {
    header: Header,
    #[serde(default)]
    pub(super) succeeded: bool,
    #[serde(default)]
    responses: Vec<OpAnswer>,
}

#[derive(Debug, Deserialize)]
struct Header {
    #[serde(deserialize_with = "number")]
    revision: i64,
    #[serde(deserialize_with = "number", alias = "raftTerm")]
    raft_term: i64,
}

#[derive(Debug, Deserialize)]
struct OpAnswer {
    #[serde(alias = "responseRange")]
    response_range: Option<RangeAnswer>,
}

/// The keys that a read found.
#[derive(Debug, Deserialize)]
pub(crate) struct RangeAnswer {
    #[serde(default)]
    pub(crate) kvs: Vec<KeyValue>,
}

/// One key, as it is stored.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub(crate) struct KeyValue {
    #[serde(deserialize_with = "number", alias = "createRevision")]
    pub(super) create_revision: i64,
    #[serde(deserialize_with = "number", alias = "modRevision")]
    pub(super) mod_revision: i64,
    #[serde(default, deserialize_with = "bytes")]
    pub(crate) value: Vec<u8>,
}

impl TxnAnswer {
    /// The revision of the store after the transaction.
    pub(super) fn revision(&self) -> i64 {
        self.header.revision
    }

    /// The raft term of the member that answered.
    pub(super) fn term(&self) -> i64 {
        self.header.raft_term
    }

    /// The result of the read at this place of the transaction.
    pub(super) fn found(&mut self, place: usize) -> Option<KeyValue> {
        let range = self.responses.get_mut(place)?.response_range.as_mut()?;
        range.kvs.pop()
    }

    /// Whether there is an answer to each of `operations` operations.
    pub(super) fn has(&self, operations: usize) -> bool {
        self.responses.len() == operations
    }
}

/// The answer to a request for a lease.
#[derive(Debug, Deserialize)]
pub(super) struct GrantAnswer {
    #[serde(rename = "ID", deserialize_with = "number")]
    pub(super) id: i64,
    #[serde(rename = "TTL", deserialize_with = "number")]
    pub(super) ttl_seconds: i64,
}

/// One message of the stream of renewal answers.
#[derive(Debug, Deserialize)]
pub(super) struct KeepAliveAnswer {
    pub(super) result: KeepAlive,
}

/// A lease after its renewal. It has no time left if it was over before.
#[derive(Debug, Deserialize)]
pub(super) struct KeepAlive {
    header: Header,
    #[serde(default, rename = "TTL", deserialize_with = "number")]
    pub(super) ttl_seconds: i64,
}

impl KeepAlive {
    /// The raft term of the member that answered.
    pub(super) fn term(&self) -> i64 {
        self.header.raft_term
    }
}

/// Protobuf's JSON has 64-bit numbers in quotation marks.
fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(|_| D::Error::custom("a number in quotation marks was expected"))
}

fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    STANDARD.decode(text).map_err(|_| D::Error::custom("base64 was expected"))
}
