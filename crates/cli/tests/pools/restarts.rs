//! Nodes with a named segment that are killed or stopped, and then restarted.

use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mooncake_client::{
    Buffer, ErrorCode, PutSource, ReplicateConfig, SliceList, Store, StoreConfig,
};
use mooncake_testing::{Master, PATIENCE, Program};
use rustix::process::{Pid, Signal, kill_process};

use crate::start::{CLIENT, MASTER, config, store};

/// Ends a program with a signal, and waits until it has ended.
fn end(mut program: Program, signal: Signal) {
    program.stop(signal);
}

/// A master, a store that lends no memory, and the file of a node's segment, which is removed on drop.
struct Scene {
    file: PathBuf,
    store: Store,
    master: Master,
}

const SIZE: &str = "--global_segment_size=64MB";

impl Scene {
    fn new(name: &str) -> Scene {
        let file = format!("/dev/shm/mooncake-restarts-{}-{name}", std::process::id());
        let master = Master::start_lasting(MASTER, &[]);
        let store = store(&master.rpc);
        Scene { file: file.into(), store, master }
    }

    /// Kills the master, runs `meanwhile`, and starts another master on the same port.
    fn replace_master(&mut self, meanwhile: impl FnOnce()) {
        self.master.program.kill();
        meanwhile();
        self.master.start_again();
    }

    fn begin_node(&self, more: &[&str]) -> Program {
        self.begin_node_at(0, more)
    }

    fn begin_node_at(&self, port: u16, more: &[&str]) -> Program {
        let port = format!("--port={port}");
        let master = format!("--master_server_address={}", self.master.rpc);
        let file = format!("--segment_path={}", self.file.display());
        let mut args = vec!["--host=127.0.0.1", &port, &master, &file];
        args.extend(more);
        Program::start(CLIENT, &args)
    }

    fn node(&self) -> Program {
        let node = self.begin_node(&[SIZE]);
        node.line("the storage node is ready");
        node
    }

    fn put(&self, key: &str, version: u64) -> Result<(), ErrorCode> {
        let value = Buffer::from_vec(value(key, version));
        let source = PutSource::new(key, SliceList::from(value.raw()));
        self.store.upsert(&[source], &ReplicateConfig::default()).remove(0)
    }

