//! Single faults of a disk and their effects.

use std::sync::Arc;
use std::time::Duration;

use mooncake_memory::{Buffer, Region, SliceList};
use mooncake_node::{DiskKind, DiskLosses, DiskSegment, FailedDisk, Host, Segment};
use mooncake_tier::testing::DiskDouble;
use mooncake_tier::{DiskConfig, LogStore, Record, RecordId, RecordStore};
use mooncake_transfer::SegmentHost;
use mooncake_types::{Epoch, ErrorCode, Medium, SegmentId};

use super::{CAPACITY, Nobody, Piece, check, check_part, host, pieces, put, version};
use crate::shells::{FILES, disk, disk_of, options};

const SEGMENT: SegmentId = SegmentId(1);

fn piece(number: u64) -> Piece {
    Piece::whole(number * 40_960, version(number), 30_000)
}

#[test]
fn what_cannot_be_read_is_a_miss_and_named_no_more() {
    let double = DiskDouble::new(1);
    let host = host(&double, SEGMENT);
    let (first, second) = (piece(1), piece(2));
    [first, second].iter().for_each(|piece| put(&host, SEGMENT, piece).expect("it is free"));
    double.refuse_reads(true);
    assert_eq!(check(&host, SEGMENT, &first), Err(ErrorCode::ObjectNotFound));
    double.refuse_reads(false);
    assert_eq!(check(&host, SEGMENT, &first), Err(ErrorCode::ObjectNotFound));
    assert_eq!(check(&host, SEGMENT, &second), Ok(()));
    assert_eq!(pieces(&host, SEGMENT), [second]);
    assert_eq!(host.disks()[0].losses().objects(), 1);
    assert!(!host.disks()[0].is_broken());
    // The range can be granted again.
    put(&host, SEGMENT, &Piece::whole(first.offset, version(9), 20_000)).expect("it is free");
}

#[test]
fn of_a_flipped_bit_nobody_gets_a_byte() {
    let double = DiskDouble::new(1);
    let host = host(&double, SEGMENT);
    let (first, second) = (piece(1), piece(2));
    [first, second].iter().for_each(|piece| put(&host, SEGMENT, piece).expect("it is free"));
    // A byte of the first record's data: the file's head and the record's header lie before it.
    double.damage(double.numbers()[0], 4 * 4096 + 29_999);
    assert_eq!(check_part(&host, SEGMENT, &first, 0, 10), Err(ErrorCode::ObjectNotFound));
    assert_eq!(check(&host, SEGMENT, &second), Ok(()));
    assert_eq!(pieces(&host, SEGMENT), [second]);
}

#[test]
fn a_disk_that_failed_is_taken_back_and_the_others_stay() {
    let double = DiskDouble::new(1);
    let host = host(&double, SEGMENT);
    let other = SegmentId(2);
    host.lend_disk(disk(&DiskDouble::new(2), other, CAPACITY));
    assert_eq!(host.take_back_broken(), []);
    double.fail_once_in(0);
    assert_eq!(put(&host, SEGMENT, &piece(1)), Err(ErrorCode::FileWriteFail));
    let reason = "its note cannot be written: Input/output error (os error 5)".into();
    let failed = FailedDisk { segment: SEGMENT, folder: None, reason };
    assert_eq!(host.take_back_broken(), std::slice::from_ref(&failed));
    assert_eq!((host.ids(), host.take_back_broken()), (vec![other], vec![]));
    assert_eq!(host.failed_disks(), [failed]);
}

/// Single sectors cost only what lies there.
#[test]
fn a_disk_whose_reads_keep_failing_is_lent_no_more_and_says_why() {
    let double = DiskDouble::new(1);
    let host = host(&double, SEGMENT);
    let short = |number: u64| Piece::whole(number * 8192, version(number), 1_000);
    (1..=80).for_each(|number| put(&host, SEGMENT, &short(number)).expect("it is free"));
    double.refuse_reads(true);
    for number in 1..=63 {
        assert_eq!(check(&host, SEGMENT, &short(number)), Err(ErrorCode::ObjectNotFound));
        assert_eq!(host.take_back_broken(), []);
    }
    assert_eq!(check(&host, SEGMENT, &short(64)), Err(ErrorCode::ObjectNotFound));
    let failed = host.take_back_broken();
    assert_eq!(failed.len(), 1);
    let expected =
        "its reads keep failing: the record cannot be read: Input/output error (os error 5)";
    assert_eq!((failed[0].segment, &*failed[0].reason), (SEGMENT, expected));
    let losses = DiskLosses { unreadable: 64, no_room: 0, failed_reads: 64 };
    assert_eq!((host.disk_losses(), host.failed_disks()), (losses, failed));
    double.kill();
    assert_eq!(disk(&double, SegmentId(2), CAPACITY).id(), SegmentId(2), "it starts empty");
}

