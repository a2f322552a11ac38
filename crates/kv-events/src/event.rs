//! An event, as callers see it and as MessagePack.

use rmp::encode;

/// Where a key is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// Memory.
    Memory,
    /// A disk.
    Disk,
}

impl Tier {
    /// The word that subscribers know.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Tier::Memory => "cpu",
            Tier::Disk => "disk",
        }
    }
}

/// What happened to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is kept there from now on.
    Stored,
    /// It is kept there no longer.
    Removed,
}

/// A key is kept elsewhere than before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// One key, one tier.
    Key {
        /// The key.
        key: Box<str>,
        /// Where.
        tier: Tier,
        /// What happened.
        change: Change,
    },
    /// Whatever was told before is void: who tells has begun anew.
    Cleared,
}

/// What each event says beside the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fields {
    /// Who tells.
    pub backend_id: String,
    /// Whether the names of vLLM's own events stand beside the newer ones.
    pub are_legacy_names_there: bool,
    /// Whether the key stands in the event, and not only the number that it is.
    pub is_key_there: bool,
}

/// The number that a key is, in decimal or as `0x` and hexadecimal digits, if it is one of 64 bits.
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

/// Writes MessagePack into memory, where nothing fails.
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

/// A value of an event.
enum Value<'a> {
    Nil,
    Number(u64),
    Text(&'a str),
    /// A list of a number, or of none.
    Numbers(Option<u64>),
    /// As that, of signed ones: vLLM's hashes were.
    Signed(Option<u64>),
}

impl Event {
    /// The key's number, if it is one.
    pub(crate) fn number(&self) -> Option<u64> {
        match self {
            Event::Key { key, .. } => number_of(key),
            Event::Cleared => None,
        }
    }

    /// Writes the event, with its number among all events and the time in milliseconds since 1970.
    pub(crate) fn pack(&self, fields: &Fields, (id, time_ms): (u64, u64), packer: &mut Packer) {
        let values = self.values(fields, (id, time_ms));
        packer.map(values.len());
        for (name, value) in values {
            packer.text(name);
            match value {
                Value::Nil => packer.nil(),
                Value::Number(number) => packer.number(number),
                Value::Text(text) => packer.text(text),
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
        // What a pool does not know of its keys: consumers know it from the engines.
        for unknown in ["model_name", "block_size", "additional_salt", "lora_name"] {
            values.push((unknown, Value::Nil));
        }
        values.push(("tenant_id", Value::Text("default")));
        values.push(("backend_id", Value::Text(&fields.backend_id)));
        values.push(("group_id", Value::Nil));
        if let Event::Key { key, tier, change } = self {
            self.key_values(fields, (key, *tier, *change), &mut values);
        }
        values.push(("dp_rank", Value::Nil));
        values
    }

    fn key_values<'a>(
        &'a self,
        fields: &Fields,
        (key, tier, change): (&'a str, Tier, Change),
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
        // Each key stands for itself.
        let base = if is_stored { Value::Number(0) } else { Value::Nil };
        values.push(("base_block_idx", base));
        if is_stored {
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
