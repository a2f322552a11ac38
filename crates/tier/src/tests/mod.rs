//! Tests of whole stores: random histories with power cuts, faults of the disk, and real folders.

mod faults;
mod files;
mod folders;
mod histories;
mod kills;
mod packs;
mod spare;
mod usrbio;

use std::sync::Arc;

use mooncake_memory::{Buffer, SliceList};
use mooncake_types::limits::CHUNK_BYTES;
use mooncake_types::{Epoch, Version};

use crate::testing::{BucketDouble, DiskDouble};
use crate::{
    DiskConfig, FileStore, FilesConfig, LogStore, OpenError, PutError, ReadError, Record, RecordId,
    RecordStore,
};

/// Files of 128 KiB, ten of them: a few records each.
const CONFIG: DiskConfig = DiskConfig { capacity: 10 << 17, file_bytes: 1 << 17, seed: 1 };

const FILES: FilesConfig =
    FilesConfig { capacity: 10 << 17, longest_record: 1 << 17, nonce: 77, evicts: true };

/// The kinds of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Log,
    Files,
    Packs,
}

/// The simulated disk or object store, which outlives the processes of a test.
enum Power {
    Disk(DiskDouble),
    Bucket(BucketDouble),
}

impl Power {
    /// Kills the process; the operating system keeps running.
    fn kill(&self) {
        match self {
            Self::Disk(disk) => disk.kill(),
            Self::Bucket(bucket) => bucket.kill(),
        }
    }

    /// Cuts the power of the host. An object store keeps running, so only the process dies.
    fn cut(&self) {
        match self {
            Self::Disk(disk) => disk.cut(),
            Self::Bucket(bucket) => bucket.kill(),
        }
    }

    fn fail_in(&self, calls: u64) {
        match self {
            Self::Disk(disk) => disk.fail_in(calls),
            Self::Bucket(bucket) => bucket.fail_in(calls),
        }
    }

    /// Makes an object store reachable again. A disk stays broken.
    fn heal(&self) {
        if let Self::Bucket(bucket) = self {
            bucket.heal();
        }
    }
}

impl Kind {
    fn power(self, seed: u64) -> Power {
        match self {
            Self::Log | Self::Files => Power::Disk(DiskDouble::new(seed)),
            Self::Packs => Power::Bucket(BucketDouble::new(seed)),
        }
    }

    fn open_on(
        self,
        power: &Power,
        told: impl FnMut(Record),
    ) -> Result<Box<dyn RecordStore>, OpenError> {
        match power {
            Power::Disk(power) => self.open(power, told),
            Power::Bucket(power) => Ok(Box::new(packs::open(power, told)?)),
        }
    }

    fn open(
        self,
        power: &DiskDouble,
        told: impl FnMut(Record),
    ) -> Result<Box<dyn RecordStore>, OpenError> {
        let directory = Arc::new(power.directory());
        Ok(match self {
            Self::Log => Box::new(LogStore::open(directory, CONFIG, told)?),
            Self::Files => Box::new(FileStore::open(directory, FILES, told)?),
            Self::Packs => unreachable!("packs lie in an object store"),
        })
    }
}

/// A random generator that repeats its numbers.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % bound
    }

    fn happens(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }
}

pub(crate) fn name(number: u64) -> RecordId {
    // No two ranges overlap.
    let offset = (number % (1 << 30)) << 20;
    RecordId { grant: Version { epoch: Epoch(1), counter: number }, offset }
}

/// The bytes of the record with this name. They are unlike those of any other record.
fn bytes(name: RecordId, len: u64) -> Vec<u8> {
    let seed = name.grant.counter.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..len).map(|at| (seed.rotate_left((at % 61) as u32) ^ at) as u8).collect()
}

pub(crate) fn record(name: RecordId, len: u64) -> (Record, Buffer) {
    let data = Buffer::from_vec(bytes(name, len));
    let record = Record {
        name,
        version: name.grant,
        key: format!("key {}", name.grant.counter).into(),
        attributes: [1, 2].into(),
        object_len: len,
        object_offset: 0,
        len,
        checksums: data.raw().chunk_crcs().into(),
    };
    (record, data)
}

fn put(disk: &dyn RecordStore, name: RecordId, len: u64) -> Result<(), PutError> {
    let (record, data) = record(name, len);
    disk.put(&record, &SliceList::from(data.raw()))
}

fn get(disk: &dyn RecordStore, name: RecordId, from: u64, len: u64) -> Result<Vec<u8>, ReadError> {
    let buffer = Buffer::zeroed(len as usize);
    disk.read(name, from, buffer.raw())?;
    Ok(buffer.into_vec())
}

#[test]
fn parts_of_a_record_are_read_by_whole_chunks() {
    let config = DiskConfig { capacity: 64 << 20, file_bytes: 4 << 20, seed: 1 };
    let disk = LogStore::open(Arc::new(DiskDouble::new(1).directory()), config, |_| {});
    check_parts(&disk.expect("it is empty"));
    let config = FilesConfig { capacity: 64 << 20, longest_record: 4 << 20, ..FILES };
    let files = FileStore::open(Arc::new(DiskDouble::new(1).directory()), config, |_| {});
    check_parts(&files.expect("there are none"));
    let packs = packs::open(&BucketDouble::new(1), |_| {});
    check_parts(&packs.expect("there are none"));
}

fn check_parts(disk: &dyn RecordStore) {
    let len = 3 * CHUNK_BYTES + 77;
    put(disk, name(1), len).expect("there is room");
    let expected = bytes(name(1), len);
    let edges =
        [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES, len - 1, len];
    for from in edges {
        for end in edges.into_iter().filter(|&end| end >= from) {
            let part = get(disk, name(1), from, end - from).expect("it is there");
            assert!(part == expected[from as usize..end as usize], "{from}..{end}");
            let buffer = Buffer::zeroed((end - from) as usize);
            let sums = disk.read(name(1), from, buffer.raw()).expect("it is there");
            let is_edge = |at: u64| at.is_multiple_of(CHUNK_BYTES) || at == len;
            let is_whole = from < end && is_edge(from) && is_edge(end);
            assert_eq!(sums.as_deref(), is_whole.then(|| buffer.raw().chunk_crcs()).as_deref());
        }
    }
    assert!(matches!(get(disk, name(1), 1, len), Err(ReadError::OutOfBounds)));
    assert!(matches!(get(disk, name(1), u64::MAX, 1), Err(ReadError::OutOfBounds)));
    assert!(matches!(get(disk, name(2), 0, 1), Err(ReadError::NotThere)));
}
