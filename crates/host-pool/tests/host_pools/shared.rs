use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use mooncake_client::{ErrorCode, ReplicateConfig, StoreConfig};
use mooncake_host_pool::HostPool;

use crate::rig::{TestFolder, address, config, get, put, soon};

#[test]
fn stores_that_name_a_folder_share_a_pool_and_outlive_its_leader() {
    let folder = TestFolder::new("shared");
    let [first, second, third] =
        [16 << 20, 16 << 20, 0].map(|bytes| folder.open(bytes).expect("it opens"));
    assert_ne!(first.hostname(), second.hostname());
    for number in 0..64 {
        put(&second, &format!("k{number}"), &[number; 70_000]);
    }
    let all = |pool: &HostPool| {
        (0..64).filter(|n| get(pool, &format!("k{n}")) == Some(vec![*n; 70_000])).count()
    };
    assert_eq!([&first, &second, &third].map(all), [64; 3]);
    let held = all_of(&second, second.hostname());
    first.close();
    soon("another leads, with what it holds", || all(&third) >= held);
    // Cached routes need no leader, so another leader may not have been elected yet. A put needs one.
    soon("a put finds the leader", || {
        third.put_bytes("new", b"value", &ReplicateConfig::default()).is_ok()
    });
    assert_eq!(get(&second, "new").as_deref(), Some(&b"value"[..]));
    second.close();
    // A get fails with another error until another store leads.
    soon("nothing is left", || {
        third.get(&["new"]).remove(0).err() == Some(ErrorCode::ObjectNotFound)
    });
    let fourth = folder.open(16 << 20).expect("it opens");
    put(&fourth, "again", b"1");
    assert_eq!(get(&third, "again").as_deref(), Some(&b"1"[..]));
}

/// How many of the objects lie in this segment.
fn all_of(pool: &HostPool, segment: &str) -> usize {
    let keys: Vec<String> = (0..64).map(|number| format!("k{number}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let lies_there =
        |found: &mooncake_client::ObjectLocation| format!("{found:?}").contains(segment);
    pool.locate(&keys).iter().flatten().filter(|found| lies_there(found)).count()
}

/// The next process that opens the segment file finds its objects, although the pool had no leader in between.
#[test]
fn what_lies_in_a_segment_file_outlives_all_processes() {
    let folder = TestFolder::new("file");
    let segment = TestFolder(format!("/dev/shm/mooncake-host-pool-{}", std::process::id()).into());
    let open = || {
        let config = StoreConfig { segment_path: Some(segment.0.clone()), ..config(16 << 20) };
        HostPool::open(&address(&format!("local://{}", folder.0.display())), config)
            .expect("it opens")
    };
    let first = open();
    put(&first, "key", b"value");
    first.close();
    drop(first);
    let second = open();
    soon("it is there again", || get(&second, "key").as_deref() == Some(&b"value"[..]));
    drop(second);
    let _ = std::fs::remove_file(&segment.0);
}

#[test]
fn calls_go_on_when_the_leader_closes() {
    for round in 0..3 {
        let folder = TestFolder::new(&format!("leaders-{round}"));
        // The first store leads, since it opened alone.
        let leads = folder.open(16 << 20).expect("it opens");
        let stays = folder.open(32 << 20).expect("it opens");
        let (ends, puts) = (AtomicBool::new(false), AtomicU32::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| put_and_get(&stays, &ends, &puts));
            soon("puts go on before", || puts.load(Ordering::Relaxed) > 10);
            leads.close();
            let before = puts.load(Ordering::Relaxed);
            soon("puts go on after", || puts.load(Ordering::Relaxed) > before + 10);
            ends.store(true, Ordering::Relaxed);
        });
        put(&stays, "last", b"1");
        assert_eq!(get(&stays, "last").as_deref(), Some(&b"1"[..]));
    }
}

/// Puts objects one after the other, gets each, and counts the objects that came back.
fn put_and_get(pool: &HostPool, ends: &AtomicBool, puts: &AtomicU32) {
    let numbers = (0_u32..).take_while(|_| !ends.load(Ordering::Relaxed));
    for number in numbers {
        let key = format!("w{number}");
        // A put or a get may fail while no store leads. A get that succeeds must return the right bytes.
        let value = number.to_le_bytes().repeat(5_000);
        if pool.put_bytes(&key, &value, &ReplicateConfig::default()).is_ok() {
            let Some(found) = get(pool, &key) else { continue };
            assert!(found == value, "{key}");
            puts.fetch_add(1, Ordering::Relaxed);
        }
    }
}
