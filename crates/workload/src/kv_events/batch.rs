//! A batch of events as vLLM publishes it: `[seconds, [event, ...], rank]`. Each event is a list that begins with its
//! type, or a map with a `type`.

use super::value::{NoValue, Value, read};

/// Blocks that an engine stored, in the order of the prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredBlocks {
    /// The engine's hash of each block and all blocks before it.
    pub hashes: Vec<Box<[u8]>>,
    /// The hash of the block before the first one; `None` at the start of a prompt.
    pub parent: Option<Box<[u8]>>,
    /// How many tokens a block has, if the event says so.
    pub block_tokens: Option<u32>,
    /// The medium that stores the blocks, if the event names it.
    pub medium: Option<String>,
}

/// The content of a batch that a trace needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventBatch {
    /// When it was published, in milliseconds since 1970.
    pub time_ms: u64,
    /// The `BlockStored` events, in order.
    pub stored: Vec<StoredBlocks>,
    /// How many events of other types the batch has.
    pub others: usize,
}

/// Why bytes are not a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadBatch {
    /// The bytes end within the batch.
    #[error("the batch of events is cut off")]
    Cut,
    /// The bytes are not a batch.
    #[error("these are no KV events as vLLM publishes them: {0}")]
    Wrong(&'static str),
}

/// A time below this is in seconds, any other in milliseconds.
const LEAST_MS: f64 = 1e11;

impl EventBatch {
    /// Reads the batch at the start of `bytes`, and advances past it.
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

/// An event, whose fields are found by name or by position.
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

/// Reads a `BlockStored` event. `None` for events of other types.
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

/// Reads a hash. Depending on its version, vLLM writes signed or unsigned numbers, or bytes.
fn hash(value: &Value<'_>) -> Result<Box<[u8]>, BadBatch> {
    match value {
        Value::Number(number) => Ok((*number as u64).to_be_bytes().into()),
        Value::Bytes(bytes) => Ok((*bytes).into()),
        _ => Err(BadBatch::Wrong("a hash is neither a number nor bytes")),
    }
}
