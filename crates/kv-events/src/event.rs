//! Events, and their encoding in MessagePack.

use rmp::encode;

/// The kind of place where a key is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// Memory.
    Memory,
    /// A disk.
    Disk,
}

impl Tier {
    /// The name of the tier in events.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Tier::Memory => "cpu",
            Tier::Disk => "disk",
        }
    }
}

/// A change of one key in one tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The tier holds the key from now on.
    Stored,
    /// The tier no longer holds the key.
    Removed,
}

/// A change that subscribers learn of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A key was stored in a tier, or removed from it.
    Key {
        /// The key, as its tenant named it.
        key: Box<str>,
        /// The name of its tenant; absent for the default one.
        tenant: Option<Box<str>>,
        /// The tier.
        tier: Tier,
        /// The change.
        change: Change,
        /// The name of the object's group; empty for none.
        group: Box<str>,
        /// The session that the object belongs to; empty for none.
        session: Box<str>,
    },
    /// All earlier events are void, since the publisher has started anew.
    Cleared,
}

/// The parts of events that are the same for all keys, and which optional fields events have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fields {
    /// The name of the pool.
    pub backend_id: String,
    /// Whether events also have the field names of vLLM's own events.
    pub are_legacy_names_there: bool,
    /// Whether events contain the key itself, and not only its number.
    pub is_key_there: bool,
}

/// The number that a key spells, in decimal, or in hexadecimal after `0x`. `None` if it is no number of 64 bits.
pub(crate) fn number_of(key: &str) -> Option<u64> {
    let digits = |text: &str, radix| {
        let is_plain = text.chars().all(|digit| digit.is_digit(radix));
        is_plain.then(|| u64::from_str_radix(text, radix).ok()).flatten()
    };
    match key.strip_prefix("0x").or(key.strip_prefix("0X")) {
        Some(hexadecimal) => digits(hexadecimal, 16),
        None => digits(key, 10),
    }
}

/// Writes MessagePack into memory, which never fails.
#[derive(Default)]
pub(crate) struct Packer(pub(crate) Vec<u8>);

const WRITTEN: &str = "memory takes whatever is written to it";

impl Packer {
    pub(crate) fn array(&mut self, len: usize) {
        encode::write_array_len(&mut self.0, len as u32).expect(WRITTEN);
    }

    pub(crate) fn number(&mut self, number: u64) {
        encode::write_uint(&mut self.0, number).expect(WRITTEN);
    }

    fn map(&mut self, len: usize) {
        encode::write_map_len(&mut self.0, len as u32).expect(WRITTEN);
    }

    fn text(&mut self, text: &str) {
        encode::write_str(&mut self.0, text).expect(WRITTEN);
    }

    fn nil(&mut self) {
        encode::write_nil(&mut self.0).expect(WRITTEN);
    }
}

/// The value of an event's field.
enum Value<'a> {
    Nil,
    Number(u64),
    Text(&'a str),
    /// A text, or nothing if it is empty.
    Label(&'a str),
    /// A list with this number, or an empty list.
    Numbers(Option<u64>),
    /// As `Numbers`, but signed, as in vLLM's own events.
    Signed(Option<u64>),
}

impl Event {
    /// The number that the event's key spells, if it is a number.
    pub(crate) fn number(&self) -> Option<u64> {
        match self {
            Event::Key { key, .. } => number_of(key),
            Event::Cleared => None,
        }
    }

    /// Writes the event with its id and its time in milliseconds since 1970.
    pub(crate) fn pack(&self, fields: &Fields, (id, time_ms): (u64, u64), packer: &mut Packer) {
        let values = self.values(fields, (id, time_ms));
        packer.map(values.len());
        for (name, value) in values {
            packer.text(name);
            match value {
                Value::Nil | Value::Label("") => packer.nil(),
                Value::Number(number) => packer.number(number),
                Value::Text(text) | Value::Label(text) => packer.text(text),
                Value::Numbers(numbers) => {
                    packer.array(usize::from(numbers.is_some()));
                    numbers.into_iter().for_each(|number| packer.number(number));
                }
                Value::Signed(numbers) => {
                    packer.array(usize::from(numbers.is_some()));
                    if let Some(number) = numbers {
                        encode::write_sint(&mut packer.0, number.cast_signed()).expect(WRITTEN);
                    }
                }
            }
        }
    }

    fn values<'a>(
        &'a self,
        fields: &'a Fields,
        (id, time_ms): (u64, u64),
    ) -> Vec<(&'static str, Value<'a>)> {
        let (event_type, legacy) = match self {
            Event::Key { change: Change::Stored, .. } => ("stored", "BlockStored"),
            Event::Key { change: Change::Removed, .. } => ("removed", "BlockRemoved"),
            Event::Cleared => ("cleared", "AllBlocksCleared"),
        };
        let mut values = vec![
            ("event_id", Value::Number(id)),
            ("timestamp", Value::Number(time_ms)),
            ("event_type", Value::Text(event_type)),
        ];
        if fields.are_legacy_names_there {
            values.push(("type", Value::Text(legacy)));
        }
        // A pool does not know these properties of its keys. Consumers know them from the engines.
        for unknown in ["model_name", "block_size", "additional_salt", "lora_name"] {
            values.push((unknown, Value::Nil));
        }
        let tenant = if let Event::Key { tenant, .. } = self { tenant.as_deref() } else { None };
        values.push(("tenant_id", Value::Text(tenant.unwrap_or("default"))));
        values.push(("backend_id", Value::Text(&fields.backend_id)));
        let group = if let Event::Key { group, .. } = self { &**group } else { "" };
        values.push(("group_id", Value::Label(group)));
        if let Event::Key { key, tier, change, session, .. } = self {
            self.key_values(fields, (key, *tier, *change, session), &mut values);
        }
        values.push(("dp_rank", Value::Nil));
        values
    }

    fn key_values<'a>(
        &'a self,
        fields: &Fields,
        (key, tier, change, session): (&'a str, Tier, Change, &'a str),
        values: &mut Vec<(&'static str, Value<'a>)>,
    ) {
        let (number, is_stored) = (self.number(), change == Change::Stored);
        values.push(("medium", Value::Text(tier.name())));
        if fields.is_key_there {
            values.push(("object_key", Value::Text(key)));
        }
        values.push(("seq_hashes", Value::Numbers(number)));
        if fields.are_legacy_names_there {
            values.push(("block_hashes", Value::Signed(number)));
        }
        // A key is one block of its own, so its base index is 0.
        let base = if is_stored { Value::Number(0) } else { Value::Nil };
        values.push(("base_block_idx", base));
        if is_stored {
            values.push(("session_id", Value::Label(session)));
            values.push(("parent_hash", Value::Nil));
            values.push(("token_ids", Value::Nil));
            if fields.are_legacy_names_there {
                values.push(("parent_block_hash", Value::Nil));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_are_numbers_are_known_as_such() {
        let max = u64::MAX.to_string();
        for (key, number) in [
            ("0", Some(0)),
            ("17", Some(17)),
            (&max, Some(u64::MAX)),
            ("18446744073709551616", None),
            ("0xff", Some(255)),
            ("0XfF", Some(255)),
            ("0x", None),
            ("", None),
            ("+1", None),
            ("-1", None),
            ("1 ", None),
            ("0x-1", None),
            ("m@abc", None),
        ] {
            assert_eq!(number_of(key), number, "{key:?}");
        }
    }
}