#[test]
fn a_disk_that_failed_acknowledges_nothing_is_read_and_comes_back_empty() {
    let double = DiskDouble::new(1);
    let failed = host(&double, SEGMENT);
    let (first, second, third) = (piece(1), piece(2), piece(3));
    put(&failed, SEGMENT, &first).expect("it is free");
    double.fail_once_in(0);
    assert_eq!(put(&failed, SEGMENT, &second), Err(ErrorCode::FileWriteFail));
    assert!(failed.disks()[0].is_broken());
    assert_eq!(put(&failed, SEGMENT, &third), Err(ErrorCode::FileWriteFail));
    assert_eq!(check(&failed, SEGMENT, &first), Ok(()));
    let gone = failed.drop_range(&first.drop_by(SEGMENT, version(9)));
    assert_eq!(gone, Err(ErrorCode::FileWriteFail));
    let again = failed.drop_range(&first.drop_by(SEGMENT, version(10)));
    assert_eq!(again, Err(ErrorCode::FileWriteFail), "it may still come back");
    double.kill();
    let next = disk(&double, SegmentId(2), CAPACITY);
    assert_eq!((next.id(), next.run(), next.is_broken()), (SegmentId(2), 2, false));
    assert_eq!(next.usage().records, 0);
}

#[test]
fn a_disk_that_others_have_filled_evicts_its_oldest_and_goes_on() {
    for kind in [DiskKind::Log, FILES] {
        let double = DiskDouble::new(1);
        let host = Host::new(Vec::new());
        host.lend_disk(disk_of(kind, &double, SEGMENT, CAPACITY));
        host.see_epoch(Epoch(1));
        double.fill(true);
        let refused = put(&host, SEGMENT, &piece(1));
        assert_eq!(refused, Err(ErrorCode::NoAvailableHandle), "nothing of it can go");
        double.fill(false);
        (1..=4).for_each(|number| put(&host, SEGMENT, &piece(number)).expect("it is free"));
        double.fill(true);
        for number in 5..=10 {
            put(&host, SEGMENT, &piece(number)).expect("what is older goes");
            assert_eq!(check(&host, SEGMENT, &piece(number)), Ok(()));
        }
        let left = pieces(&host, SEGMENT);
        assert!(left.len() >= 2 && !left.contains(&piece(1)), "{left:?}");
        left.iter().for_each(|piece| assert_eq!(check(&host, SEGMENT, piece), Ok(())));
        assert_eq!(check(&host, SEGMENT, &piece(1)), Err(ErrorCode::ObjectNotFound));
        assert_eq!(host.disks()[0].losses().objects(), 10 - left.len() as u64);
        assert!(!host.disks()[0].is_broken());
    }
}

/// The master counts the reserved length of each range. A master that grants all that the disk lends, and replaces the
/// oldest ranges, makes the disk lose none.
#[test]
fn a_disk_holds_all_that_a_master_may_grant() {
    for kind in [DiskKind::Log, FILES] {
        for len in [100, 4096, 5000, 20_000, 100_000] {
            let host = Host::new(Vec::new());
            host.lend_disk(disk_of(kind, &DiskDouble::new(1), SEGMENT, 16 << 20));
            host.see_epoch(Epoch(1));
            let reserved = Medium::Disk.reserved_len(len);
            let count = host.disks()[0].len_bytes() / reserved;
            for number in 0..3 * count {
                let piece = Piece::whole(number % count * reserved, version(number + 1), len);
                put(&host, SEGMENT, &piece).expect("there is always room");
            }
            let losses = host.disks()[0].losses().objects();
            assert_eq!(losses, 0, "{kind:?}, {count} ranges of {len} bytes");
        }
    }
}

/// Reads wait for the disk in parallel.
#[test]
fn reads_of_a_slow_disk_overlap_in_time() {
    for kind in [DiskKind::Log, FILES] {
        let double = DiskDouble::new(1);
        let host = Host::new(Vec::new());
        host.lend_disk(disk_of(kind, &double, SEGMENT, CAPACITY));
        host.see_epoch(Epoch(1));
        (1..=8).for_each(|number| put(&host, SEGMENT, &piece(number)).expect("it is free"));
        // The disk answers no read before all eight have begun.
        double.gather_reads(8);
        std::thread::scope(|scope| {
            let read = |number| check(&host, SEGMENT, &piece(number));
            let readers: Vec<_> = (1..=8).map(|number| scope.spawn(move || read(number))).collect();
            for reader in readers {
                assert_eq!(reader.join().expect("it does not panic"), Ok(()));
            }
        });
    }
}

