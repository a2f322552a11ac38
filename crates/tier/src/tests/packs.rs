//! Tests specific to [`PackStore`]: a single owner, calls with unknown outcomes, and the cost of a start.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{bytes, get, name, put};
use crate::packs::lease_clock::LeaseClock;
use crate::testing::BucketDouble;
use crate::{
    Bucket, Notes, OpenError, PackStore, PacksConfig, PutError, ReadError, Record, RecordStore,
};

/// The seed of the next process. No two processes share one.
static NEXT_SEED: AtomicU64 = AtomicU64::new(1);

pub(super) fn config() -> PacksConfig {
    PacksConfig {
        pack_bytes: 128 << 10,
        gather: Duration::ZERO,
        lease: Duration::from_secs(60),
        silence: Duration::from_millis(1),
        pause: Duration::ZERO,
        longest_record: 4 << 20,
        seed: NEXT_SEED.fetch_add(1, Ordering::Relaxed),
        host: "here".to_owned(),
        clock: LeaseClock::default(),
    }
}

pub(super) fn open(store: &BucketDouble, told: impl FnMut(Record)) -> Result<PackStore, OpenError> {
    PackStore::open(Arc::new(store.bucket()), config(), told)
}

fn reopen(store: &BucketDouble) -> (PackStore, Vec<u64>) {
    let mut told = Vec::new();
    let packs = open(store, |record| told.push(record.name.grant.counter)).expect("it opens");
    told.sort_unstable();
    (packs, told)
}

/// A store with one full pack: eight records of four blocks each, numbered from 1.
fn one_full_pack() -> (BucketDouble, PackStore) {
    let store = BucketDouble::new(1);
    let patient = PacksConfig { gather: Duration::from_secs(60), ..config() };
    let packs = PackStore::open(Arc::new(store.bucket()), patient, |_| {}).expect("it is empty");
    thread::scope(|scope| {
        for number in 1..=8 {
            let packs = &packs;
            scope.spawn(move || put(packs, name(number), 3 * 4096).expect("it is stored"));
        }
    });
    (store, packs)
}