    /// Gets a key, checks its bytes, and returns their version.
    fn get(&self, key: &str) -> Result<u64, ErrorCode> {
        let bytes = self.store.get(&[key]).remove(0)?.into_vec();
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(64)]).into_owned();
        let version = text.split('#').nth(1).expect("a version").parse().expect("a number");
        assert!(bytes == value(key, version), "{key} of version {version} is wrong");
        Ok(version)
    }

    /// Waits until the key can be read, and returns its version.
    fn wait(&self, key: &str) -> u64 {
        let begun = Instant::now();
        loop {
            match self.get(key) {
                Ok(version) => return version,
                Err(error) => assert!(begun.elapsed() < PATIENCE, "{key} never comes: {error}"),
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

/// Bytes generated from the key and the version. Lengths differ, up to a megabyte.
fn value(key: &str, version: u64) -> Vec<u8> {
    let seed = key.bytes().fold(version, |sum, byte| sum * 31 + u64::from(byte));
    let len = 48 + (1_usize << (seed % 21)) + seed as usize % 1000;
    format!("{key}#{version}#").bytes().cycle().take(len).collect()
}

#[test]
fn what_a_node_held_when_it_was_killed_or_stopped_can_be_read_when_it_is_back() {
    let scene = Scene::new("back");
    let mut node = scene.node();
    let keys: Vec<String> = (0..200).map(|number| format!("key-{number}")).collect();
    for key in &keys {
        scene.put(key, 1).expect("there is room");
    }
    for key in &keys[..50] {
        scene.put(key, 2).expect("there is room");
    }
    assert_eq!(scene.store.remove(&[&keys[199]], true), [Ok(())]);
    for (round, signal) in [Signal::KILL, Signal::TERM, Signal::KILL].into_iter().enumerate() {
        // The store caches routes to some of the objects before the node ends.
        keys[..20].iter().for_each(|key| assert_eq!(scene.get(key), Ok(2), "{key}"));
        end(node, signal);
        let begun = Instant::now();
        node = scene.begin_node(&[SIZE]);
        node.line("a named segment is lent again");
        scene.wait(&keys[0]);
        for (number, key) in keys[..199].iter().enumerate() {
            let version = if number < 50 { 2 } else { 1 };
            assert_eq!(scene.get(key), Ok(version), "{key} after {signal:?}");
        }
        println!("all were read {:?} after the start", begun.elapsed());
        assert_eq!(scene.get(&keys[199]), Err(ErrorCode::ObjectNotFound), "it was removed");
        scene.put(&format!("new-{round}"), 7).expect("there is room");
        assert_eq!(scene.get(&format!("new-{round}")), Ok(7));
    }
}

#[test]
fn what_a_node_held_can_be_read_when_it_and_its_master_were_killed() {
    let mut scene = Scene::new("both");
    let node = scene.node();
    let keys: Vec<String> = (0..100).map(|number| format!("key-{number}")).collect();
    for key in &keys {
        scene.put(key, 1).expect("there is room");
    }
    scene.put(&keys[0], 2).expect("there is room");
    assert_eq!(scene.store.remove(&[&keys[99]], true), [Ok(())]);
    scene.replace_master(|| end(node, Signal::KILL));
    let mut node = scene.node();
    for round in 0..2 {
        scene.wait(&keys[1]);
        // A new leader shows an object that replaced another only when no client can still read the old one.
        assert_eq!(scene.wait(&keys[0]), 2, "round {round}");
        keys[1..99].iter().for_each(|key| assert_eq!(scene.get(key), Ok(1), "{key}, {round}"));
        assert_eq!(scene.get(&keys[99]), Err(ErrorCode::ObjectNotFound), "it was removed");
        let fresh = format!("fresh-{round}");
        let begun = Instant::now();
        while let Err(error) = scene.put(&fresh, 7) {
            assert!(begun.elapsed() < PATIENCE, "nothing can be put any more: {error}");
        }
        assert_eq!(scene.get(&fresh), Ok(7));
        // Now the node is killed before the master.
        end(node, Signal::KILL);
        scene.replace_master(|| {});
        node = scene.node();
    }
    scene.wait("fresh-1");
}

/// Run it alone, with as many gigabytes as the machine has: MOONCAKE_TEST_GB=10 cargo nextest run --release
/// -p mooncake-cli --test pools --run-ignored only --no-capture
#[test]
#[ignore = "it takes gigabytes and wants the machine for itself"]
fn ten_gigabytes_can_be_read_within_a_second() {
    let gigabytes: u64 =
        std::env::var("MOONCAKE_TEST_GB").map_or(10, |text| text.parse().expect("a number"));
    let scene = Scene::new("large");
    let size = format!("--global_segment_size={}MB", gigabytes * 1024 + 64);
    let node = scene.begin_node(&[&size]);
    node.line("the storage node is ready");
    let keys: Vec<String> =
        (0..gigabytes << 14).map(|number| format!("block-{number:0>100}")).collect();
    let block = |key: &String| Buffer::from_vec(key.bytes().cycle().take(64 << 10).collect());
    for keys in keys.chunks(256) {
        let blocks: Vec<Buffer> = keys.iter().map(block).collect();
        let named = keys.iter().zip(&blocks);
        let sources: Vec<_> =
            named.map(|(key, block)| PutSource::new(key, SliceList::from(block.raw()))).collect();
        let put = scene.store.put(&sources, &ReplicateConfig::default());
        assert!(put.iter().all(Result::is_ok), "{put:?}");
    }
    end(node, Signal::KILL);
    let begun = Instant::now();
    let node = scene.begin_node(&[&size]);
    let line = node.line("a named segment is lent again");
    while scene.store.exist(&[&keys[0]]) != [Ok(true)] {
        assert!(begun.elapsed() < PATIENCE, "it never comes back");
    }
    let took = begun.elapsed();
    println!("{line}\n{} objects, {gigabytes} GiB: there again after {took:?}", keys.len());
    for keys in keys.chunks(256) {
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        for (key, read) in keys.iter().zip(scene.store.get(&keys)) {
            let read = read.unwrap_or_else(|error| panic!("{key}: {error}")).into_vec();
            assert!(read == block(&(*key).to_owned()).into_vec(), "{key} is wrong");
        }
    }
    println!("all were read after {:?}", begun.elapsed());
    assert!(took.as_millis() <= 1000.max(u128::from(gigabytes) * 100), "{took:?}");
}

/// The node is killed at different moments, while a writer puts without a pause.
#[test]
fn no_kill_loses_what_was_acknowledged_or_tears_a_value() {
    let scene = Scene::new("torn");
    let mut node = scene.node();
    let mut acknowledged = [0; 24];
    let mut version = 0;
    for round in 0..6 {
        let pid = node.id();
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(40 + round * 37));
            let pid = Pid::from_raw(pid.cast_signed()).expect("a process id");
            kill_process(pid, Signal::KILL).expect("the process runs");
        });
        let mut failed = [0; 24];
        let mut put = 0;
        while failed.iter().all(|&version| version == 0) {
            version += 1;
            let number = (version * 7 % 24) as usize;
            match scene.put(&format!("key-{number}"), version) {
                Ok(()) => (acknowledged[number], put) = (version, put + 1),
                Err(_) => failed[number] = version,
            }
        }
        killer.join().expect("it killed the node");
        node.end();
        node = scene.node();
        println!("round {round}: {put} puts");
        // A put may have to wait until older entries are dropped.
        let begun = Instant::now();
        while let Err(error) = scene.put("probe", round) {
            assert!(begun.elapsed() < PATIENCE, "nothing can be put any more: {error}");
        }
        for (number, acknowledged) in acknowledged.iter_mut().enumerate().filter(|(_, of)| **of > 0)
        {
            let found = scene.wait(&format!("key-{number}"));
            // A put that failed may have taken effect; this read decides it.
            let expected = [*acknowledged, failed[number]];
            assert!(expected.contains(&found), "key-{number}: {found} of {expected:?}");
            *acknowledged = found;
        }
    }
}

