//! What a later leader is to know of an object, as the bytes that go with its writes and that its nodes keep.
//!
//! A byte of flags, the type of the data, the length of a soft pin if there is one, the number of replicas that were
//! asked for if it is more than one, and the name of the group. Most objects have nothing of it: theirs are no bytes at
//! all.

use mooncake_types::{PutMode, limits};

use crate::Meta;
use crate::objects::{ObjectState, Pin};

const HARD: u8 = 1;
const SOFT: u8 = 2;
const SLIDING: u8 = 4;
const REPLACES: u8 = 8;
const REPLICAS: u8 = 16;
const KNOWN: u8 = HARD | SOFT | SLIDING | REPLACES | REPLICAS;

/// See [`Meta::attributes_of`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attributes<'a> {
    pub(crate) hard_pin: bool,
    /// How long the soft pin lasts, in milliseconds, and whether it slides.
    pub(crate) soft_pin: Option<(u64, bool)>,
    pub(crate) data_type: u8,
    /// The name of the group; empty for none.
    pub(crate) group: &'a str,
    /// Nodes may have held an older version of the key when this one was granted.
    pub(crate) replaces: bool,
    /// Replicas that were asked for, 1 to [`limits::MAX_REPLICAS`].
    pub(crate) replicas: u32,
}

impl Default for Attributes<'_> {
    fn default() -> Self {
        Self {
            hard_pin: false,
            soft_pin: None,
            data_type: 0,
            group: "",
            replaces: false,
            replicas: 1,
        }
    }
}

impl<'a> Attributes<'a> {
    fn encode(&self) -> Vec<u8> {
        if *self == Attributes::default() {
            return Vec::new();
        }
        let (ttl_ms, slides) = self.soft_pin.unwrap_or_default();
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        let flags = flag(self.hard_pin, HARD)
            | flag(self.soft_pin.is_some(), SOFT)
            | flag(slides, SLIDING)
            | flag(self.replaces, REPLACES)
            | flag(self.replicas > 1, REPLICAS);
        let mut bytes = vec![flags, self.data_type];
        if self.soft_pin.is_some() {
            bytes.extend_from_slice(&ttl_ms.to_le_bytes());
        }
        if self.replicas > 1 {
            bytes.push(self.replicas as u8);
        }
        bytes.extend_from_slice(self.group.as_bytes());
        bytes
    }

    /// What bytes of a ledger say; none if a master did not make them.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let Some((&[flags, data_type], rest)) = bytes.split_first_chunk() else {
            return bytes.is_empty().then(Self::default);
        };
        let (ttl_ms, rest) = match flags & SOFT {
            0 => (0, rest),
            _ => {
                let (ttl_ms, rest) = rest.split_first_chunk()?;
                (u64::from_le_bytes(*ttl_ms), rest)
            }
        };
        let (replicas, group) = match flags & REPLICAS {
            0 => (1, rest),
            _ => rest.split_first().map(|(&replicas, group)| (u32::from(replicas), group))?,
        };
        let is_sound = flags & !KNOWN == 0
            && (1..=limits::MAX_REPLICAS).contains(&replicas)
            && group.len() <= limits::MAX_GROUP_BYTES;
        is_sound.then_some(())?;
        Some(Self {
            hard_pin: flags & HARD != 0,
            soft_pin: (flags & SOFT != 0).then_some((ttl_ms, flags & SLIDING != 0)),
            data_type,
            group: std::str::from_utf8(group).ok()?,
            replaces: flags & REPLACES != 0,
            replicas,
        })
    }
}

impl Meta {
    /// What goes with the writes of an object.
    pub(crate) fn attributes_of(&self, object: u32) -> Vec<u8> {
        let record = &self.objects[object];
        // An upsert that has not ended takes over the pin of what it will replace.
        let holder = (record.asked.mode() == PutMode::Upsert
            && record.state == ObjectState::Waiting)
            .then(|| self.find(&record.key))
            .flatten()
            .filter(|&holder| self.objects[holder].state == ObjectState::Complete);
        let pinned = match holder {
            Some(holder) if self.objects[holder].pin == Pin::Hard => holder,
            Some(holder) if record.pin == Pin::Inherited => holder,
            _ => object,
        };
        let soft_pin = self.soft_pins.get(&pinned).map(|pin| (pin.ttl_ms, pin.sliding));
        let hard_pin = self.objects[pinned].pin == Pin::Hard;
        Attributes {
            hard_pin,
            soft_pin: soft_pin.filter(|_| !hard_pin),
            data_type: record.data_type,
            group: self.group_name(object).unwrap_or_default(),
            replaces: record.state == ObjectState::Waiting
                || self.is_replacing(object)
                || !self.leaving.of_key(&record.key).is_empty()
                || self.tombstones.len() > 0
                    && self.tombstones.of_key(self.index.hash(&record.key)).next().is_some(),
            replicas: record.asked.replicas(),
        }
        .encode()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_come_back_as_they_were() {
        let plain = Attributes::default();
        assert_eq!(plain.encode(), b"");
        for attributes in [
            plain,
            Attributes { data_type: 7, ..plain },
            Attributes { hard_pin: true, ..plain },
            Attributes { soft_pin: Some((0, false)), ..plain },
            Attributes { soft_pin: Some((u64::MAX, true)), group: "gruppe-ä", ..plain },
            Attributes { group: "g", replaces: true, ..plain },
            Attributes { replicas: 2, ..plain },
            Attributes { soft_pin: Some((5, true)), group: "g", replicas: 32, ..plain },
        ] {
            let bytes = attributes.encode();
            assert!(bytes.len() <= limits::MAX_ATTRIBUTES_BYTES);
            assert_eq!(Attributes::decode(&bytes), Some(attributes));
        }
        let group = "g".repeat(limits::MAX_GROUP_BYTES);
        let longest = Attributes { soft_pin: Some((1, true)), group: &group, replicas: 3, ..plain };
        assert!(longest.encode().len() <= limits::MAX_ATTRIBUTES_BYTES);
    }

    #[test]
    fn bytes_of_somebody_else_are_no_attributes() {
        let long = [vec![0, 0], vec![b'g'; limits::MAX_GROUP_BYTES + 1]].concat();
        for bytes in [
            &[0][..],
            &[32, 0],
            &[SOFT, 0, 1, 2, 3],
            &[0, 0, 0xFF],
            &[REPLICAS, 0],
            &[REPLICAS, 0, 0],
            &[REPLICAS, 0, 33],
            &long,
        ] {
            assert_eq!(Attributes::decode(bytes), None, "{bytes:?}");
        }
    }
}