#[test]
fn records_that_come_together_are_stored_together() {
    let (store, packs) = one_full_pack();
    assert_eq!(store.names("packs").len(), 1);
    assert_eq!(packs.usage().records, 8);
    for number in 1..=8 {
        assert_eq!(
            get(&packs, name(number), 0, 12_288).expect("it is there"),
            bytes(name(number), 12_288)
        );
    }
    drop(packs);
    assert_eq!(reopen(&store).1, [1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn a_prefix_has_one_owner_and_the_one_before_neither_writes_nor_serves() {
    let store = BucketDouble::new(1);
    let (old, _) = reopen(&store);
    put(&old, name(1), 100).expect("it is stored");
    put(&old, name(2), 100).expect("it is stored");
    // The new owner waits only for the silence, which is shorter than the lease in this test.
    let (new, told) = reopen(&store);
    assert_eq!(told, [1, 2]);
    assert_eq!(new.drop_records(&[name(1)]), Ok(1));
    let refused = old.drop_records(&[name(2)]).expect_err("it is another's");
    assert!(old.is_broken(), "{refused}");
    assert!(matches!(put(&old, name(3), 100), Err(PutError::Broken(_))));
    assert!(matches!(get(&old, name(1), 0, 100), Err(ReadError::Unreachable(_))));
    assert!(old.set_note(b"mine").is_err());
    drop(old);
    assert!(!new.is_broken());
    assert_eq!(get(&new, name(2), 0, 100).expect("it is there"), bytes(name(2), 100));
    drop(new);
    assert_eq!(reopen(&store).1, [2]);
}

#[test]
fn who_is_at_work_keeps_its_prefix() {
    let store = BucketDouble::new(1);
    let busy = PacksConfig { lease: Duration::from_millis(100), ..config() };
    let (owner, mut refused) = (PackStore::open(Arc::new(store.bucket()), busy.clone(), |_| {}), 0);
    let other = PacksConfig { silence: Duration::from_secs(20), ..config() };
    match PackStore::open(Arc::new(store.bucket()), other, |_| {}) {
        Err(OpenError::InUse(_)) => refused += 1,
        outcome => panic!("{:?}", outcome.err()),
    }
    // A process on another host is refused at once.
    let far =
        PacksConfig { silence: Duration::from_secs(600), host: "elsewhere".to_owned(), ..config() };
    let begun = Instant::now();
    match PackStore::open(Arc::new(store.bucket()), far, |_| {}) {
        Err(OpenError::InUse(_)) => refused += 1,
        outcome => panic!("{:?}", outcome.err()),
    }
    assert!(begun.elapsed() < Duration::from_secs(60));
    assert_eq!(refused, 2);
    drop(owner);
    let released = PacksConfig { silence: Duration::from_secs(600), ..config() };
    let opened = PackStore::open(Arc::new(store.bucket()), released, |_| {});
    assert!(opened.is_ok(), "who ends releases it");
}

/// Its host was suspended, while that of another process was awake.
#[test]
fn a_process_that_was_suspended_for_longer_than_its_lease_serves_nothing() {
    let store = BucketDouble::new(1);
    let own = config();
    let asleep = Arc::clone(&own.clock.suspended_ns);
    let packs = PackStore::open(Arc::new(store.bucket()), own, |_| {}).expect("it is empty");
    put(&packs, name(1), 1_000).expect("it is stored");
    assert!(get(&packs, name(1), 0, 1_000).is_ok());
    let far = PacksConfig { host: "elsewhere".to_owned(), ..config() };
    store.age(Duration::from_secs(601));
    let next = PackStore::open(Arc::new(store.bucket()), far, |_| {}).expect("it was silent");
    assert_eq!(next.drop_records(&[name(1)]), Ok(1));
    asleep.fetch_add(60_000_000_000, Ordering::Relaxed);
    assert!(get(&packs, name(1), 0, 1_000).is_err(), "it was dropped");
}

#[test]
fn an_owner_that_cannot_store_anything_stops_serving_in_time_and_goes_on_later() {
    let store = BucketDouble::new(1);
    let short = PacksConfig { lease: Duration::from_millis(200), ..config() };
    let packs = PackStore::open(Arc::new(store.bucket()), short, |_| {}).expect("it is empty");
    put(&packs, name(1), 100).expect("it is stored");
    store.fail_in(0);
    let begun = Instant::now();
    while get(&packs, name(1), 0, 100).is_ok() {
        assert!(begun.elapsed() < Duration::from_secs(20), "it goes on serving");
        thread::sleep(Duration::from_millis(5));
    }
    assert!(matches!(get(&packs, name(1), 0, 100), Err(ReadError::Unreachable(_))));
    assert!(!packs.is_broken());
    store.heal();
    let begun = Instant::now();
    while get(&packs, name(1), 0, 100).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(20), "it does not serve again");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn an_entry_that_arrives_where_a_later_owner_has_tidied_up_is_not_believed() {
    let store = BucketDouble::new(1);
    let short = PacksConfig { lease: Duration::ZERO, ..config() };
    let old = PackStore::open(Arc::new(store.bucket()), short, |_| {}).expect("it is empty");
    put(&old, name(1), 100).expect("it is stored");
    let (new, _) = reopen(&store);
    // A checkpoint replaces the old entries, so their numbers are free again.
    (2..40).for_each(|number| put(&new, name(number), 100).expect("it is stored"));
    new.make_room(0).expect("it is at work");
    assert!(store.names("journal").len() < 10 && store.names("checkpoints").len() == 1);
    assert!(old.drop_records(&[name(1)]).is_err(), "it was not the owner's to drop");
    assert!(old.is_broken());
    drop((old, new));
    assert_eq!(reopen(&store).1, (1..40).collect::<Vec<_>>());
}

/// S3 answers like this while an earlier attempt of the same process is still under way.
#[test]
fn an_entry_that_is_said_to_be_there_and_is_not_is_stored_by_the_next_attempt() {
    let store = BucketDouble::new(1);
    let (packs, _) = reopen(&store);
    put(&packs, name(1), 100).expect("it is stored");
    store.conflict_once();
    packs.drop_records(&[name(1)]).expect_err("nobody knows what comes of the other attempt");
    assert!(!packs.is_broken());
    packs.drop_records(&[name(1)]).expect("the store answers");
    put(&packs, name(2), 100).expect("it is stored");
    drop(packs);
    assert_eq!(reopen(&store).1, [2]);
}

#[test]
fn what_is_mostly_dropped_is_written_anew_and_small_packs_become_one() {
    let store = BucketDouble::new(1);
    let (packs, _) = reopen(&store);
    (1..=32).for_each(|number| put(&packs, name(number), 10_000).expect("it is stored"));
    assert_eq!(store.names("packs").len(), 32);
    (0..8).for_each(|_| _ = packs.make_room(0));
    let together = store.names("packs").len();
    assert!(together <= 8, "{together}");
    for number in (1..=32).filter(|number| number % 8 != 0) {
        assert_eq!(packs.drop_records(&[name(number)]), Ok(1));
    }
    (0..8).for_each(|_| _ = packs.make_room(0));
    let usage = packs.usage();
    assert!(usage.used_bytes < 3 * usage.live_bytes, "{usage:?}");
    assert_eq!(usage.records, 4);
    for number in [8, 16, 24, 32] {
        let found = get(&packs, name(number), 0, 10_000).expect("it is there");
        assert_eq!(found, bytes(name(number), 10_000));
    }
    drop(packs);
    assert_eq!(reopen(&store).1, [8, 16, 24, 32]);
}

/// A drop that waits for one record releases the lock. Cleaning may then move another record.
#[test]
fn a_drop_that_waits_for_one_record_drops_another_where_cleaning_has_moved_it() {
    let store = BucketDouble::new(1);
    let (packs, _) = reopen(&store);
    (1..=8).for_each(|number| put(&packs, name(number), 10_000).expect("it is stored"));
    drop(packs);
    let gathering = PacksConfig { gather: Duration::from_secs(1), ..config() };
    let packs =
        PackStore::open(Arc::new(store.bucket()), gathering, |_| {}).expect("it is released");
    let (step, before) = (Duration::from_millis(200), store.names("packs"));
    thread::scope(|scope| {
        scope.spawn(|| put(&packs, name(9), 10_000).expect("it is stored"));
        thread::sleep(step);
        let dropping = scope.spawn(|| packs.drop_records(&[name(1), name(9)]));
        thread::sleep(step);
        packs.make_room(0).expect("it is at work");
        let now = store.names("packs");
        assert!(before.iter().all(|pack| !now.contains(pack)), "small packs become one: {now:?}");
        assert_eq!(dropping.join().expect("it does not panic"), Ok(2));
    });
    drop(packs);
    assert_eq!(reopen(&store).1, (2..=8).collect::<Vec<_>>());
}

#[test]
fn an_owner_serves_while_it_writes_packs_anew_for_longer_than_its_lease() {
    let store = BucketDouble::new(1);
    let (packs, _) = reopen(&store);
    (1..=32).for_each(|number| put(&packs, name(number), 1_000).expect("it is stored"));
    drop(packs);
    let short = PacksConfig { lease: Duration::from_secs(2), ..config() };
    let packs = PackStore::open(Arc::new(store.bucket()), short, |_| {}).expect("it is released");
    store.delay(Duration::from_millis(150));
    let is_cleaning = AtomicBool::new(true);
    thread::scope(|scope| {
        scope.spawn(|| {
            packs.make_room(0).expect("it is at work");
            is_cleaning.store(false, Ordering::Relaxed);
        });
        // The keeper then removes the old packs. In this test it removes them one by one.
        while is_cleaning.load(Ordering::Relaxed) && store.names("packs").len() >= 32 {
            assert!(get(&packs, name(1), 0, 1_000).is_ok(), "its lease has ended");
        }
        store.delay(Duration::ZERO);
    });
    assert!(store.names("packs").len() < 32, "nothing was written anew");
}

#[test]
fn a_start_reads_no_record() {
    let store = BucketDouble::new(1);
    let (packs, _) = reopen(&store);
    (1..=20).for_each(|number| put(&packs, name(number), 100_000).expect("it is stored"));
    packs.make_room(0).expect("it is at work");
    drop(packs);
    let before = store.gets();
    let (_packs, told) = reopen(&store);
    assert_eq!(told.len(), 20);
    // The lists, the last checkpoint, the entries after it, and a table for each pack.
    let gets = store.gets() - before;
    assert!(gets < 20 + 16 + 16, "{gets}");
}

#[test]
fn a_pack_that_was_damaged_cut_or_removed_is_an_error_of_its_records_alone() {
    let store = BucketDouble::new(1);
    let (packs, _) = reopen(&store);
    (1..=5).for_each(|number| put(&packs, name(number), 50_000).expect("it is stored"));
    let names = store.names("packs");
    store.damage(&names[0], |mut bytes| {
        bytes[20_000] ^= 1;
        Some(bytes)
    });
    store.damage(&names[1], |bytes| Some(bytes[..30_000].to_vec()));
    store.damage(&names[2], |_| None);
    assert!(matches!(get(&packs, name(1), 0, 50_000), Err(ReadError::Damaged)));
    assert!(matches!(get(&packs, name(2), 0, 50_000), Err(ReadError::Io(_))));
    assert!(matches!(get(&packs, name(3), 0, 50_000), Err(ReadError::Io(_))));
    assert!(get(&packs, name(4), 0, 50_000).is_ok());
    store.refuse_reads();
    assert!(matches!(get(&packs, name(4), 0, 50_000), Err(ReadError::Unreachable(_))));
    store.heal();
    assert!(get(&packs, name(4), 0, 50_000).is_ok());
    drop(packs);
    assert_eq!(reopen(&store).1, [1, 4, 5]);
}

#[test]
fn packs_that_are_damaged_cut_or_gone_keep_no_others_from_being_written_anew() {
    let store = BucketDouble::new(1);
    let (packs, _) = reopen(&store);
    (1..=20).for_each(|number| put(&packs, name(number), 20_000).expect("it is stored"));
    let names = store.names("packs");
    store.damage(&names[0], |mut bytes| {
        bytes[10_000] ^= 1;
        Some(bytes)
    });
    store.damage(&names[1], |bytes| Some(bytes[..10_000].to_vec()));
    store.damage(&names[2], |_| None);
    (0..8).for_each(|_| _ = packs.make_room(0));
    let left = store.names("packs");
    assert!(left.len() <= 12 && left[..2] == names[..2], "{left:?}");
    for number in 1..=20 {
        assert_eq!(get(&packs, name(number), 0, 20_000).is_ok(), number > 3, "{number}");
    }
}

/// Only the damaged record stays, until it is dropped.
#[test]
fn what_is_sound_in_a_damaged_pack_is_written_anew() {
    let (store, packs) = one_full_pack();
    let pack = store.names("packs").remove(0);
    store.damage(&pack, |mut bytes| {
        bytes[5_000] ^= 1;
        Some(bytes)
    });
    let is_sound = |number: &u64| get(&packs, name(*number), 0, 12_288).is_ok();
    let (sound, damaged): (Vec<u64>, Vec<u64>) = (1..=8).partition(is_sound);
    assert_eq!(damaged.len(), 1);
    let dropped: Vec<_> = sound[..5].iter().map(|&number| name(number)).collect();
    assert_eq!(packs.drop_records(&dropped), Ok(5));
    (0..3).for_each(|_| packs.make_room(0).map(drop).expect("it is at work"));
    let left = store.names("packs");
    assert!(left.len() == 2 && left.contains(&pack), "{left:?}");
    assert_eq!(packs.drop_records(&[name(damaged[0])]), Ok(1));
    packs.make_room(0).expect("it is at work");
    assert!(!store.names("packs").contains(&pack), "nothing of it is live");
    assert!(sound[5..].iter().all(is_sound));
}

/// The journal may be empty, because a checkpoint has replaced all entries.
#[test]
fn the_prefix_of_a_host_that_vanished_is_taken_over_after_a_long_silence() {
    let store = BucketDouble::new(1);
    let (old, _) = reopen(&store);
    (1..=20).for_each(|number| put(&old, name(number), 100_000).expect("it is stored"));
    old.make_room(0).expect("it is at work");
    assert_eq!((store.names("journal").len(), store.names("checkpoints").len()), (0, 1));
    store.kill();
    drop(old);
    let far = || PacksConfig { host: "elsewhere".to_owned(), ..config() };
    let opened = |config| PackStore::open(Arc::new(store.bucket()), config, |_| {});
    assert!(matches!(opened(far()), Err(OpenError::InUse(_))));
    store.age(Duration::from_secs(601));
    let packs = opened(far()).expect("its owner has been silent for long");
    assert_eq!(packs.usage().records, 20);
}

#[test]
fn a_journal_that_cannot_be_understood_is_an_error() {
    let store = BucketDouble::new(1);
    let (packs, _) = reopen(&store);
    put(&packs, name(1), 100).expect("it is stored");
    drop(packs);
    let entry = store.names("journal").remove(1);
    store.damage(&entry, |mut bytes| {
        bytes[9] ^= 1;
        Some(bytes)
    });
    let error = open(&store, |_| {}).err().expect("it is damaged").to_string();
    assert!(error.contains("is damaged, or another version made it"), "{error}");
}

#[test]
fn a_note_comes_back() {
    let store = BucketDouble::new(1);
    let (packs, _) = reopen(&store);
    assert_eq!(packs.note().expect("it is known"), None);
    packs.set_note(b"one").expect("it is stored");
    packs.set_note(b"two").expect("it is stored");
    drop(packs);
    assert_eq!(reopen(&store).0.note().expect("it is known").as_deref(), Some(&b"two"[..]));
}

/// A slow store delays only its callers. No thread reads a record that does not exist.
#[test]
fn many_threads_put_read_and_drop_while_answers_are_slow() {
    let store = BucketDouble::new(1);
    let gathering = PacksConfig { gather: Duration::from_millis(5), ..config() };
    let packs = PackStore::open(Arc::new(store.bucket()), gathering, |_| {}).expect("it is empty");
    store.delay(Duration::from_millis(2));
    thread::scope(|scope| {
        for thread in 0..8 {
            let packs = &packs;
            scope.spawn(move || {
                for round in 0..10 {
                    let name = name(1 + thread * 100 + round);
                    put(packs, name, 20_000).expect("it is stored");
                    assert_eq!(
                        get(packs, name, 0, 20_000).expect("it is there"),
                        bytes(name, 20_000)
                    );
                    if round % 2 == 0 {
                        assert_eq!(packs.drop_records(&[name]), Ok(1));
                        assert!(matches!(get(packs, name, 0, 1), Err(ReadError::NotThere)));
                    }
                    packs.make_room(0).expect("it is at work");
                }
            });
        }
    });
    store.delay(Duration::ZERO);
    assert_eq!(packs.usage().records, 40);
    drop(packs);
    assert_eq!(reopen(&store).1.len(), 40);
    assert!(Bucket::list(&store.bucket(), "journal").is_ok());
}