/// The bytes of each key in the tests below.
fn content(key: &str) -> Vec<u8> {
    let seed = key.bytes().fold(7_usize, |sum, byte| sum * 31 % 20_011 + usize::from(byte));
    format!("{key}#").bytes().cycle().take(16 + seed).collect()
}

fn put_new(store: &Store, key: &str) -> Result<(), ErrorCode> {
    let value = Buffer::from_vec(content(key));
    let source = PutSource::new(key, SliceList::from(value.raw()));
    store.put(&[source], &ReplicateConfig::default()).remove(0)
}

/// Whether the key can be read. Checks its bytes.
fn is_there(store: &Store, key: &str) -> bool {
    match store.get(&[key]).remove(0) {
        Ok(bytes) => {
            assert!(bytes.into_vec() == content(key), "{key} is wrong");
            true
        }
        Err(ErrorCode::ObjectNotFound) => false,
        Err(error) => panic!("{key}: {error}"),
    }
}

/// The node returns at the same port each time. Only its run number tells the master that it is another process.
#[test]
fn many_writers_find_all_that_was_acknowledged_when_a_node_is_back_at_its_port() {
    let scene = Scene::new("writers");
    let port = mooncake_testing::free_port();
    let ready = |scene: &Scene| {
        let node = scene.begin_node_at(port, &[SIZE]);
        node.line("the storage node is ready");
        node
    };
    let mut node = ready(&scene);
    let store = &scene.store;
    let (mut there, mut unknown) = (Vec::new(), Vec::new());
    let acknowledged = AtomicUsize::new(0);
    for round in 0..4_u64 {
        let write = |writer: usize| {
            let mut done = Vec::new();
            let key = |number: usize| format!("key-{round}-{writer}-{number}");
            for number in 0..150 {
                match put_new(store, &key(number)) {
                    Ok(()) => {
                        acknowledged.fetch_add(1, Ordering::Relaxed);
                        done.push(key(number));
                    }
                    Err(_) => return (done, Some(key(number))),
                }
            }
            (done, None)
        };
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..4).map(|it| scope.spawn(move || write(it))).collect();
            // The test is about what was acknowledged, so that something must be.
            let begun = Instant::now();
            while acknowledged.load(Ordering::Relaxed) == 0 && begun.elapsed() < PATIENCE {
                std::thread::yield_now();
            }
            std::thread::sleep(Duration::from_millis(20 + 31 * round));
            node.kill();
            for writer in writers {
                let (done, failed) = writer.join().expect("no writer panics");
                there.extend(done);
                unknown.extend(failed);
            }
        });
        node = ready(&scene);
        println!("round {round}: {} are there, {} may be", there.len(), unknown.len());
        let begun = Instant::now();
        while there.first().is_some_and(|key: &String| store.get(&[key]).remove(0).is_err()) {
            assert!(begun.elapsed() < PATIENCE, "what was acknowledged never comes");
        }
        for key in &there {
            assert!(is_there(store, key), "{key} was acknowledged");
        }
        for key in unknown.drain(..) {
            if !is_there(store, &key) {
                assert_eq!(put_new(store, &key), Ok(()), "{key} is free");
            }
            assert!(is_there(store, &key), "{key} was put again");
            there.push(key);
        }
    }
}

