use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mooncake_memory::{Buffer, SliceList};
use mooncake_types::{Chance, Epoch, RangeRead, Seal, SegmentId, Version};

use super::layout::{header, slot};
use super::locked_cache::{Insertion, LockedCache};
use super::{HotCacheConfig, HotCacheError, SharedCache};
use crate::ReadOp;
use crate::testing::{first_mismatch, pattern};

/// A cache in a folder of its own, which is removed with it.
struct Scene {
    config: HotCacheConfig,
}

impl Scene {
    fn new(bytes: u64) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("mooncake-hot-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        Self { config: HotCacheConfig { bytes, folder: Some(folder), ..HotCacheConfig::default() } }
    }

    /// Opens the cache, as another process would.
    fn shelf(&self) -> SharedCache {
        SharedCache::open(&self.config).unwrap()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.config.folder.as_ref().unwrap());
    }
}

fn version(counter: u64) -> Version {
    Version { epoch: Epoch(7), counter }
}

fn range(number: u64, len: u64) -> RangeRead {
    let (segment, offset) = (SegmentId(3 << 70 | 5), number << 22);
    RangeRead {
        segment,
        offset,
        version: version(number),
        object_offset: 0,
        from: 0,
        len,
        seal: Seal::NONE,
    }
}

fn key(range: &RangeRead) -> String {
    format!("{range:?}")
}

/// Inserts a range, after counting so many reads of it.
fn insert(shelf: &SharedCache, range: &RangeRead, reads: usize) {
    let hash = super::Identity::of(range).hash();
    for _ in 0..reads {
        shelf.sketch().count(hash);
    }
    let bytes = Buffer::from_vec(pattern(&key(range), range.version, 0, range.len as usize));
    shelf.insert(range, bytes.raw());
}

/// Whether a range is in the cache. If it is, all its bytes are right.
fn is_there(shelf: &SharedCache, range: &RangeRead) -> bool {
    let buffer = Buffer::zeroed(range.len as usize);
    let half = buffer.len() / 2;
    let (first, rest) = (buffer.raw().sub(0, half), buffer.raw().sub(half, buffer.len() - half));
    let dst: SliceList = [first, rest].into_iter().collect();
    let op = ReadOp { endpoint: "node:1".into(), range: *range, dst };
    let is_there = shelf.copy(&op).is_some();
    if is_there {
        let wrong = first_mismatch(buffer.as_slice(), &key(range), range.version, 0);
        assert_eq!(wrong, None, "{range:?}");
    }
    is_there
}

fn count(shelf: &SharedCache, ranges: &[RangeRead]) -> usize {
    ranges.iter().filter(|range| is_there(shelf, range)).count()
}

#[test]
fn ranges_of_any_length_come_out_as_they_went_in_whichever_process_asks() {
    let scene = Scene::new(16 << 20);
    let (one, other) = (scene.shelf(), scene.shelf());
    let lens = [1, 7, 4096, 16_384, 16_385, 100_000, 1 << 20, (4 << 20) - 1];
    let ranges: Vec<RangeRead> =
        lens.iter().enumerate().map(|(number, &len)| range(number as u64, len)).collect();
    for (at, range) in ranges.iter().enumerate() {
        assert!(!is_there(&other, range));
        insert(if at % 2 == 0 { &one } else { &other }, range, 2);
        assert!(is_there(&one, range) && is_there(&other, range));
    }
    let mut near = ranges[4];
    near.version = version(99);
    assert!(!is_there(&one, &near), "another version lies elsewhere");
    assert!(!is_there(&one, &RangeRead { from: 1, ..ranges[4] }));
    drop(one);
    let third = scene.shelf();
    assert_eq!(count(&third, &ranges), ranges.len());
    drop((other, third));
    assert_eq!(count(&scene.shelf(), &ranges), 0, "it goes with the last process");
}

