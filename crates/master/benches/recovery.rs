//! The time and memory that a new leader needs to learn the pool from the inventories of two segments.
//!
//! `cargo bench -p mooncake-master --bench recovery [-- OBJECTS] [warm]`. Keys have 120 bytes. Building the frames is
//! not timed. Memory is the resident set of the process, at the end and at its peak. With `warm`, the master has
//! followed the segments as a standby, which is not timed either, and the nodes report no changes.

#![allow(clippy::disallowed_methods, reason = "a benchmark needs a clock")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mooncake_meta::{Config, Member, Meta, RecordedMembers, Shadow};
use mooncake_types::limits::MAX_INVENTORY_PAGE_ENTRIES;
use mooncake_types::{
    ChangesPage, ClientId, Epoch, FollowPage, InventoryEntry, InventoryPage, MountOutcome,
    MountSegment, Reply, Request, SegmentId, Tick, Version,
};
use mooncake_wire::{HEADER_LEN, decode_request, encode_request};

const OBJECTS: usize = 1_000_000;
const OBJECT_BYTES: u64 = 64 << 10;
const NODE: ClientId = ClientId(1);
const SEGMENTS: [SegmentId; 2] = [SegmentId(1), SegmentId(2)];

/// A key of 120 bytes.
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

/// The objects of one segment, as a range of numbers.
#[derive(Clone, Copy)]
struct Share {
    segment: SegmentId,
    start: usize,
    end: usize,
}

impl Share {
    fn len_bytes(self) -> u64 {
        ((self.end - self.start) as u64 + 1) * OBJECT_BYTES
    }

    /// The keys of the page that begins with this object, and whether it is the last page.
    fn keys(self, first: usize) -> (Vec<String>, bool) {
        let end = self.end.min(first + MAX_INVENTORY_PAGE_ENTRIES);
        ((first..end).map(key).collect(), end == self.end)
    }

    fn entries(self, first: usize, keys: &[String]) -> Vec<InventoryEntry<'_>> {
        let entries = keys.iter().zip(first..).map(|(key, at)| {
            let version = Version { epoch: Epoch(8), counter: at as u64 + 1 };
            InventoryEntry {
                offset: (at - self.start) as u64 * OBJECT_BYTES,
                len: OBJECT_BYTES,
                key,
                version,
                grant: version,
                object_len: OBJECT_BYTES,
                ..InventoryEntry::default()
            }
        });
        entries.collect()
    }

    fn mount(self) -> Request<'static> {
        Request::MountSegment(MountSegment {
            id: self.segment,
            name: "node:12345",
            endpoint: "node:12345",
            len: self.len_bytes(),
            seen_epoch: Epoch(9),
            is_empty: false,
            run: 1,
            medium: mooncake_types::Medium::Memory,
            domains: &[],
            seal_key: None,
        })
    }

    /// The shadow of a standby that has followed the segment.
    fn shadow(self) -> Shadow {
        let mut shadow = Shadow::new(self.len_bytes());
        let mut first = self.start;
        loop {
            let (keys, last) = self.keys(first);
            let entries = self.entries(first, &keys);
            first += keys.len();
            let next = (!last).then(|| (first - self.start) as u64 * OBJECT_BYTES);
            let page = FollowPage { entries, next, ..FollowPage::default() };
            shadow.take(&page).expect("the page is sound");
            if last {
                return shadow;
            }
        }
    }
}

/// The time that all calls took, and the longest of them.
#[derive(Default)]
struct Spent {
    all: Duration,
    longest: Duration,
}

impl Spent {
    fn on<T>(&mut self, act: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let done = act();
        let took = begun.elapsed();
        (self.all, self.longest) = (self.all + took, self.longest.max(took));
        done
    }
}

/// Reports every page of every segment's inventory.
fn tell_all(meta: &mut Meta, shares: &[Share], spent: &mut Spent) {
    for share in shares {
        let reply = meta.handle(Tick(0), NODE, &share.mount());
        assert_eq!(reply, Reply::Mounted(MountOutcome::WantsInventory));
        let mut first = share.start;
        for page in 0.. {
            let (keys, last) = share.keys(first);
            let entries = share.entries(first, &keys);
            let inventory = InventoryPage { segment: share.segment, run: 1, page, last, entries };
            let mut frame = Vec::new();
            encode_request(&mut frame, 1, &Request::ReportInventory(inventory));
            let body = Bytes::from(frame).slice(HEADER_LEN..);
            let reply = spent.on(|| {
                let message = decode_request(body).expect("the frame is whole");
                let request = message.request().expect("the message is sound");
                meta.handle(Tick(0), NODE, &request)
            });
            assert_eq!(reply, Reply::Done(Ok(())));
            first += keys.len();
            if last {
                break;
            }
        }
    }
}

/// Reports for every segment that nothing has changed.
fn tell_nothing(meta: &mut Meta, shares: &[Share], spent: &mut Spent) {
    for share in shares {
        let reply = meta.handle(Tick(0), NODE, &share.mount());
        assert_eq!(reply, Reply::Mounted(MountOutcome::WantsChanges { since: 0 }));
        let page = ChangesPage { segment: share.segment, last: true, ..ChangesPage::default() };
        let reply = spent.on(|| meta.handle(Tick(0), NODE, &Request::ReportChanges(page)));
        assert_eq!(reply, Reply::Done(Ok(())));
    }
    while !meta.serves() {
        spent.on(|| meta.handle_timeout(Tick(0)));
    }
}

fn main() {
    let objects = std::env::args().find_map(|text| text.parse().ok()).unwrap_or(OBJECTS);
    let is_warm = std::env::args().any(|text| text == "warm");
    let share = |(number, segment)| Share {
        segment,
        start: number * objects / 2,
        end: (number + 1) * objects / 2,
    };
    let shares: Vec<Share> = SEGMENTS.into_iter().enumerate().map(share).collect();
    let members = SEGMENTS.map(|segment| Member { segment, behind: None, is_disk: false }).to_vec();
    let record = RecordedMembers { fresh: false, members, ..RecordedMembers::default() };
    let before = mebibytes("VmRSS");
    let mut spent = Spent::default();
    let mut meta = Meta::recover(Config::default(), Epoch(9), Tick(0), &record);
    if is_warm {
        let shadows = shares.iter().map(|share| (share.segment, share.shadow()));
        let shadows: BTreeMap<SegmentId, Shadow> = shadows.collect();
        println!("{:.1} MiB held by the standby", mebibytes("VmRSS") - before);
        spent.on(|| meta.remember(shadows));
        tell_nothing(&mut meta, &shares, &mut spent);
    } else {
        tell_all(&mut meta, &shares, &mut spent);
    }
    assert!(meta.serves() && meta.stats().keys == objects);
    let (held, most) = (mebibytes("VmRSS") - before, mebibytes("VmHWM") - before);
    println!(
        "{objects} objects, {:.3} s, longest page {:.2} ms",
        spent.all.as_secs_f64(),
        spent.longest.as_secs_f64() * 1e3
    );
    println!("{held:.1} MiB held, {most:.1} MiB at most: {:.2} times", most / held);
    println!("{:.0} bytes per object", held * 1024.0 * 1024.0 / objects as f64);
}
