//! A batch of events as vLLM publishes it: `[seconds, [event, ...], rank]`, each event a list that begins with its type, or a
//! map with a `type`.

use super::value::{NoValue, Value, read};

/// Blocks that an engine keeps from now on, each after the one before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredBlocks {
    /// What the engine calls each block and all before it.
    pub hashes: Vec<Box<[u8]>>,
    /// The block before the first; absent at the start of a prompt.
    pub parent: Option<Box<[u8]>>,
    /// Tokens of a block, if the engine says so.
    pub block_tokens: Option<u32>,
    /// Where they are kept, if the engine says so.
    pub medium: Option<String>,
}

/// What of a batch a trace is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventBatch {
    /// When it was published, in milliseconds since 1970.
    pub time_ms: u64,
    /// In the order in which they were stored.
    pub stored: Vec<StoredBlocks>,
    /// Events of other types.
    pub others: usize,
}

/// Why bytes are no batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadBatch {
    /// They end within it.
    #[error("the batch of events is cut off")]
    Cut,
    /// They are something else.
    #[error("these are no KV events as vLLM publishes them: {0}")]
    Wrong(&'static str),
}

/// Times below this are seconds, others milliseconds.
const LEAST_MS: f64 = 1e11;

impl EventBatch {
    /// Takes the batch that the bytes begin with.
    ///
    /// # Errors
    /// See [`BadBatch`].
    pub fn read(bytes: &mut &[u8]) -> Result<Self, BadBatch> {
        let value = read(bytes).map_err(|error| match error {
            NoValue::Cut => BadBatch::Cut,
            NoValue::Wrong => BadBatch::Wrong("they are no MessagePack"),
        })?;
        let Value::List(parts) = value else { return Err(BadBatch::Wrong("a batch is a list")) };
        let [time, Value::List(events), ..] = &parts[..] else {
            return Err(BadBatch::Wrong("a batch is a time and a list of events"));
        };
        let time = match time {
            Value::Float(time) => *time,
            Value::Number(time) => *time as f64,
            _ => return Err(BadBatch::Wrong("a batch begins with its time")),
        };
        let time_ms = if time < LEAST_MS { time * 1_000.0 } else { time };
        let mut batch = Self { time_ms: time_ms as u64, stored: Vec::new(), others: 0 };
        for event in events {
            match stored(event)? {
                Some(stored) => batch.stored.push(stored),
                None => batch.others += 1,
            }
        }
        Ok(batch)
    }
}

/// The fields of an event, by their names or their places.
struct Event<'v, 'a>(&'v Value<'a>);

impl<'v, 'a> Event<'v, 'a> {
    fn field(&self, place: usize, name: &str) -> Option<&'v Value<'a>> {
        let found = match self.0 {
            Value::List(fields) => fields.get(place),
            Value::Map(fields) => {
                let named = |(known, _): &&(Value<'a>, Value<'a>)| *known == Value::Text(name);
                fields.iter().find(named).map(|(_, value)| value)
            }
            _ => None,
        };
        found.filter(|value| **value != Value::Nil)
    }
}

/// Nothing, if the event is of another type.
fn stored(event: &Value<'_>) -> Result<Option<StoredBlocks>, BadBatch> {
    let event = Event(event);
    match event.field(0, "type") {
        Some(Value::Text("BlockStored")) => {}
        Some(Value::Text(_)) => return Ok(None),
        _ => return Err(BadBatch::Wrong("an event says no type")),
    }
    let Some(Value::List(hashes)) = event.field(1, "block_hashes") else {
        return Err(BadBatch::Wrong("BlockStored has no list of hashes"));
    };
    let block_tokens = match event.field(4, "block_size") {
        Some(Value::Number(tokens)) => u32::try_from(*tokens).ok(),
        _ => None,
    };
    let medium = match event.field(6, "medium") {
        Some(Value::Text(medium)) => Some((*medium).to_owned()),
        _ => None,
    };
    Ok(Some(StoredBlocks {
        hashes: hashes.iter().map(hash).collect::<Result<_, _>>()?,
        parent: event.field(2, "parent_block_hash").map(hash).transpose()?,
        block_tokens,
        medium,
    }))
}

/// Numbers, signed or not, and bytes: versions of vLLM differ.
fn hash(value: &Value<'_>) -> Result<Box<[u8]>, BadBatch> {
    match value {
        Value::Number(number) => Ok((*number as u64).to_be_bytes().into()),
        Value::Bytes(bytes) => Ok((*bytes).into()),
        _ => Err(BadBatch::Wrong("a hash is neither a number nor bytes")),
    }
}