#[test]
fn processes_that_start_at_the_same_time_share_one_cache() {
    for _ in 0..20 {
        let scene = Scene::new(2 << 20);
        let all = std::sync::Barrier::new(4);
        let open = || {
            all.wait();
            scene.shelf()
        };
        let shelves: Vec<SharedCache> = std::thread::scope(|scope| {
            let opened: Vec<_> = (0..4).map(|_| scope.spawn(open)).collect();
            opened.into_iter().map(|it| it.join().unwrap()).collect()
        });
        insert(&shelves[0], &range(1, 10_000), 2);
        assert!(shelves.iter().all(|shelf| is_there(shelf, &range(1, 10_000))));
    }
}

#[test]
fn what_is_read_once_never_pushes_out_what_is_read_often() {
    let scene = Scene::new(8 << 20);
    let shelf = scene.shelf();
    let hot: Vec<RangeRead> = (0..7).map(|number| range(number, 1 << 20)).collect();
    hot.iter().for_each(|range| insert(&shelf, range, 5));
    assert_eq!(count(&shelf, &hot), 7);
    for number in 100..400 {
        insert(&shelf, &range(number, 1 << 20), 1);
    }
    assert_eq!(count(&shelf, &hot), 7);
    // Ranges that are read more often take their places, one for one.
    let hotter: Vec<RangeRead> = (50..53).map(|number| range(number, 1 << 20)).collect();
    for range in &hotter {
        insert(&shelf, range, 9);
        // Ranges that were read since the hand passed stay this time.
        insert(&shelf, range, 9);
    }
    assert_eq!((count(&shelf, &hotter), count(&shelf, &hot)), (3, 4));
    let counts = shelf.counts();
    assert_eq!(counts.admitted, 10);
    assert!(counts.refused >= 300, "{counts:?}");
}

#[test]
fn it_is_filled_to_the_last_block_and_never_beyond() {
    let scene = Scene::new(1 << 20);
    let shelf = scene.shelf();
    let lens = [5_000, 40_000, 16_384, 100_000, 1];
    for number in 0..2_000_u64 {
        let len = lens[number as usize % lens.len()];
        // Each is read more often than the one before, up to the limit of the counters.
        insert(&shelf, &range(number, len), 1 + (number / 16).min(200) as usize);
        let word = |word| shelf.region.word(word).load(Ordering::Relaxed);
        let used = word(header::FRESH) - word(header::FREE_COUNT);
        let entries =
            (0..number + 1).map(|number| range(number, lens[number as usize % lens.len()]));
        if number % 100 == 99 {
            let there: u64 = entries
                .filter(|range| is_there(&shelf, range))
                .map(|range| range.len.div_ceil(super::layout::BLOCK_BYTES))
                .sum();
            assert_eq!(there, used, "after {number}");
        }
    }
    let too_long = range(9_999, 2 << 20);
    insert(&shelf, &too_long, 250);
    assert!(!is_there(&shelf, &too_long));
}

#[test]
fn a_process_that_dies_in_a_change_leaves_an_empty_cache() {
    let scene = Scene::new(4 << 20);
    let (dying, living) = (scene.shelf(), scene.shelf());
    let ranges: Vec<RangeRead> = (0..3).map(|number| range(number, 300_000)).collect();
    ranges.iter().for_each(|range| insert(&dying, range, 2));
    // As if it had just begun to remove an entry.
    dying.region.word(header::CHANGING).store(1, Ordering::Relaxed);
    let odd = (0..dying.layout.slots()).find(|&at| {
        dying.region.word(dying.layout.slot_word(at, slot::LEN)).load(Ordering::Relaxed) > 0
    });
    let odd = dying.layout.slot_word(odd.unwrap(), slot::COUNT);
    dying.region.word(odd).fetch_add(1, Ordering::Relaxed);
    drop(dying);
    assert_eq!(count(&living, &ranges), 2, "what was not being changed is read meanwhile");
    let next = range(9, 500_000);
    insert(&living, &next, 2);
    assert_eq!((count(&living, &ranges), is_there(&living, &next)), (0, true));
    ranges.iter().for_each(|range| insert(&living, range, 2));
    assert_eq!(count(&living, &ranges), 3, "nothing of its room is lost");
}

