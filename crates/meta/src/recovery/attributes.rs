//! Attributes: the properties of an object that a later leader needs. They travel with each write, and nodes keep them
//! in their ledgers.
//!
//! The bytes are, in this order:
//!
//! 1. flags,
//! 2. the data type,
//! 3. the length of the soft pin, if there is one,
//! 4. the number of replicas asked for, if it is more than one,
//! 5. the name of the group.
//!
//! Most objects have only defaults, which encode as no bytes at all.

use mooncake_types::limits;

const HARD: u8 = 1;
const SOFT: u8 = 2;
const SLIDING: u8 = 4;
const REPLACES: u8 = 8;
const REPLICAS: u8 = 16;
const KNOWN: u8 = HARD | SOFT | SLIDING | REPLACES | REPLICAS;

/// The attributes of an object: see the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attributes<'a> {
    pub(super) hard_pin: bool,
    /// How long the soft pin lasts, in milliseconds, and whether it slides.
    pub(super) soft_pin: Option<(u64, bool)>,
    pub(super) data_type: u8,
    /// The name of the group; empty for none.
    pub(super) group: &'a str,
    /// Nodes may have held an older version of the key when this one was granted.
    pub(super) replaces: bool,
    /// Replicas that were asked for, 1 to [`limits::MAX_REPLICAS`].
    pub(super) replicas: u32,
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
    /// The soft pin that takes effect, if there is one: it lasts some time and the object has no hard pin.
    pub(super) fn lasting_soft_pin(&self) -> Option<(u64, bool)> {
        self.soft_pin.filter(|&(ttl_ms, _)| ttl_ms > 0 && !self.hard_pin)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
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

    /// Decodes the bytes that a ledger keeps. `None` if no master can have encoded them.
    pub(super) fn decode(bytes: &'a [u8]) -> Option<Self> {
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
