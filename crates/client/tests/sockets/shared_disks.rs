//! Objects that nodes write as files to a shared directory.

use std::fs;
use std::path::{Path, PathBuf};

use mooncake_client::{ErrorCode, ReplicaLocation, Store, file_of_range};
use mooncake_meta::{Config, Meta};
use mooncake_types::{Epoch, Medium, SharedDirectory};

use crate::master::Master;
use crate::rig::{config, content, eventually, get, open, put};

const MIB: u64 = 1 << 20;
const LEN: usize = 1 << 20;

/// A directory, removed on drop.
struct Scratch(PathBuf);

impl Scratch {
    fn new(test: &str) -> Self {
        let name = format!("mooncake-shared-{test}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("it can be made");
        Self(path)
    }

    /// The root of the cluster's files.
    fn root(&self) -> PathBuf {
        self.0.join("cluster")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The directory may not exist.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn master(root: &Path) -> Master {
    let path = root.display().to_string();
    let directory = SharedDirectory { path, most_bytes: 64 * MIB, evicts: true };
    let pool = Config {
        shared_directory: Some(directory),
        lease_ttl_ms: 20,
        // This master does not notice closed connections.
        client_ttl_ms: 1_000,
        ..crate::master::config()
    };
    Master::start_at("127.0.0.1:0", Meta::new(pool, Epoch(7)))
}

/// The media of an object's replicas.
fn media(store: &Store, key: &str) -> Vec<Medium> {
    let located = store.locate(&[key]).remove(0);
    located.map_or(Vec::new(), |it| it.replicas.iter().map(ReplicaLocation::medium).collect())
}

/// The path of an object's file.
fn file(store: &Store, key: &str) -> PathBuf {
    let located = store.locate(&[key]).remove(0).expect("it is there");
    let mut replicas = located.replicas.iter();
    let kept = replicas.find(|it| it.medium() == Medium::SharedDisk).expect("a file holds it");
    let stripe = &kept.stripes[0];
    file_of_range(Path::new(&*stripe.segment.name), stripe.offset)
}

/// Puts each object and waits until its file exists.
fn put_all(store: &Store, keys: &[String]) {
    for key in keys {
        put(store, key, LEN, 1).expect("there is room");
        eventually("a file holds it", || media(store, key).contains(&Medium::SharedDisk));
    }
}

fn keys(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("key {number}")).collect()
}

#[test]
fn objects_are_kept_as_files_and_read_there_once_memory_has_evicted_them() {
    let scratch = Scratch::new("kept");
    let master = master(&scratch.root());
    let node = open(&master, 8 * MIB);
    let keys = keys(24);
    put_all(&node, &keys);
    let reader = open(&master, 0);
    for key in &keys {
        assert_eq!(get(&reader, key), Ok(content(key, LEN)), "{key}");
        assert_eq!(get(&node, key), Ok(content(key, LEN)), "{key}");
    }
    assert_eq!(media(&reader, &keys[0]), [Medium::SharedDisk]);
    let path = file(&reader, &keys[0]);
    assert!(path.starts_with(scratch.root().join("files-0")) && path.exists());
    eventually("its lease ends", || reader.remove(&[&keys[0]], false).remove(0).is_ok());
    assert!(!path.exists(), "its file is gone before the removal returns");
    assert_eq!(get(&reader, &keys[0]).err(), Some(ErrorCode::ObjectNotFound));
}

#[test]
fn the_next_process_takes_over_the_files_of_one_that_ended() {
    let scratch = Scratch::new("next");
    let master = master(&scratch.root());
    let (first, second) = (open(&master, 16 * MIB), open(&master, 16 * MIB));
    let keys = keys(8);
    put_all(&first, &keys);
    assert!(scratch.root().join("files-1").exists(), "each has its own folder");
    drop(first);
    let third = open(&master, 16 * MIB);
    assert!(!scratch.root().join("files-2").exists());
    for key in &keys {
        eventually("it is read again", || get(&second, key) == Ok(content(key, LEN)));
        assert_eq!(get(&third, key), Ok(content(key, LEN)), "{key}");
    }
}

#[test]
fn a_file_that_was_changed_is_a_miss() {
    let scratch = Scratch::new("changed");
    let master = master(&scratch.root());
    let node = open(&master, 4 * MIB);
    let keys = keys(8);
    put_all(&node, &keys);
    eventually("memory evicts it", || media(&node, &keys[0]) == [Medium::SharedDisk]);
    let path = file(&node, &keys[0]);
    let mut bytes = fs::read(&path).expect("it is there");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).expect("it can be written");
    assert_eq!(get(&node, &keys[0]).err(), Some(ErrorCode::ObjectNotFound));
    assert_eq!(get(&node, &keys[7]), Ok(content(&keys[7], LEN)));
}

#[test]
fn a_host_that_lacks_the_directory_goes_on_without() {
    let scratch = Scratch::new("lacks");
    let master = master(&scratch.0.join("not mounted").join("cluster"));
    let store = Store::open(config(&master, 8 * MIB)).expect("it opens");
    put(&store, "a", LEN, 1).expect("there is room");
    assert_eq!(media(&store, "a"), [Medium::Memory]);
    assert!(!scratch.0.join("not mounted").exists());
}
