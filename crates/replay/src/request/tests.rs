use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard};

use mooncake_memory::Region;

use super::*;

/// The length of a block; not a multiple of the piece length.
const BYTES: usize = 24 << 10;

/// The fault of a [`FakePool`].
#[derive(Clone, Copy, Debug)]
enum Fault {
    None,
    /// Gets return another key's bytes.
    Swap,
    /// Gets report success, but write nothing.
    Skip,
    /// The second half of a block is that of the previous put.
    Tear,
    /// Gets return the previous put.
    Stale,
    /// Gets return bytes that are shifted by eight.
    Shift,
    /// Gets read half a block.
    Short,
    /// Blocks vanish before the get.
    Lose,
    Get(ErrorCode),
    Put(ErrorCode),
    Exist(ErrorCode),
}

/// A pool that remembers all puts of each key.
struct FakePool {
    fault: Fault,
    objects: Mutex<Objects>,
}

#[derive(Default)]
struct Objects {
    puts: HashMap<String, Vec<Vec<u8>>>,
    stored: HashSet<String>,
}

impl FakePool {
    fn objects(&self) -> MutexGuard<'_, Objects> {
        self.objects.lock().unwrap()
    }

    fn read(&self, key: &str) -> Option<Vec<u8>> {
        let objects = self.objects();
        let puts = &objects.puts[key];
        let put_before = || puts[puts.len() - 2].clone();
        let mut bytes = puts.last()?.clone();
        match self.fault {
            Fault::Swap => {
                bytes.clone_from(objects.puts.iter().find(|(other, _)| *other != key)?.1.last()?);
            }
            Fault::Tear => bytes[BYTES / 2..].copy_from_slice(&put_before()[BYTES / 2..]),
            Fault::Stale => bytes = put_before(),
            Fault::Shift => bytes.copy_within(8.., 0),
            _ => {}
        }
        Some(bytes)
    }
}

impl Pool for &FakePool {
    fn exist(&self, keys: &[&str]) -> Vec<Result<bool, ErrorCode>> {
        let answer = |key: &&str| match self.fault {
            Fault::Exist(code) => Err(code),
            _ => Ok(self.objects().stored.contains(*key)),
        };
        keys.iter().map(answer).collect()
    }

    fn get_into(&self, items: &[Item<'_>]) -> Vec<Result<u64, ErrorCode>> {
        let answer = |&(key, slice): &Item<'_>| match self.fault {
            Fault::Get(code) => Err(code),
            Fault::Lose => Err(ErrorCode::ObjectNotFound),
            Fault::Short => Ok(BYTES as u64 / 2),
            Fault::Skip => Ok(BYTES as u64),
            _ => {
                slice.write_from(&self.read(key).ok_or(ErrorCode::ObjectNotFound)?);
                Ok(BYTES as u64)
            }
        };
        items.iter().map(answer).collect()
    }

    fn put(&self, items: &[Item<'_>]) -> Vec<Result<(), ErrorCode>> {
        let answer = |&(key, slice): &Item<'_>| match self.fault {
            Fault::Put(code) => Err(code),
            _ => {
                let mut objects = self.objects();
                objects.stored.insert(key.to_owned());
                objects.puts.entry(key.to_owned()).or_default().push(slice.to_vec());
                Ok(())
            }
        };
        items.iter().map(answer).collect()
    }
}

/// Stores blocks 0 to 2 twice, with an eviction in between. Then replays `last` in a pool with a fault.
fn replay(fault: Fault, last: &[u32]) -> Tally {
    let keys = (0..8).map(|block| format!("key-{block}")).collect();
    let blocks = Blocks { keys, bytes: BYTES, generations: Generations::new(8) };
    let region = Region::anonymous(8 * BYTES as u64).unwrap();
    let mut pool = FakePool { fault: Fault::None, objects: Mutex::default() };
    for _ in 0..2 {
        pool.objects().stored.clear();
        let mut client = Client::new(&pool, &blocks, region.whole());
        client.replay(1, &[0, 1, 2]);
        assert_eq!((client.tally.stored, client.tally.is_clean()), (3, true));
    }
    pool.fault = fault;
    let mut client = Client::new(&pool, &blocks, region.whole());
    client.replay(2, last);
    client.tally
}

