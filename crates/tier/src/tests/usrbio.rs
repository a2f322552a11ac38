//! Files on 3FS, with the test double of its library.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mooncake_usrbio::testing::use_library;
use mooncake_usrbio_double::{control, symbol};

use super::folders::Scratch;
use super::{FILES, bytes, get, name, put};
use crate::{FileStore, FilesConfig, Folder, PutError, ReadError, RecordStore, file_of_range};

/// Held by each test, because the double's settings are global to the process.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    use_library(symbol);
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A folder of a mounted (simulated) 3FS.
fn mounted(scratch: &Scratch) -> PathBuf {
    fs::create_dir_all(scratch.path()).expect("it can be made");
    control::mount(scratch.path());
    scratch.path().join("cluster/files-0")
}

fn open(path: &std::path::Path, config: FilesConfig) -> (FileStore, usize) {
    let folder = Folder::open_hashed(path, "a cluster").expect("it is ours");
    let mut told = 0;
    let files = FileStore::open(Arc::new(folder), config, |_| told += 1);
    (files.expect("it opens"), told)
}

#[test]
fn records_on_3fs_go_through_its_rings_and_are_ordinary_files() {
    let _turn = turn();
    let scratch = Scratch::new("usrbio");
    let path = mounted(&scratch);
    let config = FilesConfig { capacity: 64 << 20, longest_record: 16 << 20, ..FILES };
    let (files, _) = open(&path, config);
    let before = (control::calls("write"), control::calls("read"));
    // Lengths that take several requests, and lengths that take one.
    for (number, len) in [(1, 9 << 20), (2, 5_000), (3, 100)] {
        put(&files, name(number), len).expect("there is room");
        assert!(
            get(&files, name(number), 0, len).expect("it is there") == bytes(name(number), len)
        );
    }
    assert!(control::calls("write") >= before.0 + 5, "{:?}", control::calls("write"));
    assert!(control::calls("read") >= before.1 + 5);
    assert_eq!(files.drop_records(&[name(2)]), Ok(1));
    drop(files);
    assert_eq!((control::rings(), control::buffer_bytes(), control::registered()), (0, 0, 0));
    // Without the rings, the same files are read and written by system calls.
    control::fail("hf3fs_iovcreate", 0, libc::ENOMEM);
    let before = control::calls("read");
    let (files, told) = open(&path, config);
    assert_eq!((told, control::calls("read")), (2, before));
    assert!(get(&files, name(1), 0, 9 << 20).expect("it is there") == bytes(name(1), 9 << 20));
    put(&files, name(4), 5_000).expect("there is room");
    drop(files);
    let (files, told) = open(&path, config);
    assert_eq!(told, 3);
    assert!(get(&files, name(4), 0, 5_000).expect("it is there") == bytes(name(4), 5_000));
    assert!(control::calls("read") > before);
}

#[test]
fn errors_of_3fs_are_those_of_any_filesystem() {
    let _turn = turn();
    let scratch = Scratch::new("usrbio-errors");
    let path = mounted(&scratch);
    let (files, _) = open(&path, FILES);
    put(&files, name(1), 5_000).expect("there is room");
    for error in [libc::ENOSPC, libc::EDQUOT] {
        control::fail("write", 0, error);
        assert_eq!(put(&files, name(2), 5_000), Err(PutError::Full));
        assert!(!file_of_range(&path, name(2).offset).exists());
    }
    put(&files, name(2), 5_000).expect("there is room again");
    for call in ["hf3fs_reg_fd", "hf3fs_prep_io", "read"] {
        control::fail(call, 0, libc::EIO);
        assert!(matches!(get(&files, name(1), 0, 5_000), Err(ReadError::Io(_))), "{call}");
        assert!(get(&files, name(1), 0, 5_000).is_ok(), "{call}");
    }
    let file = file_of_range(&path, name(2).offset);
    let whole = fs::read(&file).expect("it is there");
    fs::write(&file, &whole[..whole.len() - 4096]).expect("it can be written");
    assert!(matches!(get(&files, name(2), 0, 5_000), Err(ReadError::Io(_))), "it was cut");
    assert!(!files.is_broken());
    control::fail("write", 0, libc::EIO);
    assert!(matches!(put(&files, name(3), 5_000), Err(PutError::Broken(_))));
    assert!(files.is_broken());
    assert!(get(&files, name(1), 0, 5_000).is_ok(), "what is there is read");
}
