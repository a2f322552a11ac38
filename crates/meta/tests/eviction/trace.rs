//! Traces of requests, and what a pool keeps of them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use mooncake_meta::{Config, Meta};
use mooncake_types::{
    ClientId, Epoch, MountSegment, PutEnd, PutItem, PutMode, PutStart, ReplicateConfig, Reply,
    Request, SegmentId, Tick,
};

const CLIENT: ClientId = ClientId(1);
const BLOCK_BYTES: u64 = 64 << 10;
/// Shorter than the trace's time between requests, so that no block is kept by its lease alone.
const LEASE_MS: u64 = 200;

/// Requests in order: when each came, in milliseconds, and its blocks, numbered in the order of their first
/// appearance.
pub(crate) struct Trace {
    pub(crate) requests: Vec<(u64, Vec<u32>)>,
    pub(crate) distinct: usize,
}

impl Trace {
    /// Reads JSON lines with `timestamp` and `hash_ids`, gzipped if the name says so.
    pub(crate) fn read(path: &Path) -> Self {
        let file = std::fs::File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let zipped = path.extension().is_some_and(|extension| extension == "gz");
        let file: Box<dyn Read> =
            if zipped { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
        let mut numbers = BTreeMap::new();
        let mut requests = Vec::new();
        for line in BufReader::new(file).lines() {
            let row: serde_json::Value =
                serde_json::from_str(&line.expect("a readable trace")).expect("lines of JSON");
            let ids = row["hash_ids"].as_array().expect("hash_ids is a list");
            let blocks = ids.iter().map(|id| {
                let next = numbers.len() as u32;
                *numbers.entry(id.as_u64().expect("a number")).or_insert(next)
            });
            let blocks = blocks.collect();
            requests.push((row["timestamp"].as_u64().expect("a number"), blocks));
        }
        Self { requests, distinct: numbers.len() }
    }

    /// The trace that comes with the source.
    pub(crate) fn shipped() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        Self::read(&root.join("../../data/conversation_trace.jsonl.gz"))
    }

    /// Hits as a share of all blocks, in percent.
    pub(crate) fn percent(&self, hits: usize) -> f64 {
        let blocks: usize = self.requests.iter().map(|(_, blocks)| blocks.len()).sum();
        hits as f64 * 100.0 / blocks as f64
    }
}

/// The blocks of a request up to the first that is not kept.
fn prefix(blocks: &[u32], kept: impl Fn(u32) -> bool) -> usize {
    blocks.iter().take_while(|&&block| kept(block)).count()
}

/// Hits in a pool of `capacity` blocks on `segments` segments: each request looks up all its blocks, reads those of
/// the prefix that is there, and puts what is missing.
pub(crate) fn meta_hits(trace: &Trace, capacity: usize, segments: usize) -> usize {
    let config = Config {
        lease_ttl_ms: LEASE_MS,
        eviction_high_watermark_ratio: 1.0,
        client_ttl_ms: u64::MAX / 2,
        ..Config::default()
    };
    let mut meta = Meta::new(config, Epoch(1));
    for segment in 0..segments {
        let name = format!("node-{segment}:12345");
        let share = (capacity * (segment + 1) / segments - capacity * segment / segments) as u64;
        let mount = MountSegment {
            id: SegmentId(segment as u128),
            name: &name,
            endpoint: &name,
            len: share * BLOCK_BYTES,
            seen_epoch: Epoch(0),
            is_empty: true,
            run: 1,
            medium: mooncake_types::Medium::Memory,
        };
        meta.handle(Tick(0), CLIENT, &Request::MountSegment(mount));
    }
    let key = |block: &u32| format!("model@rank_0@{block:064x}");
    let mut hits = 0;
    for (at, blocks) in &trace.requests {
        let now = Tick(*at);
        let keys: Vec<String> = blocks.iter().map(key).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let Reply::Exist(exist) =
            meta.handle(now, CLIENT, &Request::ExistKey { keys: keys.clone() })
        else {
            panic!("a wrong kind of reply");
        };
        let there = |place: usize| exist[place].expect("a sound key");
        let found = (0..keys.len()).take_while(|&place| there(place)).count();
        hits += found;
        meta.handle(now, CLIENT, &Request::GetReplicaList { keys: keys[..found].to_vec() });
        let missing: Vec<&str> =
            (0..keys.len()).filter(|&place| !there(place)).map(|place| keys[place]).collect();
        put(&mut meta, now, &missing);
    }
    hits
}

fn put(meta: &mut Meta, now: Tick, keys: &[&str]) {
    let start = PutStart {
        puts: keys.iter().map(|key| PutItem::new(key, BLOCK_BYTES)).collect(),
        config: ReplicateConfig::default(),
        mode: PutMode::Insert,
    };
    let Reply::Granted { results, .. } = meta.handle(now, CLIENT, &Request::PutStart(start)) else {
        panic!("a wrong kind of reply");
    };
    let granted = keys.iter().zip(results);
    let puts = granted.filter_map(|(&key, grant)| {
        let version = grant.ok()?.version;
        Some(PutEnd { key, version, failed_replicas: 0, held_replicas: 0 })
    });
    meta.handle(now, CLIENT, &Request::PutEnd { puts: puts.collect() });
}

