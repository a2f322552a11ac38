//! The share of a full pool that objects of a few lengths use.
//!
//! The method is that of the C++ store's benchmark: the pool is filled, then each put evicts what it needs. After
//! every hundred puts, the bytes of all objects are compared with those of the pool. Nothing is timed, so every run
//! gives the same figures.

use mooncake_meta::{Config, Meta};
use mooncake_types::{
    ClientId, Epoch, Medium, MountSegment, PutEnd, PutItem, PutMode, PutStart, ReplicateConfig,
    Reply, Request, SegmentId, Tick,
};

const CLIENT: ClientId = ClientId(1);
const KIB: u64 = 1 << 10;
const SAMPLE_EVERY: u64 = 100;

/// The lengths of objects in bytes, and the percentage of objects with each.
pub(crate) struct Mix {
    pub(crate) name: &'static str,
    pub(crate) lens: &'static [(u64, u64)],
}

pub(crate) const MIXES: [Mix; 2] = [
    Mix { name: "kv_mixed", lens: &[(4 * KIB, 70), (256 * KIB, 20), (3_120 * KIB, 10)] },
    Mix { name: "dsa_pair", lens: &[(3_120 * KIB, 50), (643 * KIB, 50)] },
];

/// The shape of the pool and the load on it.
#[derive(Clone, Copy)]
pub(crate) struct Churn {
    pub(crate) segments: u64,
    pub(crate) segment_bytes: u64,
    /// How many times the bytes of the pool are put.
    pub(crate) turns: u64,
    /// How many objects are read before each put. Without reads, the oldest objects are evicted first.
    pub(crate) reads: u64,
    pub(crate) seed: u64,
}

/// The figures of a run. Shares refer to the bytes of the pool, once it is full.
#[derive(Clone, Copy, Default)]
pub(crate) struct Usable {
    pub(crate) mean: f64,
    pub(crate) least: f64,
    pub(crate) refused: u64,
    /// Evicted objects per put.
    pub(crate) victims_per_put: f64,
    /// Ranges per object.
    pub(crate) ranges_per_object: f64,
}

impl Usable {
    pub(crate) const HEADER: &str = "| lengths | segments | reads a put | held, mean | held, least | refused | evicted a put | ranges an object |\n\
        |---|---|---|---|---|---|---|---|";

    /// A row of the table.
    pub(crate) fn row(&self, mix: &Mix, churn: &Churn) -> String {
        format!(
            "| {} | {} | {} | {:.2} % | {:.2} % | {} | {:.2} | {:.2} |",
            mix.name,
            churn.segments,
            churn.reads,
            self.mean * 100.0,
            self.least * 100.0,
            self.refused,
            self.victims_per_put,
            self.ranges_per_object
        )
    }
}

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }
}

impl Mix {
    fn len(&self, dice: &mut Dice) -> u64 {
        let mut drawn = dice.roll(self.lens.iter().map(|&(_, weight)| weight).sum());
        let of_it = |&&(_, weight): &&(u64, u64)| match drawn.checked_sub(weight) {
            Some(left) => {
                drawn = left;
                false
            }
            None => true,
        };
        self.lens.iter().find(of_it).expect("one is drawn").0
    }
}

impl Churn {
    fn pool_bytes(&self) -> u64 {
        self.segments * self.segment_bytes
    }

    fn new_pool(&self) -> Meta {
        let config = Config {
            lease_ttl_ms: 20,
            client_ttl_ms: u64::MAX / 2,
            // No node drops the tombstones here.
            most_tombstones: usize::MAX,
            seed: self.seed,
            ..Config::default()
        };
        let mut meta = Meta::new(config, Epoch(1));
        for segment in 0..self.segments {
            let name = format!("node-{segment}:12345");
            let mount = MountSegment {
                id: SegmentId(u128::from(segment)),
                name: &name,
                endpoint: &name,
                len: self.segment_bytes,
                seen_epoch: Epoch(0),
                is_empty: true,
                run: 1,
                medium: Medium::Memory,
                domains: &[],
                seal_key: None,
            };
            meta.handle(Tick(0), CLIENT, &Request::MountSegment(mount));
        }
        meta
    }

    /// Puts objects with the lengths of a mix, until their bytes are `turns` times those of the pool.
    pub(crate) fn run(&self, mix: &Mix) -> Usable {
        let (mut meta, mut dice) = (self.new_pool(), Dice(self.seed));
        let (mut put_bytes, mut granted, mut ranges) = (0, 0, 0);
        let (mut samples, mut usable) = (Vec::new(), Usable::default());
        for number in 0.. {
            let now = Tick(1_000 + number);
            self.read(&mut meta, now, number, &mut dice);
            let len = mix.len(&mut dice);
            match put(&mut meta, now, number, len) {
                Some(pieces) => {
                    (put_bytes, granted, ranges) = (put_bytes + len, granted + 1, ranges + pieces);
                }
                None => usable.refused += 1,
            }
            // Samples are taken once twice the bytes of the pool were put.
            if put_bytes > 2 * self.pool_bytes() && number % SAMPLE_EVERY == 0 {
                let stats = meta.stats();
                let held = put_bytes - stats.counters.evicted_bytes;
                assert!(
                    held <= stats.used_bytes,
                    "{held} bytes of objects lie in {}",
                    stats.used_bytes
                );
                samples.push(held as f64 / self.pool_bytes() as f64);
            }
            if put_bytes + usable.refused * len > self.turns * self.pool_bytes() {
                break;
            }
        }
        let evicted = meta.stats().counters.evicted_keys as f64;
        Usable {
            mean: samples.iter().sum::<f64>() / samples.len() as f64,
            least: samples.iter().copied().fold(1.0, f64::min),
            victims_per_put: evicted / granted as f64,
            ranges_per_object: ranges as f64 / granted as f64,
            ..usable
        }
    }

    /// Reads random recent objects, if they are still there.
    fn read(&self, meta: &mut Meta, now: Tick, number: u64, dice: &mut Dice) {
        for _ in 0..self.reads.min(number) {
            let lately = number.min(self.pool_bytes() / (256 * KIB));
            let key = key(number - 1 - dice.roll(lately));
            meta.handle(now, CLIENT, &Request::GetReplicaList { keys: vec![&key] });
        }
    }
}

fn key(number: u64) -> String {
    format!("model@rank_0@{number:064x}")
}

/// Starts and ends a put. Returns the number of its ranges, or `None` if it is refused.
fn put(meta: &mut Meta, now: Tick, number: u64, len: u64) -> Option<u64> {
    let key = key(number);
    let (puts, config, mode) =
        (vec![PutItem::new(&key, len)], ReplicateConfig::default(), PutMode::Insert);
    let reply = meta.handle(now, CLIENT, &Request::PutStart(PutStart { puts, config, mode }));
    let Reply::Granted { mut results, .. } = reply else { panic!("a wrong kind of reply") };
    let grant = results.remove(0).ok()?;
    let (version, failed_replicas, held_replicas) = (grant.version, 0, 0);
    let end = PutEnd { key: &key, version, failed_replicas, held_replicas };
    meta.handle(now, CLIENT, &Request::PutEnd { puts: vec![end] });
    Some(grant.placements.len() as u64)
}
