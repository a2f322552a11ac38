//! Seals: keyed hashes over what a master allows at a node. The master makes them, clients carry them beside the ranges,
//! and the node checks them. A member of the pool that was not given a range cannot read, write or drop it.
//!
//! A node draws a [`SealKey`] for each leader, and tells it to the leader when it mounts. No other process has the key:
//! not even another node can make seals for this one. The hash is SipHash-2-4 with a key of 128 bits. To guess one of its
//! 64 bits takes a frame for each guess.
//!
//! A seal has no end in time: no process compares its clock with that of another. A read ends with the version that it
//! names, a write with the next grant of its range, and all seals of a leader soon after the next leader.
//!
//! A master's [`Sealer`] keeps the keys and seals replies. This crate has no sockets.

#![forbid(unsafe_code)]

mod sealer;

use std::hash::Hasher;

use mooncake_types::{RangeDrop, RangeRead, RangeWrite, Seal, SealKey, SegmentId, Version};
use siphasher::sip::SipHasher24;

pub use sealer::Sealer;

/// What a seal allows. The numbers are hashed.
#[derive(Clone, Copy)]
enum Allowed {
    Read = 1,
    Write = 2,
    Drop = 3,
    Follow = 4,
}

/// The seal on reads of the entry that a range names, whichever of its bytes are wanted.
#[must_use]
pub fn on_read(key: &SealKey, range: &RangeRead) -> Seal {
    let RangeRead { segment, offset, version, .. } = *range;
    on_read_at(key, segment, offset, version)
}

/// The seal on reads of the version that lies at an offset of a segment.
#[must_use]
pub fn on_read_at(key: &SealKey, segment: SegmentId, offset: u64, version: Version) -> Seal {
    let place = Words::new(Allowed::Read, segment).and(offset).and_version(version);
    place.seal(key, &[])
}

/// The seal on writes of an entry, in whichever parts. It covers all that a ledger keeps of the entry, its key above all:
/// a later leader believes that.
#[must_use]
pub fn on_write(key: &SealKey, range: &RangeWrite<'_>) -> Seal {
    let RangeWrite { segment, offset, entry_len, key: name, version, grant, .. } = *range;
    let words = Words::new(Allowed::Write, segment).and(offset).and(entry_len);
    let words = words.and_version(version).and_version(grant);
    let words = words.and(range.object_len).and(range.object_offset);
    // Its length says where the key ends and the attributes begin.
    words.and(name.len() as u64).seal(key, &[name.as_bytes(), range.attributes])
}

/// The seal on the drop of an entry.
#[must_use]
pub fn on_drop(key: &SealKey, range: &RangeDrop) -> Seal {
    let RangeDrop { segment, offset, version, grant } = *range;
    let words = Words::new(Allowed::Drop, segment).and(offset);
    words.and_version(version).and_version(grant).seal(key, &[])
}

/// The seal on following the ledger of a segment.
#[must_use]
pub fn on_follow(key: &SealKey, segment: SegmentId) -> Seal {
    Words::new(Allowed::Follow, segment).seal(key, &[])
}

/// The numbers that a seal covers, and how many there are.
struct Words([u64; MOST_WORDS], usize);

/// As many as a write has.
const MOST_WORDS: usize = 12;

impl Words {
    fn new(allowed: Allowed, segment: SegmentId) -> Self {
        let words = Self([0; MOST_WORDS], 0).and(allowed as u64);
        words.and((segment.0 >> 64) as u64).and(segment.0 as u64)
    }

    fn and(mut self, word: u64) -> Self {
        self.0[self.1] = word;
        self.1 += 1;
        self
    }

    fn and_version(self, version: Version) -> Self {
        self.and(version.epoch.0).and(version.counter)
    }