/// The headers and padding of short records exceed the capacity that the disk lends.
#[test]
fn what_a_full_log_evicts_is_named_no_more() {
    let double = DiskDouble::new(1);
    let host = host(&double, SEGMENT);
    let short = |number: u64| Piece::whole(number * 100, version(number), 100);
    let count = 1000;
    for number in 1..=count {
        put(&host, SEGMENT, &short(number)).expect("there is always room");
    }
    let left = pieces(&host, SEGMENT);
    let losses = host.disks()[0].losses().objects();
    assert_eq!(left.len() as u64 + losses, count);
    assert!(losses > 0 && left.contains(&short(count)), "{losses}");
    left.iter().for_each(|piece| assert_eq!(check(&host, SEGMENT, piece), Ok(())));
}

#[test]
fn a_range_that_no_file_holds_is_refused_before_its_bytes_are_sent() {
    let host = host(&DiskDouble::new(1), SEGMENT);
    let long = Piece::whole(0, version(1), 64 << 10);
    assert_eq!(put(&host, SEGMENT, &long), Err(ErrorCode::InvalidWrite));
    assert!(host.is_empty(SEGMENT));
}

#[test]
fn who_finds_no_staging_memory_waits_and_then_may_try_again() {
    let double = DiskDouble::new(1);
    let small =
        mooncake_node::DiskOptions { staging_bytes: 64 << 10, ..options(SEGMENT, CAPACITY) };
    let disk = DiskSegment::open_directory(Arc::new(double.directory()), small);
    let host = mooncake_node::Host::new(Vec::new()).with_patience(Duration::from_millis(1));
    host.lend_disk(disk.expect("it opens"));
    host.see_epoch(Epoch(1));
    put(&host, SEGMENT, &piece(1)).expect("it is free");
    let read = || host.begin_read(&piece(1).read(SEGMENT, 0, 30_000));
    let tickets = [read(), read()].map(|ticket| ticket.expect("there is memory for two"));
    assert_eq!(read().map(|_| ()), Err(ErrorCode::ObjectReplicaBusy));
    assert_eq!(put(&host, SEGMENT, &piece(2)), Err(ErrorCode::ObjectReplicaBusy));
    drop(tickets);
    assert!(read().is_ok());
    assert_eq!(put(&host, SEGMENT, &piece(2)), Ok(()));
}

/// Each is read with the chunk of 256 KiB around it, since only that has a checksum.
#[test]
fn many_short_ranges_of_one_reader_leave_staging_memory_to_others() {
    let double = DiskDouble::new(1);
    let small = mooncake_node::DiskOptions { staging_bytes: 2 << 20, ..options(SEGMENT, 16 << 20) };
    let disk = DiskSegment::open_directory(Arc::new(double.directory()), small);
    let host = mooncake_node::Host::new(Vec::new()).with_patience(Duration::from_millis(1));
    host.lend_disk(disk.expect("it opens"));
    host.see_epoch(Epoch(1));
    let long = Piece::whole(0, version(1), 600 << 10);
    put(&host, SEGMENT, &long).expect("it is free");
    let short = |number: u64| host.begin_read(&long.read(SEGMENT, 4_000 * number, 64));
    let held: Vec<_> = (0..100).map(|number| short(number).expect("there is memory")).collect();
    assert!(host.begin_read(&long.read(SEGMENT, 0, 500 << 10)).is_ok());
    drop(held);
    assert_eq!(check(&host, SEGMENT, &long), Ok(()));
}

/// The second drop finds no entry in the ledger, but the first has not erased the record yet.
#[test]
fn a_second_drop_waits_for_the_first() {
    let double = DiskDouble::new(1);
    let host = host(&double, SEGMENT);
    put(&host, SEGMENT, &piece(1)).expect("it is free");
    double.hold_syncs(true);
    std::thread::scope(|scope| {
        let drop = || host.drop_range(&piece(1).drop_by(SEGMENT, version(9)));
        let first = scope.spawn(drop);
        while host.begin_read(&piece(1).read(SEGMENT, 0, 1)).is_ok() {
            std::thread::yield_now();
        }
        let second = scope.spawn(drop);
        std::thread::sleep(Duration::from_millis(30));
        assert!(!first.is_finished() && !second.is_finished());
        double.hold_syncs(false);
        assert_eq!(first.join().expect("it does not panic"), Ok(()));
        assert_eq!(second.join().expect("it does not panic"), Ok(()));
    });
}

