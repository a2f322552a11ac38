//! One event: its fields, and how they are printed.

use mooncake_workload::{Value, read_value};
use serde_json::{Map, json};

use crate::objects::output::shown;

/// Bytes that are no batch of events.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadEvent;

/// The fields of an event, by name.
#[derive(Debug, PartialEq)]
pub(super) struct Event(Map<String, serde_json::Value>);

/// The events of a batch: `[time, [event, ...], rank]`.
pub(super) fn read(mut bytes: &[u8]) -> Result<Vec<Event>, BadEvent> {
    let Ok(Value::List(parts)) = read_value(&mut bytes) else { return Err(BadEvent) };
    let [_, Value::List(events), ..] = &parts[..] else { return Err(BadEvent) };
    events
        .iter()
        .map(|event| match plain(event) {
            serde_json::Value::Object(fields) => Ok(Event(fields)),
            _ => Err(BadEvent),
        })
        .collect()
}

fn plain(value: &Value<'_>) -> serde_json::Value {
    match value {
        Value::Nil => json!(null),
        Value::Bool(truth) => json!(truth),
        Value::Number(number) => match (u64::try_from(*number), i64::try_from(*number)) {
            (Ok(number), _) => json!(number),
            (_, Ok(number)) => json!(number),
            _ => json!(number.to_string()),
        },
        Value::Float(number) => json!(number),
        Value::Text(text) => json!(text),
        Value::Bytes(bytes) => {
            json!(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
        }
        Value::List(values) => values.iter().map(plain).collect(),
        Value::Map(pairs) => {
            let name = |value: &Value<'_>| match plain(value) {
                serde_json::Value::String(name) => name,
                other => other.to_string(),
            };
            pairs.iter().map(|(key, value)| (name(key), plain(value))).collect()
        }
    }
}

impl Event {
    fn text_of(&self, field: &str) -> Option<&str> {
        self.0.get(field)?.as_str()
    }

    /// The key; `None` for an event about all keys.
    pub(super) fn key(&self) -> Option<&str> {
        self.text_of("object_key")
    }

    pub(super) fn json(&self) -> String {
        serde_json::Value::Object(self.0.clone()).to_string()
    }

    pub(super) fn text(&self) -> String {
        let time = self.0.get("timestamp").and_then(serde_json::Value::as_u64).unwrap_or(0);
        let kind = self.text_of("event_type").unwrap_or("unknown");
        let medium = self.text_of("medium").unwrap_or_default();
        let number = || self.0.get("seq_hashes")?.get(0).map(ToString::to_string);
        let key = self.key().map(shown).or_else(number).unwrap_or_default();
        let label = |name: &str, field: &str| {
            self.text_of(field).map(|it| format!("  {name}={}", shown(it))).unwrap_or_default()
        };
        let labels = label("group", "group_id") + &label("session", "session_id");
        format!("{}  {kind:<7}  {medium:<4}  {key}{labels}", clock(time)).trim_end().to_owned()
    }
}

/// The time of day of a moment in milliseconds since 1970.
fn clock(ms: u64) -> String {
    let seconds = ms / 1000 % 86_400;
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}.{:03}", seconds % 60, ms % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line() {
        let fields = json!({"timestamp": 1_795_838_341_007_u64, "event_type": "stored", "medium": "cpu",
                            "object_key": "a", "group_id": "g", "session_id": null});
        let event = |fields: serde_json::Value| Event(fields.as_object().expect("a map").clone());
        assert_eq!(event(fields).text(), "03:59:01.007  stored   cpu   a  group=g");
        let cleared = json!({"timestamp": 5, "event_type": "cleared"});
        assert_eq!(event(cleared).text(), "00:00:00.005  cleared");
        let numbered =
            json!({"timestamp": 5, "event_type": "removed", "medium": "disk", "seq_hashes": [17]});
        assert_eq!(event(numbered).text(), "00:00:00.005  removed  disk  17");
    }

    #[test]
    fn what_is_no_batch_is_refused() {
        for bytes in [&[][..], &[0xC0], &[0x92, 1, 1], &[0x92, 1, 0x91, 1], &[0xC1]] {
            assert_eq!(read(bytes), Err(BadEvent), "{bytes:?}");
        }
        assert_eq!(read(&[0x92, 1, 0x90]), Ok(Vec::new()));
        let one = read(&[0x92, 1, 0x91, 0x81, 0xA1, b'x', 0xC3]).expect("a batch");
        assert_eq!(one[0].json(), r#"{"x":true}"#);
    }
}
