//! A record: a self-describing header, and the bytes of a range.

use mooncake_types::limits::{CHUNK_BYTES, MAX_ATTRIBUTES_BYTES, MAX_KEY_BYTES};
use mooncake_types::{Epoch, Version};

use crate::errors::PutError;
use crate::layout::{BLOCK, blocks_of, checksum};

const MAGIC: u32 = 0x4d4b_5243;
const FIXED_BYTES: usize = 80;

/// The name of a record: the grant under which its range was written, and the range's offset. One version may have
/// several records, each under a grant of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId {
    /// The grant under which the range was written.
    pub grant: Version,
    /// Offset of the range in its segment, in bytes.
    pub offset: u64,
}

/// The header of a record: everything that is kept of a range beside its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The record's name.
    pub name: RecordId,
    /// The version of the object.
    pub version: Version,
    /// The object's key.
    pub key: Box<str>,
    /// The attributes that the master gave with the grant.
    pub attributes: Box<[u8]>,
    /// Length of the whole object, in bytes.
    pub object_len: u64,
    /// Offset of the range's bytes in the object, in bytes; zero unless the object is striped.
    pub object_offset: u64,
    /// Length of the range, in bytes.
    pub len: u64,
    /// CRC32C of each chunk of [`CHUNK_BYTES`], the last one possibly shorter.
    pub checksums: Box<[u32]>,
}

impl Record {
    /// Whether the record can be written: the lengths of its parts are valid and consistent.
    pub(crate) fn is_sound(&self) -> bool {
        (1..=MAX_KEY_BYTES).contains(&self.key.len())
            && self.attributes.len() <= MAX_ATTRIBUTES_BYTES
            && self.len > 0
            && self.object_offset.checked_add(self.len).is_some_and(|it| it <= self.object_len)
            && self.name.offset.checked_add(self.len).is_some()
            && self.checksums.len() as u64 == self.len.div_ceil(CHUNK_BYTES)
    }

    /// Length of the header, in bytes, without padding.
    pub(crate) fn header_len(&self) -> usize {
        FIXED_BYTES + self.key.len() + self.attributes.len() + 4 * self.checksums.len()
    }

    /// Blocks that the record takes.
    pub(crate) fn blocks(&self) -> u64 {
        blocks_of(self.header_len() as u64) + blocks_of(self.len)
    }

    /// Checks whether a store can take the record with `data_len` bytes of data. `most` is its longest record, with
    /// header, in bytes.
    pub(crate) fn check(&self, data_len: u64, most: u64) -> Result<(), PutError> {
        if !self.is_sound() || self.len != data_len {
            return Err(PutError::Malformed);
        }
        let len = self.blocks() * BLOCK;
        if len > most { Err(PutError::TooLong { len, most }) } else { Ok(()) }
    }

    /// Encodes the header for a file with this nonce.
    pub(crate) fn encode(&self, nonce: u64) -> Vec<u8> {
        let mut header = Vec::with_capacity(self.header_len());
        header.extend([0; 4]);
        header.extend(MAGIC.to_le_bytes());
        header.extend((self.header_len() as u32).to_le_bytes());
        header.extend((self.key.len() as u16).to_le_bytes());
        header.extend((self.attributes.len() as u16).to_le_bytes());
        let RecordId { grant, offset } = self.name;
        for field in [
            grant.epoch.0,
            grant.counter,
            offset,
            self.version.epoch.0,
            self.version.counter,
            self.object_len,
            self.object_offset,
            self.len,
        ] {
            header.extend(field.to_le_bytes());
        }
        header.extend(self.key.as_bytes());
        header.extend(&self.attributes);
        self.checksums.iter().for_each(|sum| header.extend(sum.to_le_bytes()));
        let sum = checksum(nonce, &header[4..]);
        header[..4].copy_from_slice(&sum.to_le_bytes());
        header
    }

    /// The length of the header that begins here, as it says itself. `None` if no header begins here.
    pub(crate) fn announced_len(bytes: &[u8]) -> Option<usize> {
        let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        (word(4)? == MAGIC).then_some(word(8)? as usize).filter(|&len| len >= FIXED_BYTES)
    }

