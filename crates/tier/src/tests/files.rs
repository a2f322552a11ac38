//! Tests specific to [`FileStore`]: other programs see the files, fill their filesystem, and leave files of their own
//! there.

use std::fs;
use std::sync::Arc;

use super::folders::Scratch;
use super::{FILES, Kind, bytes, get, name, put};
use crate::layout::BLOCK;
use crate::testing::DiskDouble;
use crate::{FileStore, FilesConfig, Folder, PutError, ReadError, RecordStore, file_of_range};

fn open(scratch: &Scratch, config: FilesConfig) -> (FileStore, Vec<u64>) {
    let folder = Folder::open_hashed(scratch.path(), "a cluster").expect("it is ours");
    let mut told = Vec::new();
    let files = FileStore::open(Arc::new(folder), config, |it| told.push(it.name.grant.counter));
    told.sort_unstable();
    (files.expect("it opens"), told)
}

#[test]
fn each_record_is_a_file_whose_place_follows_from_its_range() {
    let scratch = Scratch::new("one-file-each");
    let (files, _) = open(&scratch, FILES);
    put(&files, name(1), 5_000).expect("there is room");
    put(&files, name(2), 100).expect("there is room");
    let file = |number| file_of_range(scratch.path(), name(number).offset);
    assert_eq!(fs::metadata(file(1)).expect("it is there").len(), 3 * BLOCK);
    assert_eq!((files.usage().records, files.usage().used_bytes), (2, 5 * BLOCK));
    assert_eq!(files.drop_records(&[name(1), name(1), name(3)]), Ok(1));
    assert!(!file(1).exists() && file(2).exists());
    drop(files);
    let (files, told) = open(&scratch, FILES);
    assert_eq!(told, [2]);
    assert_eq!(get(&files, name(2), 0, 100).expect("it is there"), bytes(name(2), 100));
    assert_eq!(files.usage().used_bytes, 2 * BLOCK);
}

#[test]
fn stale_and_foreign_files_are_never_told_and_go() {
    let scratch = Scratch::new("stale-files");
    let (files, _) = open(&scratch, FILES);
    (1..=4).for_each(|number| put(&files, name(number), 5_000).expect("there is room"));
    drop(files);
    let file = |number| file_of_range(scratch.path(), name(number).offset);
    let copy = |from, to| fs::copy(file(from), file(to)).expect("it can be written");
    copy(1, 5);
    fs::write(file(6), b"no record").expect("it can be written");
    fs::write(file(7), [0; 2 * BLOCK as usize]).expect("it can be written");
    fs::write(file(8).with_extension("new"), b"a draft").expect("it can be written");
    let beside = file(8).with_extension("txt");
    fs::write(&beside, b"somebody else's").expect("it can be written");
    let (files, told) = open(&scratch, FILES);
    assert_eq!(told, [1, 2, 3, 4]);
    assert!((5..=7).all(|number| !file(number).exists()));
    assert!(!file(8).with_extension("new").exists() && beside.exists());
    drop(files);
    // The nonce of another segment: all files are from an earlier one.
    assert_eq!(open(&scratch, FilesConfig { nonce: 78, ..FILES }).1, [] as [u64; 0]);
    assert!(!file(1).exists());
}

#[test]
fn a_file_that_was_changed_cut_or_removed_is_an_error_of_its_record_alone() {
    let scratch = Scratch::new("changed-files");
    let (files, _) = open(&scratch, FILES);
    (1..=4).for_each(|number| put(&files, name(number), 5_000).expect("there is room"));
    let file = |number| file_of_range(scratch.path(), name(number).offset);
    let mut content = fs::read(file(1)).expect("it is there");
    content[BLOCK as usize + 4_999] ^= 1;
    fs::write(file(1), content).expect("it can be written");
    fs::write(file(2), b"short").expect("it can be written");
    fs::remove_file(file(3)).expect("it is there");
    assert!(matches!(get(&files, name(1), 0, 5_000), Err(ReadError::Damaged)));
    assert!(matches!(get(&files, name(2), 0, 5_000), Err(ReadError::Io(_))));
    assert!(matches!(get(&files, name(3), 0, 5_000), Err(ReadError::Io(_))));
    assert!(get(&files, name(4), 0, 5_000).is_ok());
    assert_eq!(files.drop_records(&[name(1), name(2), name(3)]), Ok(3));
    assert!(!files.is_broken());
}

#[test]
fn where_others_fill_the_filesystem_the_oldest_go() {
    let power = DiskDouble::new(1);
    let files = Kind::Files.open(&power, |_| {}).expect("it opens");
    (1..=4).for_each(|number| put(&*files, name(number), 5_000).expect("there is room"));
    get(&*files, name(1), 0, 5_000).expect("it is used");
    power.fill(true);
    assert_eq!(put(&*files, name(5), 5_000), Err(PutError::Full));
    assert_eq!(files.make_room(5_000), Ok(vec![name(2), name(3)]));
    assert_eq!(files.usage().records, 2);
    power.fill(false);
    put(&*files, name(5), 5_000).expect("there is room now");
    assert!(!files.is_broken());
}

#[test]
fn a_file_that_cannot_be_read_costs_its_record_and_not_the_store() {
    let power = DiskDouble::new(1);
    let files = Kind::Files.open(&power, |_| {}).expect("it opens");
    (1..=8).for_each(|number| put(&*files, name(number), 5_000).expect("there is room"));
    power.cut();
    power.break_sector(name(3).offset, 100);
    let mut told = Vec::new();
    let opened = Kind::Files.open(&power, |record| told.push(record.name.grant.counter));
    assert_eq!(opened.expect("it opens").unreadable(), 1);
    told.sort_unstable();
    assert_eq!(told, [1, 2, 4, 5, 6, 7, 8]);
    power.cut();
    power.refuse_reads(true);
    assert!(Kind::Files.open(&power, |_| {}).is_err(), "it is the disk, not a sector");
    power.kill();
    power.mend_sectors();
    assert_eq!(Kind::Files.open(&power, |_| {}).expect("it opens").usage().records, 7);
}

#[test]
fn a_store_that_must_not_evict_is_full_and_stays_so() {
    let directory = Arc::new(DiskDouble::new(1).directory());
    let files = FileStore::open(directory, FilesConfig { evicts: false, ..FILES }, |_| {});
    let files = files.expect("it opens");
    let puts = (1..).take_while(|&number| put(&files, name(number), 30_000).is_ok()).count();
    assert_eq!(puts as u64, FILES.capacity / (9 * BLOCK));
    assert_eq!(files.make_room(30_000), Ok(vec![]));
    assert_eq!(put(&files, name(1_000), 30_000), Err(PutError::Full));
    assert_eq!(files.usage().records, puts);
}

/// A range is written again before its old record is dropped.
#[test]
fn a_record_takes_the_place_of_an_older_one() {
    let power = DiskDouble::new(1);
    let files = Kind::Files.open(&power, |_| {}).expect("it opens");
    let (older, newer) = (name(1), crate::RecordId { grant: name(2).grant, ..name(1) });
    put(&*files, older, 5_000).expect("there is room");
    put(&*files, newer, 100).expect("there is room");
    assert!(matches!(get(&*files, older, 0, 5_000), Err(ReadError::NotThere)));
    assert_eq!(get(&*files, newer, 0, 100).expect("it is there"), bytes(newer, 100));
    assert_eq!(files.drop_records(&[older]), Ok(0));
    assert_eq!(files.usage().records, 1);
}
