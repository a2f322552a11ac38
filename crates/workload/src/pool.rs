//! The requests of a trace against the master's own state machine, in virtual time, without sockets or bytes.
//!
//! Each request does what an engine does: it asks which of its blocks exist, reads the longest existing prefix, and
//! puts the missing blocks. Then the node drops what was evicted.

use mooncake_meta::{Config, Meta, TenantQuota};
use mooncake_types::{
    ClientId, Epoch, Medium, MountOutcome, MountSegment, PutEnd, PutItem, PutMode, PutStart,
    RangeDrop, ReplicateConfig, Reply, Request, SegmentId, Tenant, Tick, limits,
};

use crate::Trace;

/// The only client, which is engine and node in one.
const CLIENT: ClientId = ClientId(1);

/// The size and the configuration of a pool.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolShape {
    /// Bytes of all segments together.
    pub bytes: u64,
    /// How many segments there are, of equal length.
    pub segments: u32,
    /// Bytes of each block.
    pub block_bytes: u64,
    /// How many replicas each block has.
    pub replicas: u32,
    /// The configuration of the master.
    pub config: Config,
    /// The quotas of tenants; none: they share the pool as one.
    pub quotas: Vec<(Tenant, TenantQuota)>,
}

/// Why the master refuses a pool.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// A setting is invalid.
    #[error("{0}")]
    Config(String),
    /// A segment is too small.
    #[error(
        "the master refuses segments of {bytes} bytes; give the pool more memory, or fewer segments"
    )]
    Segment {
        /// The length of each segment.
        bytes: u64,
    },
}

/// Counts over all requests so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Blocks within the longest existing prefix of their request.
    pub hits: u64,
    /// Blocks that existed behind a missing one, so that the request could not use them.
    pub stranded: u64,
    /// Blocks whose put found no room.
    pub refused: u64,
    /// Objects that the master evicted.
    pub evicted: u64,
}

/// A pool, empty at first.
#[derive(Debug)]
pub struct Pool {
    meta: Meta,
    block_bytes: u64,
    replication: ReplicateConfig<'static>,
    /// Ranges that the node has dropped, and reports to the master with the next call.
    dropped: Vec<RangeDrop>,
    tally: Tally,
}

impl Pool {
    /// A pool with all segments mounted.
    ///
    /// # Errors
    /// See [`PoolError`].
    pub fn new(shape: &PoolShape) -> Result<Self, PoolError> {
        shape.config.validate().map_err(PoolError::Config)?;
        // The only client never fails, so it needs no heartbeats.
        let config = Config {
            client_ttl_ms: u64::MAX / 4,
            disk_ttl_ms: u64::MAX / 4,
            multi_tenants: !shape.quotas.is_empty(),
            ..shape.config.clone()
        };
        let mut meta = Meta::new(config, Epoch(1));
        for number in 0..u64::from(shape.segments) {
            let ends = [number, number + 1].map(|it| {
                (u128::from(shape.bytes) * u128::from(it) / u128::from(shape.segments)) as u64
            });
            let bytes = ends[1] - ends[0];
            let name = format!("node-{number}:12345");
            let mount = MountSegment {
                id: SegmentId(u128::from(number)),
                name: &name,
                endpoint: &name,
                len: bytes,
                seen_epoch: Epoch(0),
                is_empty: true,
                run: 1,
                medium: Medium::Memory,
                domains: &[],
                seal_key: None,
            };
            match meta.handle(Tick(0), CLIENT, &Request::MountSegment(mount)) {
                Reply::Mounted(MountOutcome::Ready) => {}
                _ => return Err(PoolError::Segment { bytes }),
            }
        }
        for (tenant, quota) in &shape.quotas {
            let set = meta.set_tenant_quota(tenant, Some(*quota));
            set.map_err(|code| PoolError::Config(format!("the quota of {tenant}: {code}")))?;
        }
        let replication =
            ReplicateConfig { replica_num: shape.replicas, ..ReplicateConfig::default() };
        let (block_bytes, dropped) = (shape.block_bytes, Vec::new());
        Ok(Self { meta, block_bytes, replication, dropped, tally: Tally::default() })
    }

    /// The counts so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        Tally { evicted: self.meta.stats().counters.evicted_keys, ..self.tally }
    }

    /// Runs request `number` of the trace.
    pub fn request(&mut self, trace: &Trace, number: usize) {
        self.request_of(&Tenant::default(), trace, number);
    }

    /// Runs request `number` of the trace of a tenant. Returns the counts of this request.
    pub fn request_of(&mut self, tenant: &Tenant, trace: &Trace, number: usize) -> Tally {
        let before = self.tally;
        let now = Tick(trace.arrivals_ms[number]);
        let key = |block| tenant.key(&format!("block/{block:08x}")).into_owned();
        let keys: Vec<String> = trace.requests[number].iter().map(key).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        if self.meta.poll_timeout().is_some_and(|due| due <= now) {
            self.meta.handle_timeout(now);
        }
        let there: Vec<bool> =
            keys.chunks(limits::MAX_BATCH_KEYS).flat_map(|keys| self.exist(now, keys)).collect();
        let prefix = there.iter().take_while(|&&there| there).count();
        self.tally.hits += prefix as u64;
        self.tally.stranded += there[prefix..].iter().filter(|&&there| there).count() as u64;
        for keys in keys[..prefix].chunks(limits::MAX_BATCH_KEYS) {
            self.meta.handle(now, CLIENT, &Request::GetReplicaList { keys: keys.to_vec() });
        }
        let missing: Vec<&str> =
            keys.iter().zip(&there).filter(|&(_, &there)| !there).map(|(&key, _)| key).collect();
        for keys in missing.chunks(limits::MAX_BATCH_KEYS) {
            self.put(now, keys);
        }
        self.drop_evicted(now);
        Tally {
            hits: self.tally.hits - before.hits,
            stranded: self.tally.stranded - before.stranded,
            refused: self.tally.refused - before.refused,
            evicted: 0,
        }
    }

    fn exist(&mut self, now: Tick, keys: &[&str]) -> Vec<bool> {
        match self.meta.handle(now, CLIENT, &Request::exist(keys.to_vec())) {
            Reply::Exist(there) => there.into_iter().map(|there| there.unwrap_or(false)).collect(),
            other => unreachable!("the reply to an existence check: {other:?}"),
        }
    }

    fn put(&mut self, now: Tick, keys: &[&str]) {
        let start = PutStart {
            puts: keys.iter().map(|key| PutItem::new(key, self.block_bytes)).collect(),
            config: self.replication.clone(),
            mode: PutMode::Insert,
        };
        let results = match self.meta.handle(now, CLIENT, &Request::PutStart(start)) {
            Reply::Granted { results, .. } => results,
            other => unreachable!("the reply to a put: {other:?}"),
        };
        let granted = keys.iter().zip(results).filter_map(|(&key, grant)| {
            let version = grant.ok()?.version;
            Some(PutEnd { key, version, failed_replicas: 0, held_replicas: 0 })
        });
        let puts: Vec<PutEnd<'_>> = granted.collect();
        self.tally.refused += (keys.len() - puts.len()) as u64;
        self.meta.handle(now, CLIENT, &Request::PutEnd { puts });
    }

    /// The node fetches the ranges of evicted objects, and drops them.
    fn drop_evicted(&mut self, now: Tick) {
        let dropped = std::mem::take(&mut self.dropped);
        let limit = limits::MAX_FETCHED_DROPS;
        if let Reply::Drops(drops) =
            self.meta.handle(now, CLIENT, &Request::FetchDrops { dropped, limit })
        {
            self.dropped = drops;
        }
    }
}
