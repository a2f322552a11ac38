//! The contents of journal objects. A checkpoint has the same form and stands for all entries up to its number.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mooncake_memory::crc32c;

const MAGIC: u32 = 0x4d4b_4a4e;
/// The version of the journal and of packs. A prefix of another version is refused.
pub(super) const FORMAT: u32 = 1;

/// Changes that are stored together, as one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JournalEntry {
    /// The entry's place in the journal. For a checkpoint: the last place that it covers.
    pub(super) number: u64,
    /// The seed of the process that wrote the entry.
    pub(super) owner: u64,
    pub(super) changes: Vec<Change>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// A process took the prefix over. From here on it alone writes.
    Claimed(Owner),
    /// The owner has closed the prefix, and writes no more.
    Released,
    /// The owner replaced its note.
    Noted(Vec<u8>),
    /// The pack is stored and has these live records. This replaces any earlier description of the pack.
    Packed(Arc<Pack>),
    /// The records of a pack that begin at these blocks are dropped.
    Dropped { pack: u64, blocks: Vec<u32> },
}

/// The process that a prefix belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    /// The name of the owner's host.
    pub(super) host: String,
    /// The process on that host; see [`super::process`].
    pub(super) process: String,
}

/// The description of a pack that the journal holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pack {
    pub(super) id: u64,
    /// Nonce that the checksums of the pack's headers cover.
    pub(super) nonce: u64,
    /// Offset of the pack's table of contents, in bytes: the length of its records.
    pub(super) len: u64,
    /// Length of the table, in bytes.
    pub(super) table_len: u64,
    /// Blocks at which live records begin.
    pub(super) live: BTreeSet<u32>,
}

/// The combined effect of all entries up to a number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct JournalState {
    /// The number of the next entry.
    pub(super) next: u64,
    /// The owner that wrote the last claim, unless it has released the prefix.
    pub(super) owner: Option<Owner>,
    pub(super) note: Option<Vec<u8>>,
    /// The packs with live records, by id. Checkpoints that are being written share them.
    pub(super) packs: BTreeMap<u64, Arc<Pack>>,
}

impl JournalState {
    pub(super) fn take(&mut self, entry: JournalEntry) {
        self.next = entry.number + 1;
        for change in entry.changes {
            match change {
                Change::Claimed(owner) => self.owner = Some(owner),
                Change::Released => self.owner = None,
                Change::Noted(note) => self.note = Some(note),
                Change::Packed(pack) if pack.live.is_empty() => _ = self.packs.remove(&pack.id),
                Change::Packed(pack) => _ = self.packs.insert(pack.id, pack),
                Change::Dropped { pack, blocks } => self.drop_blocks(pack, &blocks),
            }
        }
    }

    /// A checkpoint: one entry that has the same effect as all entries so far.
    pub(super) fn checkpoint(&self, owner: u64) -> JournalEntry {
        let claim = self.owner.clone().map(Change::Claimed);
        let note = self.note.clone().map(Change::Noted);
        let packs = self.packs.values().cloned().map(Change::Packed);
        let changes = claim.into_iter().chain(note).chain(packs).collect();
        JournalEntry { number: self.next - 1, owner, changes }
    }

    fn drop_blocks(&mut self, pack: u64, blocks: &[u32]) {
        let Some(known) = self.packs.get_mut(&pack) else { return };
        let known = Arc::make_mut(known);
        blocks.iter().for_each(|block| _ = known.live.remove(block));
        if known.live.is_empty() {
            self.packs.remove(&pack);
        }
    }
}

impl JournalEntry {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(MAGIC.to_le_bytes());
        bytes.extend(FORMAT.to_le_bytes());
        bytes.extend(self.number.to_le_bytes());
        bytes.extend(self.owner.to_le_bytes());
        self.changes.iter().for_each(|change| change.encode(&mut bytes));
        let sum = crc32c(&bytes);
        bytes.extend(sum.to_le_bytes());
        bytes
    }

    /// Decodes an entry. Returns `None` if the bytes are no intact entry of this format.
    pub(super) fn decode(bytes: &[u8]) -> Option<JournalEntry> {
        let (body, sum) = bytes.split_last_chunk::<4>()?;
        if u32::from_le_bytes(*sum) != crc32c(body) {
            return None;
        }
        let mut from = Reader(body);
        if (from.u32()?, from.u32()?) != (MAGIC, FORMAT) {
            return None;
        }
        // The last number has no next one.
        let number = from.u64().filter(|&number| number < u64::MAX)?;
        let owner = from.u64()?;
        let mut changes = Vec::new();
        while !from.0.is_empty() {
            changes.push(Change::decode(&mut from)?);
        }
        Some(JournalEntry { number, owner, changes })
    }
}

impl Change {
    fn encode(&self, to: &mut Vec<u8>) {
        match self {
            Self::Claimed(Owner { host, process }) => {
                to.push(1);
                put_bytes(to, host.as_bytes());
                put_bytes(to, process.as_bytes());
            }
            Self::Released => to.push(2),
            Self::Noted(note) => {
                to.push(3);
                put_bytes(to, note);
            }
            Self::Packed(pack) => {
                let Pack { id, nonce, len, table_len, live } = &**pack;
                to.push(4);
                [id, nonce, len, table_len].iter().for_each(|field| to.extend(field.to_le_bytes()));
                put_blocks(to, live.len(), live.iter());
            }
            Self::Dropped { pack, blocks } => {
                to.push(5);
                to.extend(pack.to_le_bytes());
                put_blocks(to, blocks.len(), blocks.iter());
            }
        }
    }