/// The record of a segment of 64 MB has room for 8,176 objects.
#[test]
fn what_a_restarted_node_could_not_remember_is_missed_and_can_be_put_again() {
    let scene = Scene::new("crowded");
    let node = scene.node();
    let keys: Vec<String> = (0..10_000).map(|number| format!("small-{number}")).collect();
    for keys in keys.chunks(500) {
        let values: Vec<Buffer> =
            keys.iter().map(|key| Buffer::from_vec(content(key)[..16].to_vec())).collect();
        let named = keys.iter().zip(&values);
        let sources: Vec<_> =
            named.map(|(key, value)| PutSource::new(key, SliceList::from(value.raw()))).collect();
        let put = scene.store.put(&sources, &ReplicateConfig::default());
        assert!(put.iter().all(Result::is_ok), "{put:?}");
    }
    end(node, Signal::KILL);
    let _node = scene.node();
    let names: Vec<&str> = keys.iter().map(String::as_str).collect();
    let batches = || names.chunks(1_000);
    let begun = Instant::now();
    let (exist, read) = loop {
        let exist: Vec<_> = batches().flat_map(|names| scene.store.exist(names)).collect();
        let exist: Vec<bool> = exist.into_iter().map(|it| it.expect("it is answered")).collect();
        let read: Vec<_> = batches().flat_map(|names| scene.store.get(names)).collect();
        if read.iter().zip(&exist).all(|(read, exist)| read.is_ok() == *exist) {
            break (exist, read);
        }
        assert!(begun.elapsed() < PATIENCE, "what cannot be read is said to be there");
    };
    for (read, key) in read.into_iter().zip(&names).filter(|(read, _)| read.is_ok()) {
        let bytes = read.expect("it was read").into_vec();
        assert!(bytes == content(key)[..16], "{key} is wrong");
    }
    let lost: Vec<&str> =
        names.iter().zip(exist).filter(|(_, exist)| !exist).map(|(name, _)| *name).collect();
    assert!((1_000..=3_000).contains(&lost.len()), "{} of 10,000 were lost", lost.len());
    for key in &lost[..100] {
        assert_eq!(put_new(&scene.store, key), Ok(()), "{key} is free");
        assert!(is_there(&scene.store, key), "{key} was put again");
    }
}

