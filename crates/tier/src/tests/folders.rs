//! Real folders and many threads.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fs, thread};

use super::{Dice, bytes, get, name, put};
use crate::{Directory, DiskConfig, Folder, LogStore, Notes, OpenError, PutError, RecordStore};

const CONFIG: DiskConfig = DiskConfig { capacity: 16 << 20, file_bytes: 1 << 20, seed: 1 };

/// A folder that is removed when this is dropped.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new(test: &str) -> Scratch {
        let path =
            std::env::temp_dir().join(format!("mooncake-tier-{test}-{}", std::process::id()));
        Scratch(path)
    }

    /// A folder that another process removes.
    pub(super) fn at(path: PathBuf) -> std::mem::ManuallyDrop<Scratch> {
        std::mem::ManuallyDrop::new(Scratch(path))
    }

    pub(super) fn path(&self) -> &std::path::Path {
        &self.0
    }

    pub(super) fn open(&self, told: impl FnMut(crate::Record)) -> LogStore {
        let folder = Folder::open(&self.0, "a cluster").expect("it is ours");
        LogStore::open(Arc::new(folder), CONFIG, told).expect("it opens")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The folder may not exist.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn many_threads_put_read_drop_and_evict_and_a_start_finds_what_is_left() {
    let scratch = Scratch::new("threads");
    let disk = scratch.open(|_| {});
    let next = AtomicU64::new(1);
    let len = |number: u64| 1 + number * 7_919 % 60_000;
    thread::scope(|scope| {
        for seed in 1..=4 {
            let (disk, next) = (&disk, &next);
            scope.spawn(move || {
                let mut dice = Dice(seed);
                for _ in 0..200 {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    match put(disk, name(number), len(number)) {
                        Ok(()) => {}
                        Err(PutError::Full) => {
                            disk.make_room(60_000).expect("the disk works");
                        }
                        Err(error) => panic!("{error}"),
                    }
                    let other = 1 + dice.below(number);
                    if let Ok(read) = get(disk, name(other), 0, len(other)) {
                        assert!(read == bytes(name(other), len(other)), "{other}");
                    }
                    if dice.happens(4) {
                        disk.drop_records(&[name(other)]).expect("the disk works");
                        assert!(!disk.contains(name(other)));
                    }
                }
            });
        }
    });
    let mut names = disk.names();
    names.sort_unstable();
    assert!(names.len() > 50, "{}", names.len());
    drop(disk);
    let mut told = Vec::new();
    let disk = scratch.open(|record| {
        assert_eq!(&*record.key, format!("key {}", record.name.grant.counter));
        told.push(record.name);
    });
    told.sort_unstable();
    assert_eq!(told, names);
    for name in names {
        let len = len(name.grant.counter);
        assert!(get(&disk, name, 0, len).expect("it is there") == bytes(name, len));
    }
}

#[test]
fn a_folder_is_one_process_s_and_one_cluster_s() {
    let scratch = Scratch::new("owners");
    let first = Folder::open(&scratch.0, "a").expect("it is made");
    assert!(matches!(Folder::open(&scratch.0, "a"), Err(OpenError::InUse(_))));
    drop(first);
    let refused = Folder::open(&scratch.0, "b\nb").expect_err("it is a's").to_string();
    assert!(refused.ends_with("belongs to the cluster 'a', and this one is 'b\\nb'"), "{refused}");
    fs::write(scratch.0.join("mooncake-disk"), "format 9\ncluster a\n").expect("it is written");
    let refused = Folder::open(&scratch.0, "a").expect_err("it is newer").to_string();
    assert!(refused.ends_with("has the format '9'; this version reads format 2"), "{refused}");
    fs::write(scratch.0.join("mooncake-disk"), [0xff; 9]).expect("it is written");
    assert!(Folder::open(&scratch.0, "a").is_err(), "damaged");
}

#[test]
fn a_folder_with_other_things_in_it_is_refused_and_left_alone() {
    let scratch = Scratch::new("foreign");
    fs::create_dir_all(&scratch.0).expect("a folder");
    fs::write(scratch.0.join("diary.txt"), "dear").expect("a file");
    let refused = Folder::open(&scratch.0, "a").expect_err("it is somebody's").to_string();
    assert!(refused.ends_with("is neither empty nor a disk of this store"), "{refused}");
    assert_eq!(fs::read_dir(&scratch.0).expect("a folder").count(), 1);
    let file = scratch.0.join("diary.txt");
    assert!(matches!(Folder::open(&file, "a"), Err(OpenError::Folder { .. })), "a file");
}

#[test]
fn files_that_only_look_like_ours_stay() {
    let scratch = Scratch::new("alike");
    put(&scratch.open(|_| {}), name(1), 100).expect("there is room");
    let alike = ["1.log", "000000000000000G.log", "00000000000000001.log", "notes"];
    for file in alike {
        fs::write(scratch.0.join(file), "x").expect("a file");
    }
    let mut told = 0;
    scratch.open(|_| told += 1);
    assert_eq!(told, 1);
    assert!(alike.into_iter().all(|file| scratch.0.join(file).exists()));
}

#[test]
fn a_file_that_is_removed_under_a_disk_costs_no_more_than_its_records() {
    let scratch = Scratch::new("removed");
    let disk = scratch.open(|_| {});
    put(&disk, name(1), 100).expect("there is room");
    fs::remove_file(scratch.0.join("0000000000000001.log")).expect("it is there");
    assert_eq!(get(&disk, name(1), 0, 100).expect("it is still open"), bytes(name(1), 100));
    put(&disk, name(2), 100).expect("nobody can tell");
    drop(disk);
    let mut told = 0;
    scratch.open(|_| told += 1);
    assert_eq!(told, 0);
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    let scratch = Scratch::new("sizes");
    for (config, reason) in [
        (DiskConfig { file_bytes: 1_000_000, ..CONFIG }, "is no multiple of 4096"),
        (DiskConfig { file_bytes: 2 << 30, ..CONFIG }, "is no multiple of 4096 up to 1073741824"),
        (DiskConfig { file_bytes: 4096, ..CONFIG }, "holds no record"),
        (DiskConfig { capacity: 3 << 20, ..CONFIG }, "are less than 4 files"),
    ] {
        let folder = Folder::open(&scratch.0, "a cluster").expect("it is ours");
        let refused = LogStore::open(Arc::new(folder), config, |_| {}).err().expect("it cannot be");
        assert!(refused.to_string().contains(reason), "{refused}");
    }
}

#[test]
fn a_note_is_one_or_the_other_and_never_a_part() {
    let scratch = Scratch::new("notes");
    let folder = Folder::open(&scratch.0, "a").expect("it is made");
    assert_eq!(folder.note().expect("it is read"), None);
    for note in ["first", "the second is longer", "3"] {
        // The rest of a process that died while it wrote the next note.
        fs::write(scratch.0.join("mooncake-disk-note.next"), "half").expect("a file");
        folder.set_note(note.as_bytes()).expect("it is written");
        assert_eq!(folder.note().expect("it is read").as_deref(), Some(note.as_bytes()));
    }
    assert_eq!(folder.list().expect("it is read"), [] as [u64; 0]);
}