    fn decode(from: &mut Reader<'_>) -> Option<Change> {
        Some(match from.u8()? {
            1 => Self::Claimed(Owner { host: from.text()?, process: from.text()? }),
            2 => Self::Released,
            3 => Self::Noted(from.bytes()?.to_vec()),
            4 => {
                let [id, nonce, len, table_len] =
                    [from.u64()?, from.u64()?, from.u64()?, from.u64()?];
                len.checked_add(table_len)?;
                let live = from.blocks()?.collect();
                Self::Packed(Arc::new(Pack { id, nonce, len, table_len, live }))
            }
            5 => Self::Dropped { pack: from.u64()?, blocks: from.blocks()?.collect() },
            _ => return None,
        })
    }
}

fn put_bytes(to: &mut Vec<u8>, bytes: &[u8]) {
    to.extend((bytes.len() as u32).to_le_bytes());
    to.extend(bytes);
}

fn put_blocks<'a>(to: &mut Vec<u8>, count: usize, blocks: impl Iterator<Item = &'a u32>) {
    to.extend((count as u32).to_le_bytes());
    blocks.for_each(|block| to.extend(block.to_le_bytes()));
}

/// The bytes that remain to be decoded.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.u32()?;
        self.take(len as usize)
    }

    fn text(&mut self) -> Option<String> {
        std::str::from_utf8(self.bytes()?).ok().map(str::to_owned)
    }

    fn blocks(&mut self) -> Option<impl Iterator<Item = u32> + use<'a>> {
        let count = self.u32()? as usize;
        let (blocks, _) = self.take(count.checked_mul(4)?)?.as_chunks::<4>();
        Some(blocks.iter().map(|block| u32::from_le_bytes(*block)))
    }
}

#[cfg(test)]
mod tests {
    use mooncake_types::Chance;

    use super::*;

    /// Anything may lie in the object store, also with the right checksum.
    #[test]
    fn no_bytes_of_an_object_store_end_the_process() {
        let mut chance = Chance::new(0x0b1e);
        let whole = entry(
            9,
            vec![
                Change::Claimed(Owner { host: "host".to_owned(), process: "1 2 3".to_owned() }),
                Change::Packed(pack(1, &[0, 5])),
                Change::Packed(pack(2, &[7])),
                Change::Dropped { pack: 1, blocks: vec![5] },
                Change::Noted(vec![1, 2, 3]),
            ],
        );
        let whole = whole.encode();
        let mut decoded = 0;
        for _ in 0..20_000 {
            let mut bytes = whole[..whole.len() - 4].to_vec();
            for _ in 0..=chance.below(3) {
                // Behind magic and format, numbers of eight bytes with all bits set, or single bytes.
                let at = 8 + chance.place(bytes.len() - 8);
                let len = [1, 8][chance.place(2)].min(bytes.len() - at);
                let byte = [0, 1, 0xff, chance.bits() as u8][chance.place(4)];
                bytes[at..at + len].fill(byte);
            }
            bytes.truncate(bytes.len() - chance.place(3));
            let sum = crc32c(&bytes);
            bytes.extend(sum.to_le_bytes());
            let Some(entry) = JournalEntry::decode(&bytes) else { continue };
            assert_eq!(JournalEntry::decode(&entry.encode()).as_ref(), Some(&entry));
            let mut state = JournalState { next: 1, ..JournalState::default() };
            state.take(entry);
            for pack in state.packs.values() {
                assert!(pack.len + pack.table_len >= pack.len);
            }
            state.checkpoint(5);
            decoded += 1;
        }
        assert!(decoded > 300, "{decoded} got past the checks");
    }

    fn pack(id: u64, live: &[u32]) -> Arc<Pack> {
        let live = live.iter().copied().collect();
        Arc::new(Pack { id, nonce: 7, len: 8192, table_len: 99, live })
    }

    fn entry(number: u64, changes: Vec<Change>) -> JournalEntry {
        JournalEntry { number, owner: 5, changes }
    }

    #[test]
    fn an_entry_comes_back_whole_or_not_at_all() {
        let owner = Owner { host: "host".to_owned(), process: "1 2 3".to_owned() };
        let entry = entry(
            9,
            vec![
                Change::Claimed(owner),
                Change::Noted(vec![1, 2, 3]),
                Change::Packed(pack(1, &[0, 5])),
                Change::Dropped { pack: 1, blocks: vec![5] },
                Change::Released,
            ],
        );
        let bytes = entry.encode();
        assert_eq!(JournalEntry::decode(&bytes), Some(entry));
        for at in 0..bytes.len() {
            assert_eq!(JournalEntry::decode(&bytes[..at]), None, "cut off at {at}");
            let mut flipped = bytes.clone();
            flipped[at] ^= 4;
            assert_eq!(JournalEntry::decode(&flipped), None, "flipped at {at}");
        }
    }

    #[test]
    fn entries_come_to_the_packs_that_have_live_records() {
        let mut state = JournalState::default();
        state.take(entry(1, vec![Change::Packed(pack(1, &[0, 5])), Change::Packed(pack(2, &[3]))]));
        state.take(entry(2, vec![Change::Dropped { pack: 1, blocks: vec![0, 77] }]));
        state.take(entry(3, vec![Change::Dropped { pack: 2, blocks: vec![3] }]));
        let written = state.checkpoint(5);
        state.take(entry(4, vec![Change::Packed(pack(3, &[])), Change::Packed(pack(4, &[1, 2]))]));
        state.take(entry(5, vec![Change::Dropped { pack: 4, blocks: vec![1, 2] }]));
        assert_eq!(written.changes, [Change::Packed(pack(1, &[5]))]);
        assert_eq!(state.packs.values().cloned().collect::<Vec<_>>(), [pack(1, &[5])]);
        assert_eq!(state.next, 6);
        let mut again = JournalState::default();
        again.take(state.checkpoint(5));
        assert_eq!(again, state);
    }
}
