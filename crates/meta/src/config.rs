use std::ops::RangeInclusive;

use mooncake_types::{Epoch, Medium, SharedDirectory, limits};

/// The allocator of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AllocatorKind {
    /// Ranges of any length. Free neighbours are joined.
    #[default]
    Offset,
    /// Slabs, each of which is cut into slots of one length.
    Cachelib,
}

/// The order in which segments are asked for room for a new replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// The segments with room in turn. Each request begins at a random one.
    #[default]
    Random,
    /// The emptier of two segments: one in turn, the other drawn with a probability in proportion to its length. So
    /// all segments fill up evenly, whatever their lengths.
    FreeRatioFirst,
    /// Segments on the writer's host first, then those on the hosts that follow by name.
    LocalFirst,
}

/// The objects that are evicted first when there is no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum EvictionPolicy {
    /// Objects whose class and age promise the fewest uses, as learned from a sample of the keys.
    #[default]
    Adaptive,
    /// The least recently used objects.
    Lru,
    /// Objects that were not used again soon after their put, by S3-FIFO.
    S3Fifo,
    /// Objects that were not used since the hand of SIEVE passed them last.
    Sieve,
}

impl EvictionPolicy {
    /// All policies, the default first.
    pub const ALL: [Self; 4] = [Self::Adaptive, Self::Lru, Self::S3Fifo, Self::Sieve];

    /// The name that operators write.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Adaptive => "adaptive",
            Self::Lru => "lru",
            Self::S3Fifo => "s3fifo",
            Self::Sieve => "sieve",
        }
    }
}

/// Whether objects that are read often get more replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplicationMode {
    /// The master does not count reads.
    #[default]
    Off,
    /// The master counts reads, and reports the objects that are read often.
    Observe,
    /// The master also makes further replicas of these objects.
    Enforce,
}

impl ReplicationMode {
    pub(crate) fn is_on(self) -> bool {
        self != Self::Off
    }

    pub(crate) fn makes_copies(self) -> bool {
        self == Self::Enforce
    }
}

/// When an object gets a further replica because it is read often.
#[derive(Clone, Debug, PartialEq)]
pub struct Replication {
    /// Whether reads are counted, and whether replicas are made because of them.
    pub mode: ReplicationMode,
    /// Length of the windows in which reads are counted, in milliseconds.
    pub window_ms: u64,
    /// Fewest reads per second, averaged over a window, of an object that is read often.
    pub admission_qps: f64,
    /// An object with this many replicas in memory gets no further one.
    pub max_replicas: u32,
}

impl Default for Replication {
    fn default() -> Self {
        let mode = ReplicationMode::Off;
        Self { mode, window_ms: 10_000, admission_qps: 0.8, max_replicas: 2 }
    }
}

impl Replication {
    /// Fewest reads within a window of an object that is read often.
    pub(crate) fn least_reads(&self) -> u32 {
        // The cast turns a float beyond the range of integers into the nearest integer.
        (self.admission_qps * self.window_ms as f64 / 1_000.0).ceil().max(1.0) as u32
    }
}

