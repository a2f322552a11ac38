//! Retired files, which new files take over.

use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use super::folders::Scratch;
use super::{CONFIG, bytes, get, name, put};
use crate::testing::DiskDouble;
use crate::{Directory, LogStore, RecordId, RecordStore};

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
fn a_file_that_a_thread_reads_is_not_taken_over() {
    let disk = DiskDouble::new(1);
    let log = open(&disk);
    put_all(&log, LEN, 0..60);
    let read: Vec<_> = log.lock().files.values().map(|file| Arc::clone(&file.file)).collect();
    let before = disk.renumbered();
    let next = log.lock().next_number;
    put_all(&log, LEN, 60..70);
    assert!(log.lock().next_number >= next + 2, "files were retired");
    // No thread read the file that was spare before.
    assert!(disk.renumbered() <= before + 1);
    drop(read);
    put_all(&log, LEN, 70..100);
    assert!(disk.renumbered() > before + 1);
}

#[test]
fn a_spare_file_that_another_program_removes_is_no_fault_of_the_disk() {
    for is_read in [false, true] {
        let disk = DiskDouble::new(1);
        let log = open(&disk);
        put_all(&log, LEN, 0..60);
        while log.lock().spare.is_none() {
            log.make_room(CONFIG.capacity / 2).expect("the disk works");
        }
        let spare = log.lock().spare.clone().expect("it was waited for");
        disk.directory().remove(spare.head.number).expect("it is there");
        let _read = is_read.then_some(spare);
        put_all(&log, LEN, 60..100);
        assert!(!log.is_broken());
    }
}

#[test]
fn a_real_file_is_taken_over_as_well() {
    let scratch = Scratch::new("spare");
    let len = 240_000;
    let log = scratch.open(|_| {});
    put_all(&log, len, 0..40);
    let paths = fs::read_dir(scratch.path()).expect("a folder").map(|entry| entry.unwrap().path());
    let logs = paths.filter(|path| path.extension().is_some_and(|suffix| suffix == "log"));
    let early: Vec<File> = logs.map(|path| File::open(path).expect("a file")).collect();
    put_all(&log, len, 40..200);
    let has_name = |file: &File| file.metadata().expect("it is open").nlink() == 1;
    assert!(early.len() > 5 && early.iter().any(has_name), "one has the name of a newer file");
    let kept = log.names();
    drop(log);
    check(&scratch.open(|_| {}), len, &kept);
}
