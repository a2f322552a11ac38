//! Cached copies of objects that lie on other hosts. All stores run on one host and use TCP only, as if they did not.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mooncake_client::{ErrorCode, HotCacheConfig, OpenError, Store, StoreConfig};

use crate::master::Master;
use crate::rig::{config, content, eventually, fragment, get, put, ranged, upsert};

fn folder() -> PathBuf {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let folder =
        std::env::temp_dir().join(format!("mooncake-hot-store-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("there is a folder for temporary files");
    folder
}

fn far(master: &Master, segment_bytes: u64, hot_cache: HotCacheConfig) -> StoreConfig {
    let transports = "tcp".parse().expect("it is one of them");
    StoreConfig { transports, hot_cache, ..config(master, segment_bytes) }
}

fn hot(folder: &Path) -> HotCacheConfig {
    HotCacheConfig { bytes: 32 << 20, folder: Some(folder.to_owned()), ..HotCacheConfig::default() }
}

/// A node that lends memory, and two readers that share one cache.
fn scene(master: &Master) -> (Store, Store, Store) {
    let folder = folder();
    let open = |segment_bytes, cache| {
        Store::open(far(master, segment_bytes, cache)).expect("the store opens")
    };
    let node = open(64 << 20, HotCacheConfig::default());
    let readers = [open(0, hot(&folder)), open(0, hot(&folder))];
    std::fs::remove_dir_all(&folder).expect("they have met");
    let [one, other] = readers;
    (node, one, other)
}

/// Reads an object until a read is answered from the cache.
fn warm(reader: &Store, key: &str, len: usize) {
    let before = reader.hot_cache_counts().hits;
    eventually("the object is kept", || {
        assert_eq!(get(reader, key), Ok(content(key, len)));
        reader.hot_cache_counts().hits > before
    });
}

#[test]
fn what_is_read_twice_is_kept_and_shared() {
    let master = Master::start();
    let (node, one, other) = scene(&master);
    for len in [1, 100_000, 5 << 20] {
        let key = format!("{len} bytes");
        assert_eq!(put(&node, &key, len, 1), Ok(()));
        assert_eq!(get(&one, &key), Ok(content(&key, len)));
        warm(&one, &key, len);
        warm(&other, &key, len);
    }
    assert_eq!(other.hot_cache_counts().admitted, 0, "one copy for both");
    let (counts, of_node) = (one.hot_cache_counts(), node.hot_cache_counts());
    assert!(counts.hit_bytes > 5 << 20 && counts.misses > 0, "{counts:?}");
    assert_eq!(of_node, Default::default());
}

#[test]
fn a_copy_that_its_node_promised_is_read_without_a_question() {
    let master = Master::start();
    let (node, one, other) = scene(&master);
    assert_eq!(put(&node, "k", 100_000, 1), Ok(()));
    warm(&one, "k", 100_000);
    for reader in [&one, &other] {
        eventually("no question is asked", || {
            let before = reader.hot_cache_counts();
            for _ in 0..50 {
                assert_eq!(get(reader, "k"), Ok(content("k", 100_000)));
            }
            let after = reader.hot_cache_counts();
            after.hits == before.hits + 50 && after.asked == before.asked
        });
    }
}

/// Reads for longer than a promise lasts: the reader renews the promise in the background before it ends.
#[test]
fn promises_are_renewed_while_a_copy_is_read() {
    let master = Master::start();
    let (node, one, _other) = scene(&master);
    assert_eq!(put(&node, "k", 10_000, 1), Ok(()));
    warm(&one, "k", 10_000);
    eventually("no question is asked for two seconds", || {
        let (before, started) = (one.hot_cache_counts(), Instant::now());
        while started.elapsed().as_secs() < 2 {
            assert_eq!(get(&one, "k"), Ok(content("k", 10_000)));
            std::thread::sleep(Duration::from_millis(5));
        }
        one.hot_cache_counts().asked == before.asked
    });
}

#[test]
fn what_was_removed_or_replaced_is_never_read_again() {
    let master = Master::start();
    let (node, one, other) = scene(&master);
    for round in 0..20 {
        let key = format!("k{}", round % 3);
        let len = 100_000 + round;
        assert_eq!(put(&node, &key, len, 1), Ok(()));
        warm(&one, &key, len);
        assert_eq!(get(&other, &key), Ok(content(&key, len)));
        let new = content("new", len);
        assert_eq!(upsert(&node, &key, &new, 1), Ok(()));
        assert_eq!((get(&one, &key), get(&other, &key)), (Ok(new.clone()), Ok(new)));
        assert_eq!(node.remove(&[&key], true), vec![Ok(())]);
        for reader in [&one, &other] {
            assert_eq!(get(reader, &key), Err(ErrorCode::ObjectNotFound), "round {round}");
        }
    }
}

/// Readers ask the node for promises all the time; the node makes none while a removal or replacement waits.
#[test]
fn what_is_read_without_end_can_be_replaced_and_removed() {
    let master = Master::start();
    let (node, one, other) = scene(&master);
    assert_eq!(put(&node, "k", 10_000, 1), Ok(()));
    warm(&one, "k", 10_000);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for reader in [&one, &other] {
            scope.spawn(|| {
                let values: Vec<_> =
                    ["k", "new 0", "new 1", "new 2"].map(|of| content(of, 10_000)).into();
                while !is_over.load(Ordering::Relaxed) {
                    // A get may fail while its version is replaced; it never returns other bytes.
                    let found = get(reader, "k");
                    assert!(found.is_err() || found.is_ok_and(|found| values.contains(&found)));
                }
            });
        }
        for round in 0..3 {
            let new = content(&format!("new {round}"), 10_000);
            let begun = Instant::now();
            assert_eq!(upsert(&node, "k", &new, 1), Ok(()));
            assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
            assert_eq!((get(&one, "k"), get(&other, "k")), (Ok(new.clone()), Ok(new)));
            std::thread::sleep(Duration::from_millis(300));
        }
        let begun = Instant::now();
        assert_eq!(node.remove(&["k"], true), vec![Ok(())]);
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(get(&one, "k"), Err(ErrorCode::ObjectNotFound));
}

#[test]
fn a_copy_is_not_read_when_its_node_is_gone() {
    let master = Master::start();
    let (node, one, _other) = scene(&master);
    assert_eq!(put(&node, "k", 300_000, 1), Ok(()));
    warm(&one, "k", 300_000);
    node.close();
    let gone = get(&one, "k").expect_err("nobody holds it");
    assert!(matches!(gone, ErrorCode::ObjectNotFound | ErrorCode::TransferFail), "{gone:?}");
}

#[test]
fn parts_of_objects_are_kept_as_they_are_asked_for() {
    let master = Master::start();
    let (node, one, _other) = scene(&master);
    assert_eq!(put(&node, "k", 900_000, 1), Ok(()));
    let buffer = mooncake_client::Buffer::zeroed(900_000);
    let parts = [fragment(&buffer, 10, 50_000), fragment(&buffer, 400_000, 77)];
    let hits = || one.hot_cache_counts().hits;
    eventually("both parts are kept", || {
        buffer.raw().write_from(&vec![0; 900_000]);
        assert_eq!(one.get_ranges(&[ranged("k", &parts)]), [[Ok(50_000), Ok(77)]]);
        let (expected, found) = (content("k", 900_000), buffer.as_slice());
        assert_eq!(found[10..50_010], expected[10..50_010]);
        assert_eq!(found[400_000..400_077], expected[400_000..400_077]);
        hits() >= 2
    });
}

#[test]
fn longer_ranges_than_wanted_are_not_kept() {
    let master = Master::start();
    let (folder, node) = (folder(), crate::rig::open(&master, 64 << 20));
    let cache = HotCacheConfig { longest_bytes: Some(100_000), ..hot(&folder) };
    let reader = Store::open(far(&master, 0, cache)).expect("the store opens");
    std::fs::remove_dir_all(&folder).expect("it is there");
    assert_eq!((put(&node, "long", 100_001, 1), put(&node, "short", 100_000, 1)), (Ok(()), Ok(())));
    for _ in 0..5 {
        assert_eq!(get(&reader, "long"), Ok(content("long", 100_001)));
    }
    warm(&reader, "short", 100_000);
    assert_eq!(reader.hot_cache_counts().admitted, 1);
}

#[test]
fn a_cache_that_cannot_be_had_is_an_error() {
    let master = Master::start();
    let open = |cache| Store::open(far(&master, 0, cache)).expect_err("it makes no sense");
    let small = open(HotCacheConfig { bytes: 1000, ..hot(&std::env::temp_dir()) });
    assert_eq!(small, OpenError::HotCacheSize { bytes: 1000 });
    let nowhere = open(hot(Path::new("/nowhere/at/all")));
    assert!(matches!(nowhere, OpenError::HotCache { .. }), "{nowhere}");
}