#[test]
fn a_drop_waits_for_a_record_that_is_being_appended_and_has_it_erased() {
    let double = DiskDouble::new(1);
    let written = host(&double, SEGMENT);
    // The first put creates the file, so the disk holds back only the sync of the second record.
    put(&written, SEGMENT, &piece(1)).expect("it is free");
    double.hold_syncs(true);
    std::thread::scope(|scope| {
        let before = double.writes();
        let writer = scope.spawn(|| put(&written, SEGMENT, &piece(2)));
        while double.writes() == before {
            std::thread::yield_now();
        }
        let drop = || written.drop_range(&piece(2).drop_by(SEGMENT, version(9)));
        let (first, second) = (scope.spawn(drop), scope.spawn(drop));
        std::thread::sleep(Duration::from_millis(30));
        assert!(!writer.is_finished() && !first.is_finished() && !second.is_finished());
        double.hold_syncs(false);
        let refused = Err(ErrorCode::InvalidVersion);
        assert_eq!(writer.join().expect("it does not panic"), refused);
        assert_eq!(first.join().expect("it does not panic"), Ok(()));
        assert_eq!(second.join().expect("it does not panic"), Ok(()));
    });
    double.cut();
    assert_eq!(pieces(&host(&double, SegmentId(2)), SEGMENT), [piece(1)]);
}

#[test]
fn a_slow_disk_holds_up_nobody_in_memory() {
    let double = DiskDouble::new(1);
    let host = host(&double, SEGMENT);
    let memory = SegmentId(2);
    host.lend(Segment::new(memory, Region::anonymous(1 << 20).expect("a little memory")));
    double.hold_syncs(true);
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| put(&host, SEGMENT, &piece(1)));
        for number in 1..20 {
            put(&host, memory, &piece(number)).expect("it is free");
            assert_eq!(check(&host, memory, &piece(number)), Ok(()));
        }
        host.see_epoch(Epoch(1));
        assert_eq!(host.ids(), [SEGMENT, memory]);
        assert!(!slow.is_finished());
        double.hold_syncs(false);
        assert_eq!(slow.join().expect("it does not panic"), Ok(()));
    });
}

/// Appends records directly, as a process may leave them that dies at a bad moment.
fn append(double: &DiskDouble, pieces: &[Piece]) {
    let config = DiskConfig { capacity: CAPACITY, file_bytes: CAPACITY / 16, seed: 7 };
    let log = LogStore::open(Arc::new(double.directory()), config, |_| {}).expect("it opens");
    for piece in pieces {
        let data = Buffer::from_vec(piece.bytes(0, piece.len));
        let record = Record {
            name: RecordId { grant: piece.grant, offset: piece.offset },
            version: piece.version,
            key: "key".into(),
            attributes: [1].into(),
            object_len: super::OBJECT_LEN,
            object_offset: piece.object_offset,
            len: piece.len,
            checksums: data.raw().chunk_crcs().into(),
        };
        log.put(&record, &SliceList::from(data.raw())).expect("there is room");
    }
    double.kill();
}

#[test]
fn of_records_that_overlap_the_newest_counts_and_the_others_are_erased() {
    let double = DiskDouble::new(1);
    drop(disk(&double, SEGMENT, CAPACITY));
    double.kill();
    let oldest = Piece::whole(0, version(1), 8192);
    let middle = Piece::whole(4096, version(2), 8192);
    let newest = Piece::whole(8192, version(3), 8192);
    let beside = Piece::whole(65_536, version(4), 100);
    let outside = Piece::whole(CAPACITY, version(5), 100);
    append(&double, &[middle, outside, oldest, newest, beside]);
    for _ in 0..2 {
        let host = host(&double, SegmentId(2));
        assert_eq!(pieces(&host, SEGMENT), [newest, beside]);
        assert_eq!(check(&host, SEGMENT, &newest), Ok(()));
        assert_eq!(host.disks()[0].usage().records, 2);
        double.kill();
    }
}

#[test]
fn a_host_pins_nothing_on_a_disk_and_shares_none() {
    let host = host(&DiskDouble::new(1), SEGMENT);
    put(&host, SEGMENT, &piece(1)).expect("it is free");
    let pinned = host.pin(&piece(1).read(SEGMENT, 0, 1), Arc::new(Nobody));
    assert_eq!(pinned.err(), Some(ErrorCode::NoAvailableHandle));
    assert!(host.share(SEGMENT).is_none());
}