    /// Decodes the record whose header begins here, if the header is intact and its checksum fits this nonce.
    pub(crate) fn decode(bytes: &[u8], nonce: u64) -> Option<Record> {
        let header = bytes.get(..Self::announced_len(bytes)?)?;
        let sum = u32::from_le_bytes(header[..4].try_into().ok()?);
        if sum != checksum(nonce, &header[4..]) {
            return None;
        }
        let short = |at: usize| usize::from(u16::from_le_bytes([header[at], header[at + 1]]));
        let field = |number: usize| -> Option<u64> {
            let at = 16 + number * 8;
            Some(u64::from_le_bytes(header[at..at + 8].try_into().ok()?))
        };
        let version =
            |at: usize| Some(Version { epoch: Epoch(field(at)?), counter: field(at + 1)? });
        let (key_end, attributes_end) =
            (FIXED_BYTES + short(12), FIXED_BYTES + short(12) + short(14));
        let sums = header.get(attributes_end..)?;
        let record = Record {
            name: RecordId { grant: version(0)?, offset: field(2)? },
            version: version(3)?,
            key: std::str::from_utf8(header.get(FIXED_BYTES..key_end)?).ok()?.into(),
            attributes: header.get(key_end..attributes_end)?.into(),
            object_len: field(5)?,
            object_offset: field(6)?,
            len: field(7)?,
            checksums: sums
                .chunks_exact(4)
                .map(|sum| u32::from_le_bytes([sum[0], sum[1], sum[2], sum[3]]))
                .collect(),
        };
        (record.is_sound() && record.header_len() == header.len()).then_some(record)
    }
}

/// Bytes from the start of a record to its data.
pub(crate) fn data_offset(header_len: usize) -> u64 {
    blocks_of(header_len as u64) * BLOCK
}

#[cfg(test)]
mod tests {
    use mooncake_types::Chance;

    use super::*;

    /// Anything may lie on a disk, also with the right checksum. What is taken for a record has lengths that fit.
    #[test]
    fn no_bytes_of_a_disk_end_the_process() {
        let version = |counter| Version { epoch: Epoch(3), counter };
        let record = Record {
            name: RecordId { grant: version(5), offset: 1 << 40 },
            version: version(4),
            key: "a key".into(),
            attributes: [1, 2, 3].into(),
            object_len: CHUNK_BYTES + 20,
            object_offset: 10,
            len: CHUNK_BYTES + 1,
            checksums: [7, 8].into(),
        };
        let (whole, mut chance, mut decoded) = (record.encode(9), Chance::new(0xd15c), 0);
        for _ in 0..20_000 {
            let mut bytes = whole.clone();
            for _ in 0..=chance.below(3) {
                let at = 12 + chance.place(bytes.len() - 12);
                let len = [1, 8][chance.place(2)].min(bytes.len() - at);
                bytes[at..at + len].fill([0, 1, 0xff, chance.bits() as u8][chance.place(4)]);
            }
            let sum = checksum(9, &bytes[4..]);
            bytes[..4].copy_from_slice(&sum.to_le_bytes());
            let Some(found) = Record::decode(&bytes, 9) else { continue };
            assert_eq!(found.encode(9), bytes);
            assert!(found.is_sound() && found.blocks() < u64::MAX / BLOCK);
            decoded += 1;
        }
        assert!(decoded > 300, "{decoded} got past the checks");
    }

    #[test]
    fn a_header_says_all_and_is_of_one_file() {
        let version = |counter| Version { epoch: Epoch(3), counter };
        let record = Record {
            name: RecordId { grant: version(5), offset: 1 << 40 },
            version: version(4),
            key: "a key".into(),
            attributes: [1, 2, 3].into(),
            object_len: CHUNK_BYTES + 20,
            object_offset: 10,
            len: CHUNK_BYTES + 1,
            checksums: [7, 8].into(),
        };
        let header = record.encode(9);
        assert_eq!(Record::decode(&header, 9), Some(record.clone()));
        assert_eq!(Record::decode(&header, 10), None, "of another file");
        assert_eq!(Record::announced_len(&header), Some(record.header_len()));
        for at in 0..header.len() {
            assert_eq!(Record::decode(&header[..at], 9), None, "cut off at {at}");
            let mut flipped = header.clone();
            flipped[at] ^= 0x10;
            assert_eq!(Record::decode(&flipped, 9), None, "flipped at {at}");
        }
    }
}