#[test]
fn a_prefix_that_is_stored_is_read_and_the_rest_is_put() {
    // Block 3 is missing and ends the prefix. Block 2 behind it is stored, so it is neither a hit nor put again.
    let tally = replay(Fault::None, &[0, 1, 3, 2, 4]);
    let expected = Tally {
        requests: 1,
        blocks: 5,
        hits: 2,
        stored: 2,
        bytes_read: 2 * BYTES as u64,
        bytes_written: 2 * BYTES as u64,
        exist: tally.exist.clone(),
        get: tally.get.clone(),
        put: tally.put.clone(),
        ..Tally::default()
    };
    assert_eq!(tally, expected);
    assert_eq!((tally.exist.calls(), tally.get.calls(), tally.put.calls()), (1, 1, 1));
}

#[test]
fn wrong_bytes_of_every_kind_are_noticed_and_located() {
    let mine = |generation| Stamp { block: 0, generation };
    let rows = [
        (Fault::Stale, 0, (mine(1), 0)),
        (Fault::Tear, BYTES / 2, (mine(1), BYTES / 2 / WORD_BYTES)),
        (Fault::Shift, 0, (mine(2), 1)),
    ];
    for (fault, word_at, found) in rows {
        let tally = replay(fault, &[0]);
        let wrong = tally.first_wrong.clone().expect("noticed");
        assert_eq!((wrong.request, wrong.block, wrong.key.as_str()), (2, 0, "key-0"), "{fault:?}");
        assert_eq!(wrong.mismatch.at / WORD_BYTES * WORD_BYTES, word_at, "{fault:?}");
        assert_eq!(wrong.mismatch.found, found, "{fault:?}");
        assert_eq!(tally.wrong_bytes, wrong.mismatch.bytes, "{fault:?}");
    }
    for fault in [Fault::Swap, Fault::Skip] {
        let tally = replay(fault, &[0, 1]);
        assert_eq!((tally.wrong_blocks, tally.is_clean()), (2, false), "{fault:?}");
        assert_ne!(tally.first_wrong.unwrap().mismatch.found.0.block, 0, "{fault:?}");
    }
}

#[test]
fn blocks_that_vanish_between_exist_and_get_are_misses_and_put_again() {
    let tally = replay(Fault::Lose, &[0, 1]);
    assert_eq!((tally.hits, tally.lost, tally.stored, tally.is_clean()), (0, 2, 2, true));
}

#[test]
fn errors_are_counted_by_call_and_code() {
    let code = ErrorCode::RpcFail;
    let rows = [
        (Fault::Exist(code), vec![((Call::Exist, code), 2)]),
        (Fault::Get(code), vec![((Call::Get, code), 2)]),
        (Fault::Short, vec![((Call::Get, ErrorCode::InvalidRead), 2)]),
    ];
    for (fault, errors) in rows {
        let tally = replay(fault, &[0, 1]);
        assert_eq!((tally.hits, tally.errors), (0, BTreeMap::from_iter(errors)), "{fault:?}");
    }
    let tally = replay(Fault::Put(code), &[0, 5]);
    assert_eq!(tally.errors, BTreeMap::from([((Call::Put, code), 1)]));
}

#[test]
fn a_full_pool_and_a_faster_client_are_no_errors() {
    let full = replay(Fault::Put(ErrorCode::NoAvailableHandle), &[5]);
    assert_eq!((full.no_room, full.stored, full.is_clean()), (1, 0, true));
    let raced = replay(Fault::Put(ErrorCode::ObjectAlreadyExists), &[5]);
    assert_eq!((raced.already_stored, raced.stored, raced.is_clean()), (1, 0, true));
}