/// The settings of the state machine. Durations are in milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Length of the lease that a read or an existence check grants. Clients read only what a lease protects.
    pub lease_ttl_ms: u64,
    /// Length of a soft pin for which the put gives no length.
    pub soft_pin_ttl_ms: u64,
    /// The longest soft pin that a put may ask for.
    pub max_soft_pin_ttl_ms: u64,
    /// Whether eviction may take soft-pinned objects when it finds no others.
    pub allow_evict_soft_pinned: bool,
    /// The objects that are evicted first when there is no room.
    pub eviction_policy: EvictionPolicy,
    /// Once a segment is above the watermark, eviction frees it down to this share of its length below the watermark.
    pub eviction_ratio: f64,
    /// Used share of a segment above which the master evicts there between requests. One switches this off: a segment
    /// then evicts only for a put that finds no room, and only as much as the put needs.
    pub eviction_high_watermark_ratio: f64,
    /// Whether tenants are kept apart in memory: each needs a quota to put, and evicts its own objects first. Their keys
    /// are apart in any case.
    pub multi_tenants: bool,
    /// Share of what a tenant may have above which its objects are evicted between requests; zero: they are evicted
    /// only for its puts. It needs `multi_tenants`.
    pub tenant_eviction_high_watermark_ratio: f64,
    /// The allocator of every segment.
    pub allocator: AllocatorKind,
    /// The order in which segments are asked for room for a new replica.
    pub strategy: Strategy,
    /// A client that has been silent for this long goes out of sight. It is dead once it has been out of sight for
    /// the length of a lease, and `suspicion_ttl_ms` has passed as well.
    pub client_ttl_ms: u64,
    /// How long a client that was silent for `client_ttl_ms` may at least come back.
    pub suspicion_ttl_ms: u64,
    /// How long the objects on a silent client's disks are kept for the client's next process. The time counts from
    /// the client's last ping, or from the start of a new leader. The objects in the client's memory are never kept
    /// longer than those on its disks.
    pub disk_ttl_ms: u64,
    /// A new leader waits for segments that report until no segment has sent a page for this long.
    pub report_silence_ms: u64,
    /// A put that has not ended after this long is discarded: it does not hold its key any more.
    pub put_discard_ms: u64,
    /// The ranges of a discarded put stay reserved until this long after its start.
    pub put_release_ms: u64,
    /// Objects longer than this are striped over several segments. Zero: an object is cut only where no segment has a
    /// range for it.
    pub stripe_threshold_bytes: u64,
    /// The wall clock at the start of the leader, as an epoch; zero if it is not known. The leader believes no epoch
    /// far above it. Its own record may be much older than the epochs that nodes have obeyed.
    pub wall_epoch: Epoch,
    /// How long readers may still begin reads with a leader's routes after the leader's lease has ended. Without a
    /// lease the time counts from the leader's last answer. A new leader changes nothing for this long, unless all
    /// members report.
    pub routes_last_ms: u64,
    /// How long the previous leader's lease may still last; zero unless that leader gave its leadership back before
    /// the end of the lease.
    pub former_lease_ms: u64,
    /// Most ended tasks that clients can still query.
    pub max_finished_tasks: usize,
    /// Most tasks that no client has fetched.
    pub max_pending_tasks: usize,
    /// Most tasks that clients work on.
    pub max_processing_tasks: usize,
    /// A task fails if no client has fetched it for this long; zero: never.
    pub pending_task_ms: u64,
    /// A task fails if it was fetched and has not ended for this long; zero: never.
    pub processing_task_ms: u64,
    /// How many times a task that finds no room is retried.
    pub max_task_retries: u32,
    /// Most tombstones on a segment that takes puts. A segment that has more takes none until half of them are left.
    pub most_tombstones: usize,
    /// Most bytes per second that are copied to replace lost replicas; zero: lost replicas are not replaced.
    pub repair_bytes_per_second: u64,
    /// Whether objects that are read often get more replicas.
    pub replication: Replication,
    /// Whether nodes copy objects to their disks: after the put, or at eviction with `offload_on_evict`.
    pub offload: bool,
    /// Whether an object is copied to a disk only when eviction chooses it.
    pub offload_on_evict: bool,
    /// Whether eviction takes objects that have no copy while `offload_cap_ratio` allows no further copy. If not,
    /// eviction waits.
    pub offload_force_evict: bool,
    /// Largest share of `offloading_queue_limit` that copies for eviction may take.
    pub offload_cap_ratio: f64,
    /// Most copies to disks that are under way or wait for their nodes.
    pub offloading_queue_limit: usize,
    /// Whether objects that lie on disks only are copied to memory once they are read often enough.
    pub promotion_on_hit: bool,
    /// How many reads are enough for `promotion_on_hit`.
    pub promotion_admission_threshold: u32,
    /// Most copies to memory that are under way or wait for their nodes.
    pub promotion_queue_limit: usize,
    /// The directory in which nodes keep a file for each object that is put; absent: nodes keep no files.
    pub shared_directory: Option<SharedDirectory>,
    /// Most overruled keys that the membership record keeps one by one, and in its filter. The record of a shell must
    /// have room for as many.
    pub max_overruled_keys: usize,
    /// See `max_overruled_keys`.
    pub max_filtered_keys: usize,
    /// Seed of the generator of random numbers.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            lease_ttl_ms: 5_000,
            soft_pin_ttl_ms: 1_800_000,
            max_soft_pin_ttl_ms: 604_800_000,
            allow_evict_soft_pinned: true,
            eviction_policy: EvictionPolicy::Adaptive,
            eviction_ratio: 0.05,
            eviction_high_watermark_ratio: 1.0,
            multi_tenants: false,
            tenant_eviction_high_watermark_ratio: 0.9,
            allocator: AllocatorKind::default(),
            strategy: Strategy::default(),
            client_ttl_ms: 10_000,
            suspicion_ttl_ms: 0,
            disk_ttl_ms: 600_000,
            report_silence_ms: 5_000,
            put_discard_ms: 30_000,
            put_release_ms: 600_000,
            stripe_threshold_bytes: 0,
            wall_epoch: Epoch(0),
            routes_last_ms: 1_000,
            former_lease_ms: 0,
            max_finished_tasks: 10_000,
            max_pending_tasks: 10_000,
            max_processing_tasks: 10_000,
            pending_task_ms: 300_000,
            processing_task_ms: 300_000,
            max_task_retries: 10,
            most_tombstones: 1 << 20,
            repair_bytes_per_second: 256 << 20,
            replication: Replication::default(),
            offload: false,
            offload_on_evict: false,
            offload_force_evict: false,
            offload_cap_ratio: 0.5,
            offloading_queue_limit: 50_000,
            promotion_on_hit: false,
            promotion_admission_threshold: 2,
            promotion_queue_limit: 50_000,
            shared_directory: None,
            max_overruled_keys: limits::MAX_OVERRULED_KEYS,
            max_filtered_keys: limits::MAX_FILTERED_KEYS,
            seed: 0,
        }
    }
}

