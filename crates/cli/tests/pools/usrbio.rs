//! A shared directory on 3FS. The node loads a stand-in for the 3FS library.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mooncake_client::{Buffer, PutSource, ReplicaLocation, ReplicateConfig, SliceList, Store};
use mooncake_testing::{Master, Node, PATIENCE, Program};
use mooncake_types::Medium;
use mooncake_usrbio_double::control;

use crate::start::{CLIENT, MASTER, store};

const BYTES: usize = 5 << 20;

/// A folder that is removed on drop.
struct Scratch(PathBuf);

impl Scratch {
    /// A folder that passes for a mounted 3FS, with a subfolder for libraries.
    fn new(test: &str) -> Scratch {
        let name = format!("mooncake-pools-{test}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(path.join("lib")).expect("it can be made");
        fs::create_dir_all(path.join("mnt")).expect("it can be made");
        control::mount(&path.join("mnt"));
        Scratch(path)
    }

    fn mount(&self) -> PathBuf {
        self.0.join("mnt")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The folder may not exist.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The stand-in library, which is built into the folder of the test programs.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("it is known");
    test.with_file_name("libmooncake_usrbio_double.so")
}

/// A node that looks for libraries in this folder.
fn node(master: &Master, libraries: &Path) -> Node {
    let follows = format!("--master_server_address={}", master.rpc);
    let args = ["--host=127.0.0.1", "--port=0", "--global_segment_size=32MB", &follows];
    let libraries = libraries.display().to_string();
    let program = Program::start_with_variables(CLIENT, &args, &[("LD_LIBRARY_PATH", &libraries)]);
    let line = program.line("the storage node is ready");
    let address = Program::field(&line, "address=").trim_matches('"').to_owned();
    Node { program, address }
}

fn media(store: &Store, key: &str) -> Vec<Medium> {
    let located = store.locate(&[key]).remove(0);
    located.map_or(Vec::new(), |it| it.replicas.iter().map(ReplicaLocation::medium).collect())
}

/// Puts each object and waits until its file exists. Looking that up leases the object, so the next put may have to
/// wait for room.
fn put_all(store: &Store, keys: &[String]) {
    for (seed, key) in keys.iter().enumerate() {
        let bytes = Buffer::from_vec(content(seed));
        let deadline = Instant::now() + PATIENCE;
        let put = || {
            let source = PutSource::new(key, SliceList::from(bytes.raw()));
            store.put(&[source], &ReplicateConfig::default()).remove(0)
        };
        while let Err(error) = put() {
            assert!(Instant::now() < deadline, "{key}: {error:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
        while !media(store, key).contains(&Medium::SharedDisk) {
            assert!(Instant::now() < deadline, "no file holds {key}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn content(seed: usize) -> Vec<u8> {
    (0..BYTES).map(|at| (at / 3 + seed * 101) as u8).collect()
}

fn check_all(store: &Store, keys: &[String]) {
    for (seed, key) in keys.iter().enumerate() {
        let read = store.get(&[key.as_str()]).remove(0).expect("it is there");
        assert!(read.into_vec() == content(seed), "{key}");
    }
}

#[test]
fn a_node_keeps_its_files_on_3fs_by_the_library_that_it_finds_or_without_it() {
    let scratch = Scratch::new("usrbio");
    let libraries = scratch.0.join("lib");
    let root = format!("--root_fs_dir={}", scratch.mount().display());
    let master = Master::start(MASTER, &[&root, "--default_kv_lease_ttl=100"]);
    let links =
        || fs::read_dir(scratch.mount().join("3fs-virt/iovs")).expect("it is there").count();
    let keys: Vec<String> = (0..12).map(|number| format!("key {number}")).collect();

    symlink(library(), libraries.join("libhf3fs_api_shared.so")).expect("it can be made");
    let mut first = node(&master, &libraries);
    first.program.first_line("files on 3FS are read and written by USRBIO");
    assert!(links() > 0, "its buffer and rings are there");
    let reader = store(&master.rpc);
    // The objects exceed the node's memory, so the first ones remain only on 3FS.
    put_all(&reader, &keys);
    check_all(&reader, &keys);
    assert_eq!(media(&reader, &keys[0]), [Medium::SharedDisk]);
    first.program.stop(rustix::process::Signal::TERM);
    assert_eq!(links(), 0, "a node that ends leaves no buffer behind");

    // Another node uses the same files without the library.
    fs::remove_file(libraries.join("libhf3fs_api_shared.so")).expect("it is there");
    let second = node(&master, &libraries);
    let line = second.program.first_line("files on 3FS are read and written without USRBIO");
    assert!(line.contains("libhf3fs_api_shared.so"), "{line}");
    let deadline = Instant::now() + PATIENCE;
    while media(&reader, &keys[0]).is_empty() {
        assert!(Instant::now() < deadline, "they are not there again");
        std::thread::sleep(Duration::from_millis(5));
    }
    check_all(&store(&master.rpc), &keys[..3]);
}