#[test]
fn a_process_that_keeps_the_lock_keeps_nobody_from_reading() {
    let scene = Scene::new(4 << 20);
    let (paused, living) = (scene.shelf(), scene.shelf());
    let known = range(1, 100_000);
    insert(&living, &known, 2);
    let lock = paused.lock().unwrap();
    insert(&living, &range(2, 100_000), 2);
    assert!(is_there(&living, &known));
    assert_eq!((living.counts().admitted, living.counts().refused), (1, 1));
    drop(lock);
    insert(&living, &range(2, 100_000), 2);
    assert_eq!(living.counts().admitted, 2);
}

#[test]
fn numbers_that_make_no_sense_end_nothing() {
    let scene = Scene::new(1 << 20);
    let shelf = scene.shelf();
    let mut chance = Chance::new(11);
    let words = shelf.layout.link(shelf.layout.blocks);
    for round in 0..3_000_u64 {
        for number in 0..8 {
            let range = range(round % 5 * 10 + number, 1 + chance.below(60_000));
            let hash = super::Identity::of(&range).hash();
            for _ in 0..chance.below(4) {
                shelf.sketch().count(hash);
            }
            let bytes = Buffer::zeroed(range.len as usize);
            shelf.insert(&range, bytes.raw());
            let dst = SliceList::from(bytes.raw());
            let _ = shelf.read(&ReadOp { endpoint: "node:1".into(), range, dst });
        }
        let bits = chance.bits();
        let word = match round % 3 {
            0 => 1 + chance.below(9) as usize,
            _ => 1 + chance.below(words as u64 - 1) as usize,
        };
        let value = if round % 2 == 0 { bits } else { bits % 100 };
        shelf.region.word(word).store(value, Ordering::Relaxed);
    }
}

#[test]
fn readers_never_see_torn_bytes() {
    let scene = Scene::new(1 << 20);
    let (writer, stop, mut admitted) = (scene.shelf(), AtomicBool::new(false), 0);
    std::thread::scope(|scope| {
        let read = || {
            let shelf = scene.shelf();
            let mut found = 0;
            while !stop.load(Ordering::Relaxed) || found == 0 {
                found += (0..30).filter(|&number| is_there(&shelf, &range(number, 90_000))).count();
            }
        };
        let readers = [scope.spawn(read), scope.spawn(read)];
        for round in 0..4_000_u64 {
            let range = range(round * 7 % 30, 90_000);
            let bytes = Buffer::from_vec(pattern(&key(&range), range.version, 0, 90_000));
            let lock = writer.lock().unwrap();
            let cache = LockedCache::new(&writer.region, writer.layout);
            // All other entries were read less often.
            let inserted = cache.insert(&super::Identity::of(&range), bytes.raw(), u8::MAX);
            admitted += u64::from(inserted == Insertion::Admitted);
            drop(lock);
        }
        stop.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
    assert!(admitted > 1_000, "{admitted}");
}

#[test]
fn a_length_that_makes_no_sense_is_refused_and_another_length_is_taken_as_it_is() {
    let scene = Scene::new(2 << 20);
    for bytes in [1, 4096, u64::MAX] {
        let refused = SharedCache::open(&HotCacheConfig { bytes, ..scene.config.clone() });
        assert!(matches!(refused, Err(HotCacheError::Size { .. })), "{bytes}");
    }
    let first = scene.shelf();
    let second =
        SharedCache::open(&HotCacheConfig { bytes: 4 << 20, ..scene.config.clone() }).unwrap();
    assert_eq!((first.region.len(), second.region.len()), (2 << 20, 2 << 20));
    let nowhere = HotCacheConfig { folder: Some("/nowhere".into()), ..scene.config.clone() };
    assert!(matches!(SharedCache::open(&nowhere), Err(HotCacheError::Memory(_))));
    drop(first);
}