/// Bounds of `offloading_queue_limit` and `promotion_queue_limit`.
const QUEUE_LIMITS: RangeInclusive<usize> = 1..=100_000_000;

impl Config {
    /// Whether objects are copied to disks or to a shared directory.
    pub(crate) fn has_disks(&self) -> bool {
        self.offload || self.shared_directory.is_some()
    }

    /// Whether objects are copied to segments of a medium before eviction chooses them.
    pub(crate) fn copies_at_put(&self, medium: Medium) -> bool {
        match medium {
            Medium::Memory => false,
            Medium::SharedDisk => self.shared_directory.is_some(),
            // Object stores take objects that are used again.
            Medium::Disk | Medium::ObjectStore => self.offload && !self.offload_on_evict,
        }
    }

    /// Whether eviction takes replicas from segments of a medium.
    pub(crate) fn evicts_from(&self, medium: Medium) -> bool {
        medium != Medium::SharedDisk || self.shared_directory.as_ref().is_none_or(|it| it.evicts)
    }

    /// Whether an object that eviction chooses is copied to a disk before its memory is freed.
    pub(crate) fn sinks(&self) -> bool {
        self.offload && self.offload_on_evict
    }

    /// Most objects that may sink at a time.
    pub(crate) fn most_sinking(&self) -> usize {
        ((self.offloading_queue_limit as f64 * self.offload_cap_ratio) as usize).max(1)
    }

    /// Checks all settings.
    ///
    /// # Errors
    /// The text names the first setting that is not valid, its value, and what it must be.
    pub fn validate(&self) -> Result<(), String> {
        let replication = &self.replication;
        let (qps, replicas) = (replication.admission_qps, replication.max_replicas);
        let rules = [
            share("eviction_ratio", self.eviction_ratio),
            share("eviction_high_watermark_ratio", self.eviction_high_watermark_ratio),
            (
                (0.0..=1.0).contains(&self.tenant_eviction_high_watermark_ratio),
                format!(
                    "tenant_eviction_high_watermark_ratio is {}: it must be between 0 and 1",
                    self.tenant_eviction_high_watermark_ratio
                ),
            ),
            share("offload_cap_ratio", self.offload_cap_ratio),
            queue_limit("offloading_queue_limit", self.offloading_queue_limit),
            queue_limit("promotion_queue_limit", self.promotion_queue_limit),
            positive("promotion_admission_threshold", self.promotion_admission_threshold.into()),
            (
                self.soft_pin_ttl_ms <= self.max_soft_pin_ttl_ms,
                format!(
                    "default_kv_soft_pin_ttl is {} ms: it must not exceed max_kv_soft_pin_ttl, {} ms",
                    self.soft_pin_ttl_ms, self.max_soft_pin_ttl_ms
                ),
            ),
            (
                self.put_release_ms >= self.put_discard_ms,
                format!(
                    "put_start_release_timeout_sec is {} ms: it must not be shorter than put_start_discard_timeout_sec, {} ms",
                    self.put_release_ms, self.put_discard_ms
                ),
            ),
            positive("default_kv_lease_ttl", self.lease_ttl_ms),
            positive("client_ttl", self.client_ttl_ms),
            (
                self.stripe_threshold_bytes == 0
                    || self.stripe_threshold_bytes >= limits::MIN_STRIPE_BYTES,
                format!(
                    "stripe_threshold_bytes is {}: it must be 0 or at least {}",
                    self.stripe_threshold_bytes,
                    limits::MIN_STRIPE_BYTES
                ),
            ),
            positive("dynamic_replication_heat_window_seconds", replication.window_ms),
            (
                qps > 0.0,
                format!(
                    "dynamic_replication_admission_qps_threshold is {qps}: it must be positive"
                ),
            ),
            (
                (1..=limits::MAX_REPLICAS).contains(&replicas),
                format!(
                    "dynamic_replication_max_memory_replicas is {replicas}: it must be between 1 and {}",
                    limits::MAX_REPLICAS
                ),
            ),
        ];
        rules.into_iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, text)| Err(text))
    }
}