    fn seal(&self, key: &SealKey, texts: &[&[u8]]) -> Seal {
        let Self(words, count) = self;
        let mut hasher = SipHasher24::new_with_key(&key.0);
        let mut bytes = [0; 8 * MOST_WORDS];
        for (place, word) in bytes.as_chunks_mut().0.iter_mut().zip(&words[..*count]) {
            *place = word.to_le_bytes();
        }
        hasher.write(&bytes[..8 * count]);
        texts.iter().for_each(|text| hasher.write(text));
        // Zero stands for no seal.
        Seal(hasher.finish().max(1))
    }
}

#[cfg(test)]
mod tests {
    use mooncake_types::Epoch;

    use super::*;

    const KEY: SealKey = SealKey([7; 16]);

    const fn version(counter: u64) -> Version {
        Version { epoch: Epoch(9), counter }
    }

    const WRITE: RangeWrite<'_> = RangeWrite {
        segment: SegmentId(1 << 64 | 2),
        offset: 4096,
        entry_len: 100,
        from: 0,
        len: 100,
        key: "key",
        version: version(5),
        grant: version(6),
        object_len: 300,
        object_offset: 200,
        attributes: b"pinned",
        seal: Seal::NONE,
    };

    /// One range to read, write and drop, and all that differ from it in one thing.
    #[test]
    fn whatever_is_changed_has_another_seal() {
        let writes = [
            WRITE,
            RangeWrite { segment: SegmentId(2), ..WRITE },
            RangeWrite { segment: SegmentId(1 << 64 | 3), ..WRITE },
            RangeWrite { offset: 8192, ..WRITE },
            RangeWrite { entry_len: 101, ..WRITE },
            RangeWrite { key: "kez", ..WRITE },
            RangeWrite { key: "keyp", attributes: b"inned", ..WRITE },
            RangeWrite { version: version(6), ..WRITE },
            RangeWrite { grant: version(5), ..WRITE },
            RangeWrite { grant: version(u64::MAX), ..WRITE },
            RangeWrite { version: Version { epoch: Epoch(10), ..version(5) }, ..WRITE },
            RangeWrite { object_len: 301, ..WRITE },
            RangeWrite { object_offset: 0, ..WRITE },
            RangeWrite { attributes: b"", ..WRITE },
        ];
        let RangeWrite { segment, offset, version: written, grant, .. } = WRITE;
        let drop = RangeDrop { segment, offset, version: written, grant };
        let read = |offset, version| on_read_at(&KEY, segment, offset, version);
        let mut seals: Vec<Seal> = writes.iter().map(|range| on_write(&KEY, range)).collect();
        seals.extend([
            on_write(&SealKey([8; 16]), &WRITE),
            read(offset, written),
            read(offset, grant),
            read(offset + 1, written),
            on_read_at(&KEY, SegmentId(2), offset, written),
            on_drop(&KEY, &drop),
            on_drop(&KEY, &RangeDrop { offset: 0, ..drop }),
            on_drop(&KEY, &RangeDrop { version: grant, ..drop }),
            on_drop(&KEY, &RangeDrop { grant: written, ..drop }),
            on_follow(&KEY, segment),
            on_follow(&KEY, SegmentId(2)),
        ]);
        let count = seals.len();
        seals.sort_unstable();
        seals.dedup();
        assert_eq!(seals.len(), count);
        assert!(!seals.contains(&Seal::NONE));
    }

    #[test]
    fn an_entry_has_one_seal_for_all_its_parts() {
        let part = RangeWrite { from: 50, len: 10, seal: Seal(3), ..WRITE };
        assert_eq!(on_write(&KEY, &part), on_write(&KEY, &WRITE));
        let RangeWrite { segment, offset, version, .. } = WRITE;
        let (object_offset, from, len, seal) = (200, 7, 9, Seal(3));
        let read = RangeRead { segment, offset, version, object_offset, from, len, seal };
        assert_eq!(on_read(&KEY, &read), on_read_at(&KEY, segment, offset, version));
    }
}
