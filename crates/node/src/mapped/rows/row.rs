//! An entry as a row of bytes: eight numbers of eight bytes, the lengths of what follows, the key, the attributes,
//! the checksums. An entry with very many chunks has one checksum of theirs in place of them.

use std::sync::Arc;

use mooncake_memory::digest;
use mooncake_types::{Epoch, RangeWrite, Seal, SegmentId, Version, limits};

use super::super::inherited::KeptChecksums;
use crate::ledger::Entry;

/// Entries above 128 MiB, with more checksums than this, keep their digest: the next process computes them again.
const MAX_CHECKSUMS: usize = 512;

const _: () = assert!(
    NUMBERS * 8 + LENGTHS_BYTES + LONGEST_TEXTS + MAX_CHECKSUMS * 4
        <= mooncake_memory::MAX_ROW_BYTES
);

const NUMBERS: usize = 8;

const LONGEST_TEXTS: usize = limits::MAX_KEY_BYTES + limits::MAX_ATTRIBUTES_BYTES;

/// Bytes of three lengths: of the key, of the attributes, and of the checksums.
const LENGTHS_BYTES: usize = 2 + 2 + 4;

/// The content of a row.
pub(super) struct KeptEntry<'a> {
    /// The write of the whole entry, without the id of its segment.
    pub(super) range: RangeWrite<'a>,
    pub(super) checksums: Option<Arc<[u32]>>,
    /// Which checksums the row has.
    pub(super) kept: KeptChecksums,
}

/// Replaces the content of `out` by the row of an entry.
pub(super) fn write(out: &mut Vec<u8>, offset: u64, entry: &Entry) {
    let numbers: [u64; NUMBERS] = [
        offset,
        entry.len,
        entry.version.epoch.0,
        entry.version.counter,
        entry.grant.epoch.0,
        entry.grant.counter,
        entry.object_len,
        entry.object_offset,
    ];
    let checksums = entry.checksums.as_deref().unwrap_or_default();
    let digested = [digest(checksums)];
    let checksums = if checksums.len() > MAX_CHECKSUMS { &digested[..] } else { checksums };
    let short = |len: usize| u16::try_from(len).expect("the ledger takes nothing so long");
    let lens = [short(entry.key.len()), short(entry.attributes.len())];
    out.clear();
    numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
    lens.iter().for_each(|len| out.extend_from_slice(&len.to_le_bytes()));
    out.extend_from_slice(&(checksums.len() as u32).to_le_bytes());
    out.extend_from_slice(entry.key.as_bytes());
    out.extend_from_slice(&entry.attributes);
    checksums.iter().for_each(|checksum| out.extend_from_slice(&checksum.to_le_bytes()));
}

/// Reads a row; `None` if the bytes are not a row.
pub(super) fn read(mut bytes: &[u8]) -> Option<KeptEntry<'_>> {
    let mut take = |len: usize| {
        let (taken, rest) = bytes.split_at_checked(len)?;
        bytes = rest;
        Some(taken)
    };
    let mut numbers = [0; NUMBERS];
    for number in &mut numbers {
        *number = u64::from_le_bytes(take(8)?.try_into().ok()?);
    }
    let key_len = u16::from_le_bytes(take(2)?.try_into().ok()?);
    let attributes_len = u16::from_le_bytes(take(2)?.try_into().ok()?);
    let checksum_count = u32::from_le_bytes(take(4)?.try_into().ok()?) as usize;
    let key = std::str::from_utf8(take(usize::from(key_len))?).ok()?;
    let attributes = take(usize::from(attributes_len))?;
    let checksums: Vec<u32> = take(checksum_count.checked_mul(4)?)?
        .chunks_exact(4)
        .map(|checksum| u32::from_le_bytes(checksum.try_into().expect("four bytes")))
        .collect();
    let [offset, len, epoch, counter, grant_epoch, grant_counter, object_len, object_offset] =
        numbers;
    let chunks = len.div_ceil(limits::CHUNK_BYTES);
    let kept = match *checksums {
        [] => KeptChecksums::Missing,
        [digest] if chunks > MAX_CHECKSUMS as u64 => KeptChecksums::Digest(digest),
        _ if checksums.len() as u64 == chunks => KeptChecksums::Chunks,
        _ => return None,
    };
    let is_one = take(1).is_none();
    let range = RangeWrite {
        segment: SegmentId(0),
        offset,
        from: 0,
        len,
        entry_len: len,
        key,
        version: Version { epoch: Epoch(epoch), counter },
        grant: Version { epoch: Epoch(grant_epoch), counter: grant_counter },
        object_len,
        object_offset,
        attributes,
        seal: Seal::NONE,
    };
    let checksums = (kept == KeptChecksums::Chunks).then(|| Arc::from(checksums));
    is_one.then_some(KeptEntry { range, checksums, kept })
}

#[cfg(test)]
mod tests {
    use mooncake_types::Chance;

    use super::*;
    use crate::Ledger;

    /// Any process of the same user may write a segment's file. A row that does not fit is refused.
    #[test]
    fn no_bytes_of_a_segment_file_end_the_process() {
        let version = Version { epoch: Epoch(3), counter: 5 };
        let range = RangeWrite {
            segment: SegmentId(0),
            offset: 4096,
            from: 0,
            len: 1000,
            entry_len: 1000,
            key: "a key",
            version,
            grant: version,
            object_len: 3000,
            object_offset: 1000,
            attributes: &[1, 2, 3],
            seal: Seal::NONE,
        };
        let mut whole = Vec::new();
        write(&mut whole, range.offset, &Entry::restored(&range, Some(Arc::from([7]))));
        let (mut chance, mut restored) = (Chance::new(0x0405), 0);
        for _ in 0..20_000 {
            let mut bytes = whole.clone();
            for _ in 0..=chance.below(3) {
                let at = chance.place(bytes.len());
                let len = [1, 8][chance.place(2)].min(bytes.len() - at);
                bytes[at..at + len].fill([0, 1, 0xff, chance.bits() as u8][chance.place(4)]);
            }
            bytes.truncate(bytes.len() - chance.place(3));
            let Some(kept) = read(&bytes) else { continue };
            let mut ledger = Ledger::new(1 << 20);
            if ledger.restore(&kept.range, kept.checksums).is_ok() {
                let (at, entry) = ledger.entries().next().expect("it was restored");
                assert!(at.checked_add(entry.len).is_some_and(|end| end <= 1 << 20));
                restored += 1;
            }
        }
        assert!(restored > 300, "{restored} got past the checks");
    }
}
