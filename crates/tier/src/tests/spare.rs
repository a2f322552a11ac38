//! Retired files, which new files take over.

use std::ops::Range;
use std::sync::Arc;

use super::folders::Scratch;
use super::{CONFIG, bytes, get, name, put};
use crate::testing::DiskDouble;
use crate::{LogStore, RecordId, RecordStore};

/// A record with its header takes about a quarter of a file.
const LEN: u64 = 25_000;

fn open(disk: &DiskDouble) -> LogStore {
    LogStore::open(Arc::new(disk.directory()), CONFIG, |_| {}).expect("it opens")
}

/// Puts records of this length, and evicts older ones where there is no room.
fn put_all(log: &LogStore, len: u64, numbers: Range<u64>) {
    for number in numbers {
        while put(log, name(number), len).is_err() {
            assert!(!log.make_room(len).expect("the disk works").is_empty());
        }
    }
}

/// Checks that a log that was opened again holds these records, and no others.
fn check(log: &LogStore, len: u64, kept: &[RecordId]) {
    assert_eq!(log.names().len(), kept.len(), "no record of a retired file is back");
    for &name in kept {
        assert!(get(log, name, 0, len).expect("it is there") == bytes(name, len), "{name:?}");
    }
}

#[test]
fn a_full_log_takes_its_retired_files_over() {
    let disk = DiskDouble::new(1);
    let log = open(&disk);
    put_all(&log, LEN, 0..400);
    assert!(disk.renumbered() > 50, "{}", disk.renumbered());
    let most = (CONFIG.capacity / CONFIG.file_bytes) as usize;
    assert!(disk.numbers().len() <= most, "the spare file counts, too: {:?}", disk.numbers());
    let kept = log.names();
    assert!(kept.len() > 20, "{}", kept.len());
    drop(log);
    disk.cut();
    let log = open(&disk);
    check(&log, LEN, &kept);
    assert_eq!(disk.numbers().len() as u64, log.usage().used_bytes / CONFIG.file_bytes);
}

#[test]
fn a_file_that_somebody_reads_is_not_taken_over() {
    let disk = DiskDouble::new(1);
    let log = open(&disk);
    put_all(&log, LEN, 0..60);
    let read: Vec<_> = log.lock().files.values().map(|file| Arc::clone(&file.file)).collect();
    let before = disk.renumbered();
    let next = log.lock().next_number;
    put_all(&log, LEN, 60..70);
    assert!(log.lock().next_number >= next + 2, "files were retired");
    // The spare of before was read by nobody.
    assert!(disk.renumbered() <= before + 1);
    drop(read);
    put_all(&log, LEN, 70..100);
    assert!(disk.renumbered() > before + 1);
}

#[test]
fn a_real_file_is_taken_over_as_well() {
    let scratch = Scratch::new("spare");
    let len = 240_000;
    let log = scratch.open(|_| {});
    put_all(&log, len, 0..200);
    let kept = log.names();
    drop(log);
    check(&scratch.open(|_| {}), len, &kept);
}