#[test]
fn files_that_cannot_be_used_are_named_with_the_way_out() {
    let scene = Scene::new("refused");
    std::fs::write(&scene.file, "somebody's").expect("it can be written");
    let advice = "; --segment_reset (MOONCAKE_SEGMENT_RESET=1) puts an empty segment in its place";
    let refused = |more: &[&str], reason: &str| {
        let failure = scene.begin_node(more).failure();
        let file = scene.file.display();
        let expected = format!("the segment file {file} cannot be used: {reason}");
        assert!(failure.contains(&expected), "{failure}");
    };
    let foreign = "it holds something that is no segment of Mooncake Store, which nothing here overwrites; remove it, \
                   or name another file";
    refused(&[SIZE], foreign);
    refused(&[SIZE, "--segment_reset"], foreign);
    assert_eq!(std::fs::read(&scene.file).expect("it is there"), b"somebody's");
    std::fs::remove_file(&scene.file).expect("it is there");
    let node = scene.begin_node(&[SIZE, "--segment_reset"]);
    node.line("the storage node is ready");
    scene.put("key", 1).expect("there is room");
    refused(&[SIZE, "--segment_reset"], "another process has been using it for 50");
    end(node, Signal::KILL);
    let found = "it holds a segment of 67108864 bytes, and one of 33554432 is wanted";
    refused(&["--global_segment_size=32MB"], &format!("{found}{advice}"));
    let node = scene.begin_node(&["--global_segment_size=32MB", "--segment_reset"]);
    node.line("the storage node is ready");
    assert!(scene.get("key").is_err(), "its segment was given up");
    assert_eq!(scene.put("other", 2), Ok(()));
    assert_eq!(scene.get("other"), Ok(2));
}

/// Changes one bit of a value in a file, where it is mapped by a node.
fn flip(file: &std::path::Path, value: &[u8]) {
    let held = std::fs::read(file).expect("the segment");
    let at = held.windows(value.len()).position(|window| window == value).expect("it lies there");
    let at = at + value.len() / 2;
    let file = std::fs::File::options().write(true).open(file).expect("our own file");
    file.write_all_at(&[held[at] ^ 16], at as u64).expect("it can be written");
}

#[test]
fn three_flipped_bits_give_no_wrong_bytes_before_and_after_a_restart() {
    let scene = Scene::new("flipped");
    let small = "--global_segment_size=16MB";
    let node = scene.begin_node(&[small, "--verify_reads"]);
    node.line("the storage node is ready");
    let reader = |ways: &str, verify_reads| {
        let transports = ways.parse().expect("ways");
        let config = StoreConfig { transports, verify_reads, ..config(&scene.master.rpc) };
        Store::open(config).expect("the master serves")
    };
    let keys: Vec<String> = (0..8).map(|number| format!("flip-{number}")).collect();
    for key in &keys {
        scene.put(key, 1).expect("there is room");
    }
    let is_right = |store: &Store, key: &String| match store.get(&[key]).remove(0) {
        Ok(bytes) => {
            assert!(bytes.into_vec() == value(key, 1), "{key} is wrong");
            true
        }
        Err(_) => false,
    };
    let checking = [reader("shm", true), reader("tcp", true)];
    for store in &checking {
        assert!(keys.iter().all(|key| is_right(store, key)));
    }
    let flipped = [1, 4, 6];
    flipped.iter().for_each(|&number| flip(&scene.file, &value(&keys[number], 1)));
    for (store, (number, key)) in
        checking.iter().flat_map(|store| keys.iter().enumerate().map(move |key| (store, key)))
    {
        assert_eq!(is_right(store, key), !flipped.contains(&number), "{key}");
    }
    // The next process checks all of them before anybody reads, whatever the readers do.
    end(node, Signal::KILL);
    let _node = scene.begin_node(&[small]);
    let others = [reader("shm", false), reader("tcp", false)];
    for (number, key) in keys.iter().enumerate() {
        if !flipped.contains(&number) {
            assert_eq!(scene.wait(key), 1);
        }
        for store in &others {
            assert_eq!(is_right(store, key), !flipped.contains(&number), "{key}");
        }
    }
}
