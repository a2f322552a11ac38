//! The note in a disk's folder: a few lines about the segment in it, and their checksum.

use mooncake_memory::crc32c;
use mooncake_types::{ClientId, Epoch, SegmentId};

/// Which client and segment a disk belongs to, and what else must outlive the process beside the records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    /// The client id of the node.
    pub(super) client: ClientId,
    pub(super) segment: SegmentId,
    /// How many processes have lent it.
    pub(super) run: u64,
    /// The highest epoch that the segment obeyed.
    pub(super) epoch: Epoch,
    /// Bytes that its files may take.
    pub(super) capacity_bytes: u64,
    /// The disk failed: the records that were dropped last may still be on it.
    pub(super) is_broken: bool,
}

const NAMES: [&str; 6] = ["client", "segment", "run", "epoch", "capacity", "broken"];

impl Identity {
    /// Distinguishes the records of this segment from those of other segments.
    pub(super) const fn nonce(&self) -> u64 {
        let SegmentId(id) = self.segment;
        (id >> 64) as u64 ^ id as u64
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let values = [
            self.client.0,
            self.segment.0,
            u128::from(self.run),
            u128::from(self.epoch.0),
            u128::from(self.capacity_bytes),
            u128::from(self.is_broken),
        ];
        let lines = NAMES.iter().zip(values).map(|(name, value)| format!("{name} {value:x}\n"));
        let lines: String = lines.collect();
        format!("{lines}checksum {:x}\n", crc32c(lines.as_bytes())).into_bytes()
    }

    /// `None` if these are not the bytes of a note.
    pub(super) fn decode(bytes: &[u8]) -> Option<Identity> {
        let text = std::str::from_utf8(bytes).ok()?;
        let (lines, sum) = text.strip_suffix('\n')?.rsplit_once("checksum ")?;
        if u32::from_str_radix(sum, 16) != Ok(crc32c(lines.as_bytes())) {
            return None;
        }
        let mut found = lines.lines();
        let mut values = [0; NAMES.len()];
        for (name, value) in NAMES.iter().zip(&mut values) {
            let digits = found.next()?.strip_prefix(name)?.strip_prefix(' ')?;
            *value = u128::from_str_radix(digits, 16).ok()?;
        }
        let [client, segment, run, epoch, capacity, broken] = values;
        let number = |value: u128| u64::try_from(value).ok();
        Some(Identity {
            client: ClientId(client),
            segment: SegmentId(segment),
            run: number(run)?,
            epoch: Epoch(number(epoch)?),
            capacity_bytes: number(capacity)?,
            is_broken: broken != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_comes_back_whole_or_not_at_all() {
        let identity = Identity {
            client: ClientId(u128::MAX),
            segment: SegmentId(7),
            run: 3,
            epoch: Epoch(u64::MAX),
            capacity_bytes: 1 << 40,
            is_broken: true,
        };
        let note = identity.encode();
        assert_eq!(Identity::decode(&note), Some(identity));
        for at in 0..note.len() {
            assert_eq!(Identity::decode(&note[..at]), None, "cut off at {at}");
            let mut flipped = note.clone();
            flipped[at] ^= 1;
            assert_eq!(Identity::decode(&flipped), None, "flipped at {at}");
        }
    }
}