/// Hits in a pool that gives up the block used longest ago.
pub(crate) fn lru_hits(trace: &Trace, capacity: usize) -> usize {
    let mut used = vec![0u64; trace.distinct];
    let mut order = BTreeSet::new();
    let (mut now, mut hits) = (0, 0);
    for (_, blocks) in &trace.requests {
        hits += prefix(blocks, |block| used[block as usize] > 0);
        for &block in blocks {
            now += 1;
            let before = std::mem::replace(&mut used[block as usize], now);
            if before > 0 {
                order.remove(&(before, block));
            } else if order.len() == capacity {
                let (_, victim) = order.pop_first().expect("a full pool");
                used[victim as usize] = 0;
            }
            order.insert((now, block));
        }
    }
    hits
}

/// Hits in a pool that gives up the block whose next use is furthest, and takes none that has no next use.
pub(crate) fn best_hits(trace: &Trace, capacity: usize) -> usize {
    let mut next: Vec<Vec<usize>> = Vec::new();
    let mut later = vec![usize::MAX; trace.distinct];
    for (number, (_, blocks)) in trace.requests.iter().enumerate().rev() {
        next.push(blocks.iter().map(|&block| later[block as usize]).collect());
        blocks.iter().for_each(|&block| later[block as usize] = number);
    }
    next.reverse();
    let mut kept: Vec<Option<(usize, usize)>> = vec![None; trace.distinct];
    let mut order = BTreeSet::new();
    let mut hits = 0;
    for ((_, blocks), next) in trace.requests.iter().zip(next) {
        hits += prefix(blocks, |block| kept[block as usize].is_some());
        for (place, (&block, next)) in blocks.iter().zip(next).enumerate() {
            if let Some((next, place)) = kept[block as usize].take() {
                order.remove(&(next, place, block));
            }
            if next != usize::MAX {
                kept[block as usize] = Some((next, place));
                order.insert((next, place, block));
            }
            if order.len() > capacity {
                let (_, _, victim) = order.pop_last().expect("a full pool");
                kept[victim as usize] = None;
            }
        }
    }
    hits
}

/// Where S3-FIFO has a block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Out,
    Small,
    Main,
}

/// S3-FIFO: a small queue for a tenth of the pool, a main one, and as many ghosts as the main one has blocks.
struct S3Fifo {
    place: Vec<Place>,
    uses: Vec<u8>,
    ghost: Vec<u32>,
    small: VecDeque<u32>,
    main: VecDeque<u32>,
    ghosts: VecDeque<u32>,
    small_len: usize,
    main_len: usize,
}

/// Hits in a pool run by S3-FIFO.
pub(crate) fn s3_fifo_hits(trace: &Trace, capacity: usize) -> usize {
    let small_len = (capacity / 10).max(1);
    let mut cache = S3Fifo {
        place: vec![Place::Out; trace.distinct],
        uses: vec![0; trace.distinct],
        ghost: vec![0; trace.distinct],
        small: VecDeque::new(),
        main: VecDeque::new(),
        ghosts: VecDeque::new(),
        small_len,
        main_len: capacity - small_len,
    };
    let mut hits = 0;
    for (_, blocks) in &trace.requests {
        hits += prefix(blocks, |block| cache.place[block as usize] != Place::Out);
        blocks.iter().for_each(|&block| cache.touch(block));
    }
    hits
}

impl S3Fifo {
    fn touch(&mut self, block: u32) {
        let at = block as usize;
        if self.place[at] != Place::Out {
            self.uses[at] = (self.uses[at] + 1).min(3);
            return;
        }
        if self.small.len() + self.main.len() >= self.small_len + self.main_len {
            self.evict();
        }
        self.uses[at] = 0;
        if self.ghost[at] > 0 {
            self.place[at] = Place::Main;
            self.main.push_back(block);
        } else {
            self.place[at] = Place::Small;
            self.small.push_back(block);
        }
    }

    fn evict(&mut self) {
        while self.small.len() >= self.small_len || self.main.is_empty() {
            let block = self.small.pop_front().expect("a full pool");
            let at = block as usize;
            if self.uses[at] < 2 {
                self.place[at] = Place::Out;
                self.ghost[at] += 1;
                self.ghosts.push_back(block);
                if self.ghosts.len() > self.main_len {
                    let forgotten = self.ghosts.pop_front().expect("there are ghosts");
                    self.ghost[forgotten as usize] -= 1;
                }
                return;
            }
            (self.place[at], self.uses[at]) = (Place::Main, 0);
            self.main.push_back(block);
            if self.main.len() > self.main_len {
                return self.evict_main();
            }
        }
        self.evict_main();
    }

    fn evict_main(&mut self) {
        while let Some(block) = self.main.pop_front() {
            let at = block as usize;
            if self.uses[at] == 0 {
                self.place[at] = Place::Out;
                return;
            }
            self.uses[at] -= 1;
            self.main.push_back(block);
        }
    }
}
