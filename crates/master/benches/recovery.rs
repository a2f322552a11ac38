//! What it takes a new leader to know the pool again: inventories of two segments, decoded from frames and applied.
//!
//! `cargo bench -p mooncake-master --bench recovery [-- OBJECTS]`. Keys have 120 bytes. The time to build the frames is not
//! counted; memory is what the process holds resident, at the end and at most.

#![allow(clippy::disallowed_methods, reason = "a benchmark needs a clock")]

use std::time::{Duration, Instant};

use bytes::Bytes;
use mooncake_meta::{Config, Member, Meta, Record};
use mooncake_types::limits::MAX_INVENTORY_PAGE_ENTRIES;
use mooncake_types::{
    ClientId, Epoch, InventoryEntry, InventoryPage, MountOutcome, MountSegment, Reply, Request,
    SegmentId, Tick, Version,
};
use mooncake_wire::{HEADER_LEN, decode_request, encode_request};

const OBJECTS: usize = 1_000_000;
const OBJECT_BYTES: u64 = 64 << 10;
const NODE: ClientId = ClientId(1);
const SEGMENTS: [SegmentId; 2] = [SegmentId(1), SegmentId(2)];

/// Keys, end to end in one piece of memory that is not counted.
fn key(number: usize) -> String {
    format!("Qwen/Qwen3-32B@pcp0@dcp0@head_or_tp_rank:0@pp_rank:0@{number:067x}")
}

/// A figure of `/proc/self/status`, in MiB.
fn mebibytes(name: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has /proc");
    let line = status.lines().find(|line| line.starts_with(name)).expect("it is one of them");
    let kibibytes = line.split_whitespace().nth(1).expect("it has a value");
    kibibytes.parse::<f64>().expect("a number") / 1024.0
}

/// The body of a page with the objects from `first` on.
fn body(segment: SegmentId, page: u32, first: usize, objects: usize, start: usize) -> Bytes {
    let count = objects.min(MAX_INVENTORY_PAGE_ENTRIES);
    let keys: Vec<String> = (first..first + count).map(key).collect();
    let entry = |(at, key): (usize, &'_ String)| -> (u64, Version, usize) {
        let version = Version { epoch: Epoch(8), counter: at as u64 + 1 };
        ((at - start) as u64 * OBJECT_BYTES, version, key.len())
    };
    let entries = keys.iter().enumerate().map(|(place, key)| {
        let (offset, version, _) = entry((first + place, key));
        InventoryEntry {
            offset,
            len: OBJECT_BYTES,
            key,
            version,
            grant: version,
            object_len: OBJECT_BYTES,
            ..InventoryEntry::default()
        }
    });
    let last = objects == count;
    let page = InventoryPage { segment, page, last, entries: entries.collect() };
    let mut frame = Vec::new();
    encode_request(&mut frame, 1, &Request::ReportInventory(page));
    Bytes::from(frame).slice(HEADER_LEN..)
}

fn main() {
    let objects = std::env::args().find_map(|text| text.parse().ok()).unwrap_or(OBJECTS);
    let members = SEGMENTS.map(|segment| Member { segment, behind: false }).to_vec();
    let record = Record { fresh: false, members };
    let mut meta = Meta::recover(Config::default(), Epoch(9), Tick(0), &record);
    let before = mebibytes("VmRSS");
    let (mut spent, mut longest) = (Duration::ZERO, Duration::ZERO);
    for (number, segment) in SEGMENTS.into_iter().enumerate() {
        let start = number * objects / 2;
        let end = (number + 1) * objects / 2;
        let mount = MountSegment {
            id: segment,
            name: "node:12345",
            endpoint: "node:12345",
            len: (objects as u64 / 2 + 1) * OBJECT_BYTES,
            seen_epoch: Epoch(9),
            is_empty: false,
        };
        let reply = meta.handle(Tick(0), NODE, &Request::MountSegment(mount));
        assert_eq!(reply, Reply::Mounted(MountOutcome::WantsInventory));
        let mut first = start;
        for page in 0.. {
            let body = body(segment, page, first, end - first, start);
            let begun = Instant::now();
            let message = decode_request(body).expect("the frame is whole");
            let request = message.request().expect("the message is sound");
            let reply = meta.handle(Tick(0), NODE, &request);
            drop(request);
            drop(message);
            let took = begun.elapsed();
            (spent, longest) = (spent + took, longest.max(took));
            assert_eq!(reply, Reply::Done(Ok(())));
            first = end.min(first + MAX_INVENTORY_PAGE_ENTRIES);
            if first == end {
                break;
            }
        }
    }
    assert!(meta.serves() && meta.stats().keys == objects);
    let (held, most) = (mebibytes("VmRSS") - before, mebibytes("VmHWM") - before);
    println!(
        "{objects} objects, {:.3} s, longest page {:.2} ms",
        spent.as_secs_f64(),
        longest.as_secs_f64() * 1e3
    );
    println!("{held:.1} MiB held, {most:.1} MiB at most: {:.2} times", most / held);
    println!("{:.0} bytes per object", held * 1024.0 * 1024.0 / objects as f64);
}
