//! How fast records are written to a disk and read back, how long a start takes, and how much memory a record needs.
//!
//! `cargo bench -p mooncake-tier --bench disk -- FOLDER [GIB] [MILLION_RECORDS]` writes GIB of records (default 4) to
//! its own folder under FOLDER, and MILLION_RECORDS million small records (default 1, none if 0). It compares every
//! byte. To compare with fio on the same disk, run this command, and again with `--rw=randread`:
//! `fio --name=x --directory=FOLDER --direct=1 --bs=1M --size=1G --numjobs=4 --group_reporting --rw=write --end_fsync=1`.

#![allow(clippy::disallowed_methods, reason = "a benchmark needs a clock")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

use mooncake_memory::{Region, SliceList};
use mooncake_tier::{DiskConfig, Folder, LogStore, Record, RecordId, RecordStore};
use mooncake_types::{Epoch, Version};

const FILE_BYTES: u64 = 256 << 20;

fn name(number: u64) -> RecordId {
    RecordId { grant: Version { epoch: Epoch(1), counter: number + 1 }, offset: 0 }
}

fn open(path: &Path, capacity: u64) -> (LogStore, u64) {
    let folder = Folder::open(path, "bench").expect("the folder is ours");
    let config = DiskConfig { capacity, file_bytes: FILE_BYTES, seed: 1 };
    let mut told = 0;
    let disk = LogStore::open(Arc::new(folder), config, |_| told += 1).expect("it opens");
    (disk, told)
}

/// Runs `act` for `count` items on several threads. Returns the total time and the time of each item.
fn work(
    threads: usize,
    count: u64,
    act: impl Fn(u64, &Region) + Sync,
    bytes: u64,
) -> (Duration, Vec<Duration>) {
    let next = AtomicU64::new(0);
    let begun = Instant::now();
    let mut times: Vec<Duration> = thread::scope(|scope| {
        let work = || {
            let memory = Region::anonymous(bytes).expect("there is memory");
            let mut times = Vec::new();
            loop {
                let item = next.fetch_add(1, Ordering::Relaxed);
                if item >= count {
                    return times;
                }
                let begun = Instant::now();
                act(item, &memory);
                times.push(begun.elapsed());
            }
        };
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|it| it.join().expect("no thread panics")).collect()
    });
    let took = begun.elapsed();
    times.sort_unstable();
    (took, times)
}

fn report(what: &str, (took, times): (Duration, Vec<Duration>), bytes: u64) {
    let rate = (times.len() as u64 * bytes) as f64 / took.as_secs_f64() / 1e6;
    let at = |share: usize| times[(times.len() - 1) * share / 100].as_micros();
    println!("| {what} | {rate:.0} MB/s | {} us | {} us |", at(50), at(99));
}

fn measure(path: &Path, bytes: u64, total: u64) {
    let count = total / bytes;
    let (disk, _) = open(path, 2 * total + 8 * FILE_BYTES);
    let put = |item: u64, memory: &Region| {
        let data = memory.whole();
        data.sub(0, 8).write_from(&item.to_le_bytes());
        let record = Record {
            name: name(item),
            version: name(item).grant,
            key: format!("{item:064x}").into(),
            attributes: [].into(),
            object_len: bytes,
            object_offset: 0,
            len: bytes,
            checksums: data.chunk_crcs().into(),
        };
        disk.put(&record, &SliceList::from(data)).expect("there is room");
    };
    let get = |item: u64, memory: &Region| {
        disk.read(name(item), 0, memory.whole()).expect("it is there");
        assert_eq!(memory.whole().sub(0, 8).to_vec(), item.to_le_bytes());
    };
    let kib = bytes >> 10;
    for threads in [4, 16] {
        let half = count / 2;
        let from = if threads == 4 { 0 } else { half };
        report(
            &format!("put {kib} KiB, {threads} threads, each waits for its sync"),
            work(threads, half, |item, memory| put(from + item, memory), bytes),
            bytes,
        );
    }
    for threads in [1, 4, 16] {
        let random =
            |item: u64, memory: &Region| get(item.wrapping_mul(2_654_435_761) % count, memory);
        report(
            &format!("get {kib} KiB at random, {threads} threads"),
            work(threads, count / 2, random, bytes),
            bytes,
        );
    }
    let names: Vec<RecordId> = (0..count).map(name).collect();
    let begun = Instant::now();
    assert_eq!(disk.drop_records(&names), Ok(count as usize));
    println!("| {count} records dropped | {:.3} s | | |", begun.elapsed().as_secs_f64());
}

fn measure_starts(path: &Path, count: u64) {
    let capacity = count * 3 * 4096 + 8 * FILE_BYTES;
    let (disk, _) = open(path, capacity);
    let before = resident();
    let put = |item: u64, memory: &Region| {
        let data = memory.whole();
        let record = Record {
            name: name(item),
            version: name(item).grant,
            key: format!("{item:0120x}").into(),
            attributes: [].into(),
            object_len: 64,
            object_offset: 0,
            len: 64,
            checksums: data.chunk_crcs().into(),
        };
        disk.put(&record, &SliceList::from(data)).expect("there is room");
    };
    let (took, _) = work(32, count, put, 64);
    println!("| {count} records of 64 B put | {:.1} s | | |", took.as_secs_f64());
    println!("| memory for a record | {} B | | |", (resident() - before) / count);
    drop(disk);
    let begun = Instant::now();
    let (_, told) = open(path, capacity);
    assert_eq!(told, count);
    println!("| {count} records found at a start | {:.2} s | | |", begun.elapsed().as_secs_f64());
}

/// The resident memory of this process in bytes.
fn resident() -> u64 {
    let text = fs::read_to_string("/proc/self/statm").expect("the system says it");
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.expect("a number of pages") * 4096
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let number = |at: usize, default: u64| {
        arguments.get(at).map_or(default, |text| text.parse().expect("a number"))
    };
    let Some(folder) = arguments.first() else {
        println!("cargo bench -p mooncake-tier --bench disk -- FOLDER [GIB] [MILLION_RECORDS]");
        return;
    };
    let path = PathBuf::from(folder).join("mooncake-tier-bench");
    println!("| work | rate or time | p50 | p99 |\n|---|---|---|---|");
    for bytes in [1 << 20, 64 << 10] {
        measure(&path, bytes, number(1, 4) << 30);
        fs::remove_dir_all(&path).expect("it is ours");
    }
    let records = number(2, 1) * 1_000_000;
    if records > 0 {
        measure_starts(&path, records);
        fs::remove_dir_all(&path).expect("it is ours");
    }
}