/// Whether a setting is valid, and the message if it is not.
type SettingCheck = (bool, String);

fn share(name: &str, value: f64) -> SettingCheck {
    ((0.0..=1.0).contains(&value), format!("{name} is {value}: it must be between 0 and 1"))
}

fn positive(name: &str, value: u64) -> SettingCheck {
    (value > 0, format!("{name} is {value}: it must be positive"))
}

fn queue_limit(name: &str, limit: usize) -> SettingCheck {
    let (least, most) = QUEUE_LIMITS.into_inner();
    let text = format!("{name} is {limit}: it must be between {least} and {most}");
    (QUEUE_LIMITS.contains(&limit), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_make_no_sense_are_named() {
        let ok = Config::default();
        let replication = |with: Replication| Config { replication: with, ..Config::default() };
        let usual = Replication::default;
        let cases = [
            (Config { eviction_ratio: 1.5, ..ok.clone() }, "eviction_ratio"),
            (Config { eviction_ratio: f64::NAN, ..ok.clone() }, "eviction_ratio"),
            (
                Config { eviction_high_watermark_ratio: -0.1, ..ok.clone() },
                "eviction_high_watermark_ratio",
            ),
            (Config { soft_pin_ttl_ms: u64::MAX, ..ok.clone() }, "default_kv_soft_pin_ttl"),
            (Config { put_release_ms: 1, ..ok.clone() }, "put_start_release_timeout_sec"),
            (Config { offload_cap_ratio: 1.1, ..ok.clone() }, "offload_cap_ratio"),
            (Config { offloading_queue_limit: 0, ..ok.clone() }, "offloading_queue_limit"),
            (Config { promotion_queue_limit: 100_000_001, ..ok.clone() }, "promotion_queue_limit"),
            (
                Config { promotion_admission_threshold: 0, ..ok.clone() },
                "promotion_admission_threshold",
            ),
            (Config { lease_ttl_ms: 0, ..ok.clone() }, "default_kv_lease_ttl"),
            (Config { client_ttl_ms: 0, ..ok.clone() }, "client_ttl"),
            (Config { stripe_threshold_bytes: 1, ..ok.clone() }, "stripe_threshold_bytes"),
            (
                replication(Replication { window_ms: 0, ..usual() }),
                "dynamic_replication_heat_window_seconds",
            ),
            (
                replication(Replication { admission_qps: 0.0, ..usual() }),
                "dynamic_replication_admission_qps_threshold",
            ),
            (
                replication(Replication { admission_qps: f64::NAN, ..usual() }),
                "dynamic_replication_admission_qps_threshold",
            ),
            (
                replication(Replication { max_replicas: 0, ..usual() }),
                "dynamic_replication_max_memory_replicas",
            ),
            (
                replication(Replication { max_replicas: 33, ..usual() }),
                "dynamic_replication_max_memory_replicas",
            ),
        ];
        for (config, name) in cases {
            let text = config.validate().expect_err(name);
            assert!(text.starts_with(name), "{text}");
        }
        assert_eq!(ok.validate(), Ok(()));
    }

    #[test]
    fn often_is_a_number_of_reads_within_a_window() {
        for (qps, window_ms, reads) in
            [(0.8, 10_000, 8), (0.81, 10_000, 9), (0.01, 1_000, 1), (f64::MAX, 1_000, u32::MAX)]
        {
            let config = Replication { admission_qps: qps, window_ms, ..Replication::default() };
            assert_eq!(config.least_reads(), reads, "{qps} in {window_ms} ms");
        }
    }
}
