//! Segments in object stores: which objects survive a restart, and how long an unreachable store delays callers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mooncake_node::{DiskKind, DiskOptions, DiskSegment, Host};
use mooncake_tier::testing::BucketDouble;
use mooncake_transfer::SegmentHost;
use mooncake_types::{ClientId, Epoch, ErrorCode, Medium, SegmentId, Version};

use super::{Piece, check, put};

fn options(seed: u64) -> DiskOptions {
    DiskOptions {
        kind: DiskKind::Packs,
        cluster: "a cluster".to_owned(),
        capacity_bytes: 1 << 30,
        client: ClientId(7),
        is_client_settled: true,
        segment: SegmentId(seed.into()),
        staging_bytes: 1 << 20,
        seed,
    }
}

fn open(store: &BucketDouble, seed: u64) -> (Host, SegmentId) {
    let segment = DiskSegment::open_bucket(Arc::new(store.bucket()), options(seed));
    let segment = segment.expect("it opens");
    assert_eq!(segment.medium(), Medium::ObjectStore);
    let (host, id) = (Host::new(Vec::new()), segment.id());
    host.lend_disk(segment);
    host.see_epoch(Epoch(1));
    (host, id)
}

fn piece(number: u64) -> Piece {
    let version = Version { epoch: Epoch(1), counter: number };
    Piece::whole(number << 16, version, 5_000)
}

#[test]
fn what_was_written_is_there_for_the_next_process_and_what_was_dropped_is_not() {
    let store = BucketDouble::new(1);
    let (host, id) = open(&store, 1);
    for number in 1..=3 {
        put(&host, id, &piece(number)).expect("it is stored");
    }
    drop_piece(&host, id, 2).expect("it is dropped");
    drop(host);
    let (host, again) = open(&store, 2);
    assert_eq!(again, id, "it is the same segment");
    assert_eq!(host.run(), 2);
    for (number, is_there) in [(1, true), (2, false), (3, true)] {
        assert_eq!(check(&host, id, &piece(number)).is_ok(), is_there, "{number}");
    }
}

#[test]
fn a_store_that_cannot_be_reached_confirms_no_drop_and_loses_nothing() {
    let store = BucketDouble::new(1);
    let (host, id) = open(&store, 1);
    for number in 1..=3 {
        put(&host, id, &piece(number)).expect("it is stored");
    }
    store.fail_in(0);
    store.refuse_reads();
    assert_eq!(drop_piece(&host, id, 2), Err(ErrorCode::FileWriteFail));
    assert_eq!(check(&host, id, &piece(1)), Err(ErrorCode::ObjectReplicaBusy));
    assert!(put(&host, id, &piece(4)).is_err());
    assert!(!host.disks()[0].is_broken());
    store.heal();
    // After a failure the journal waits a second before the next attempt.
    std::thread::sleep(Duration::from_millis(1_100));
    assert_eq!(drop_piece(&host, id, 2), Ok(()));
    assert_eq!(host.disks()[0].losses().objects(), 0);
    drop(host);
    let (host, id) = open(&store, 2);
    for (number, is_there) in [(1, true), (2, false), (3, true), (4, false)] {
        assert_eq!(check(&host, id, &piece(number)).is_ok(), is_there, "{number}");
    }
}

/// The thread that pings the master also performs the drops, so a slow store must not block it.
#[test]
fn a_store_that_answers_late_holds_up_those_who_drop_for_a_second_once() {
    let store = BucketDouble::new(1);
    let (host, id) = open(&store, 1);
    let pieces: Vec<Piece> = (1..=3).map(piece).collect();
    pieces.iter().for_each(|piece| put(&host, id, piece).expect("it is stored"));
    let drops: Vec<_> = pieces.iter().map(|piece| piece.drop_by(id, piece.grant)).collect();
    store.delay(Duration::from_secs(4));
    let begun = Instant::now();
    assert_eq!(host.drop_ranges(&drops), [Err(ErrorCode::FileWriteFail); 3]);
    let waited = begun.elapsed();
    assert!((Duration::from_secs(1)..Duration::from_secs(3)).contains(&waited), "{waited:?}");
    let begun = Instant::now();
    assert_eq!(host.drop_ranges(&drops), [Err(ErrorCode::FileWriteFail); 3]);
    assert!(begun.elapsed() < Duration::from_millis(500), "{:?}", begun.elapsed());
    assert!(check(&host, id, &pieces[0]).is_err(), "readers do not find them meanwhile");
    store.delay(Duration::ZERO);
    while host.drop_ranges(&drops) != [Ok(()); 3] {
        assert!(begun.elapsed() < Duration::from_secs(20), "the write that was begun ends");
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(host);
    let (host, id) = open(&store, 2);
    assert!(pieces.iter().all(|piece| check(&host, id, piece).is_err()));
}

/// A pack's record cannot be erased while the upload of the pack is in flight.
#[test]
fn a_store_that_is_slow_to_take_an_object_holds_up_those_who_drop_it_for_a_second_once() {
    let store = BucketDouble::new(1);
    let (host, id) = open(&store, 1);
    put(&host, id, &piece(1)).expect("it is stored");
    let stored = store.puts();
    store.delay(Duration::from_secs(4));
    std::thread::scope(|scope| {
        let upload = scope.spawn(|| put(&host, id, &piece(2)));
        let begun = Instant::now();
        while store.puts() == stored {
            assert!(begun.elapsed() < Duration::from_secs(20), "the upload begins");
            std::thread::sleep(Duration::from_millis(5));
        }
        let begun = Instant::now();
        assert_eq!(drop_piece(&host, id, 2), Err(ErrorCode::FileWriteFail));
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
        let begun = Instant::now();
        assert_eq!(drop_piece(&host, id, 2), Err(ErrorCode::FileWriteFail));
        assert!(begun.elapsed() < Duration::from_millis(500), "{:?}", begun.elapsed());
        store.delay(Duration::ZERO);
        assert!(upload.join().expect("no panic").is_err(), "its writer was told to stop");
    });
    let begun = Instant::now();
    while drop_piece(&host, id, 2) != Ok(()) {
        assert!(begun.elapsed() < Duration::from_secs(20), "the object is erased");
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(host);
    let (host, id) = open(&store, 2);
    for (number, is_there) in [(1, true), (2, false)] {
        assert_eq!(check(&host, id, &piece(number)).is_ok(), is_there, "{number}");
    }
}

/// The batch waits for the failing store once, not once for each of its ranges.
#[test]
fn a_batch_of_drops_waits_once_for_a_store_that_fails() {
    let store = BucketDouble::new(1);
    let (host, id) = open(&store, 1);
    let pieces: Vec<Piece> = (1..=20).map(piece).collect();
    pieces.iter().for_each(|piece| put(&host, id, piece).expect("it is stored"));
    let drops: Vec<_> = pieces.iter().map(|piece| piece.drop_by(id, piece.grant)).collect();
    store.delay(Duration::from_millis(200));
    store.fail_in(0);
    let begun = Instant::now();
    assert_eq!(host.drop_ranges(&drops), [Err(ErrorCode::FileWriteFail); 20]);
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    store.delay(Duration::ZERO);
    store.heal();
    while host.drop_ranges(&drops) != [Ok(()); 20] {
        assert!(begun.elapsed() < Duration::from_secs(20), "it is reached again");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn drop_piece(host: &Host, id: SegmentId, number: u64) -> Result<(), ErrorCode> {
    let piece = piece(number);
    host.drop_range(&piece.drop_by(id, piece.grant))
}
