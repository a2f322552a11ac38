//! The command line of `mooncake sim`.

use std::path::{Path, PathBuf};

use clap::Parser;
use mooncake_meta::{Config, EvictionPolicy};
use mooncake_types::{ByteSize, Tenant, limits};

use super::SimError;
use super::tenants::TenantTrace;
use crate::{PoolShape, Trace, TraceLimits, Workload, generate};

const MAX_SEGMENTS: i64 = 4_096;
const GENERATED_REQUESTS: usize = 20_000;
/// A thousand years.
const MAX_LEASE_MS: u64 = 1_000 * 365 * 86_400_000;

/// Say what pools of several sizes and eviction policies would hit on a trace of requests.
///
/// Each request asks which blocks of its prompt exist, reads the longest existing prefix, and puts the missing blocks.
/// The answers come from the master's own code, at the times of the trace, without sockets and without bytes: a
/// million requests take minutes. A hit is a block of the longest existing prefix. `optimum` is a cache that knows all
/// later requests: no policy hits more.
#[derive(Debug, Parser)]
#[command(name = "mooncake sim", max_term_width = 110)]
#[command(group = clap::ArgGroup::new("generated").args(["generate", "tenant"]).multiple(true))]
pub(crate) struct SimArgs {
    /// The trace: JSON lines with timestamp, input_length, output_length and hash_ids; plain or gzipped.
    #[arg(long, value_name = "FILE", default_value = "data/conversation_trace.jsonl.gz")]
    pub(crate) trace: PathBuf,
    /// Generate requests of this shape, instead of a trace: chat, agents, retrieval, scan or noon.
    #[arg(long, value_name = "SHAPE", value_parser = workload, conflicts_with = "trace")]
    pub(crate) generate: Option<Workload>,
    /// Several tenants in one pool, each as NAME=FILE with a trace, or NAME=SHAPE: say what each hits alone in its share,
    /// together with the others, and with quotas. Each has an equal share.
    #[arg(long, value_name = "NAME=TRACE", value_parser = tenant, conflicts_with_all = ["trace", "generate", "csv", "plot"])]
    pub(crate) tenant: Vec<(Tenant, String)>,
    /// Seed of the generated requests. The same seed gives the same requests.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "generated")]
    pub(crate) seed: u64,
    /// Take only the first N requests. With --generate: generate N requests [default: all; 20000].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) requests: Option<u64>,
    /// Also write the requests to this file, as a trace.
    #[arg(long, value_name = "FILE")]
    pub(crate) save_trace: Option<PathBuf>,
    /// Memory of one block, like 2MiB: tokens of a block, times bytes that the model stores for a token.
    #[arg(long, value_name = "SIZE", default_value = "64KiB", value_parser = block_bytes)]
    pub(crate) block_bytes: u64,
    /// Sizes of the pool as shares of the distinct blocks of the trace.
    #[arg(long, value_name = "SHARES", value_delimiter = ',', value_parser = share,
          default_value = "0.01,0.02,0.05,0.1,0.2,0.4,0.8")]
    pub(crate) pool_ratio: Vec<f64>,
    /// Sizes of the pool, like 64GiB,128GiB, instead of shares.
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = size, conflicts_with = "pool_ratio")]
    pub(crate) pool_bytes: Vec<u64>,
    /// Eviction policies to compare.
    #[arg(long, value_name = "POLICIES", value_delimiter = ',', value_parser = policy,
          default_values = EvictionPolicy::ALL.map(EvictionPolicy::name))]
    pub(crate) policy: Vec<EvictionPolicy>,
    /// How many segments of equal length the pool has.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=MAX_SEGMENTS))]
    pub(crate) segments: u32,
    /// Replicas of each block, at most as many as segments.
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::MAX_REPLICAS)))]
    pub(crate) replicas: u32,
    /// How long a read protects a block from eviction, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = Config::default().lease_ttl_ms,
          value_parser = clap::value_parser!(u64).range(1..=MAX_LEASE_MS))]
    pub(crate) lease_ms: u64,
    /// How many pools run at a time [default: one for each processor].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub(crate) threads: Option<u64>,
    /// Also write the results to this file, as comma-separated values.
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Also draw the results into this SVG file.
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Option<PathBuf>,
}

impl SimArgs {
    /// The tenants with their requests; none if there is one trace for all.
    pub(crate) fn tenants(&self) -> Result<Vec<TenantTrace>, SimError> {
        let numbered = self.tenant.iter().zip(self.seed..);
        numbered
            .map(|((tenant, text), seed)| {
                let trace = match workload(text) {
                    Ok(shape) => generate(shape, seed, self.count(GENERATED_REQUESTS)),
                    Err(_) => self.read(Path::new(text))?,
                };
                Ok(TenantTrace { tenant: tenant.clone(), trace })
            })
            .collect()
    }

    /// The requests to run: a trace file, or generated ones.
    pub(crate) fn requests(&self) -> Result<Trace, SimError> {
        match self.generate {
            Some(workload) => Ok(generate(workload, self.seed, self.count(GENERATED_REQUESTS))),
            None => self.read(&self.trace),
        }
    }

    /// How many requests to take.
    fn count(&self, default: usize) -> usize {
        self.requests.map_or(default, |wanted| wanted as usize)
    }

    fn read(&self, path: &Path) -> Result<Trace, SimError> {
        let limits = TraceLimits { requests: self.count(usize::MAX), ..TraceLimits::NONE };
        Ok(Trace::read(path, limits)?)
    }

    /// Replicas of each block: each one lies on a segment of its own.
    pub(crate) fn replicas(&self) -> u32 {
        self.replicas.min(self.segments)
    }

    /// The pool sizes to compare for a trace of so many distinct blocks, in bytes, in ascending order.
    pub(crate) fn sizes(&self, distinct_blocks: usize) -> Result<Vec<u64>, SimError> {
        let (replicas, block_bytes) = (self.replicas(), self.block_bytes);
        let distinct = distinct_blocks as f64;
        let unit = u64::from(replicas) * block_bytes;
        let mut sizes = match self.pool_bytes.is_empty() {
            true => self.pool_ratio.iter().map(|ratio| (distinct * ratio) as u64 * unit).collect(),
            false => self.pool_bytes.clone(),
        };
        sizes.sort_unstable();
        sizes.dedup();
        match sizes.first() {
            Some(&bytes) if bytes < unit => Err(SimError::NoRoom { bytes, replicas, block_bytes }),
            _ => Ok(sizes),
        }
    }

    /// How many blocks a pool of `bytes` bytes can hold, with all their replicas.
    pub(crate) fn blocks(&self, bytes: u64) -> u64 {
        bytes / self.block_bytes / u64::from(self.replicas())
    }

    /// A pool of this size with this policy.
    pub(crate) fn shape(&self, bytes: u64, policy: EvictionPolicy) -> PoolShape {
        PoolShape {
            bytes,
            segments: self.segments,
            block_bytes: self.block_bytes,
            replicas: self.replicas(),
            config: Config {
                eviction_policy: policy,
                lease_ttl_ms: self.lease_ms,
                ..Config::default()
            },
            quotas: Vec::new(),
        }
    }
}

fn size(text: &str) -> Result<u64, String> {
    let size: ByteSize =
        text.parse().map_err(|_| "expected bytes like 65536, or a size like 64KB".to_owned())?;
    match size.0 <= limits::MAX_MEMORY_SEGMENT_BYTES {
        true => Ok(size.0),
        false => Err(format!("expected at most {} bytes", limits::MAX_MEMORY_SEGMENT_BYTES)),
    }
}

fn block_bytes(text: &str) -> Result<u64, String> {
    size(text).and_then(|bytes| match bytes {
        1.. => Ok(bytes),
        0 => Err("expected at least 1 byte".to_owned()),
    })
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|share| *share > 0.0 && *share <= 1.0);
    share.ok_or_else(|| "expected a share like 0.1, above 0 and at most 1".to_owned())
}

fn workload(text: &str) -> Result<Workload, String> {
    let names = Workload::ALL.map(Workload::name).join(", ");
    let found = Workload::ALL.into_iter().find(|workload| workload.name() == text);
    found.ok_or_else(|| format!("expected one of {names}"))
}

fn tenant(text: &str) -> Result<(Tenant, String), String> {
    let parts = text.split_once('=').filter(|(name, trace)| !name.is_empty() && !trace.is_empty());
    let (name, trace) = parts.ok_or_else(|| "expected NAME=FILE or NAME=SHAPE".to_owned())?;
    let tenant = Tenant::named(name).map_err(|wrong| wrong.to_string())?;
    Ok((tenant, trace.to_owned()))
}

fn policy(text: &str) -> Result<EvictionPolicy, String> {
    let names = EvictionPolicy::ALL.map(EvictionPolicy::name).join(", ");
    let found = EvictionPolicy::ALL.into_iter().find(|policy| policy.name() == text);
    found.ok_or_else(|| format!("expected one of {names}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<SimArgs, clap::Error> {
        SimArgs::try_parse_from([&["mooncake sim"], args].concat())
    }

    #[test]
    fn every_bad_argument_is_named() {
        let rows: &[(&[&str], &str)] = &[
            (&["--requests", "0"], "--requests"),
            (&["--block-bytes", "0"], "at least 1 byte"),
            (&["--block-bytes", "many"], "expected bytes like 65536"),
            (&["--pool-bytes", "1GiB,2%"], "expected bytes like 65536"),
            (&["--pool-bytes", "99999TiB"], "expected at most"),
            (&["--pool-ratio", "0"], "expected a share like 0.1"),
            (&["--pool-ratio", "NaN"], "expected a share like 0.1"),
            (&["--pool-ratio", "0.5", "--pool-bytes", "1G"], "cannot be used with"),
            (&["--policy", "mru"], "expected one of adaptive, lru, s3fifo, sieve"),
            (&["--generate", "rain"], "expected one of chat, agents, retrieval, scan, noon"),
            (&["--generate", "chat", "--trace", "x"], "cannot be used with"),
            (&["--seed", "2"], "--generate <SHAPE>"),
            (&["--tenant", "blue"], "expected NAME=FILE or NAME=SHAPE"),
            (&["--tenant", "_blue=chat"], "a tenant has a name"),
            (&["--tenant", "blue=chat", "--csv", "x"], "cannot be used with"),
            (&["--segments", "0"], "--segments"),
            (&["--replicas", "33"], "--replicas"),
            (&["--lease-ms", "18446744073709551615"], "--lease-ms"),
            (&["--trase", "x"], "--trace"),
        ];
        for (args, expected) in rows {
            let error = parse(args).expect_err(&args.join(" ")).to_string();
            assert!(error.contains(expected), "{args:?}: {error}");
        }
    }

    #[test]
    fn sizes_follow_from_the_trace_or_are_given() {
        let trace = Trace { hash_ids: (0..1000).collect(), ..Trace::default() };
        let rows: &[(&[&str], &[u64])] = &[
            (&["--pool-ratio", "0.5,0.1,0.1"], &[100 << 16, 500 << 16]),
            (&["--pool-ratio", "0.1", "--replicas", "2", "--segments", "2"], &[200 << 16]),
            (&["--pool-ratio", "0.1", "--replicas", "3", "--segments", "1"], &[100 << 16]),
            (&["--pool-bytes", "2MiB,1MiB"], &[1 << 20, 2 << 20]),
        ];
        for (args, expected) in rows {
            let args_of_row = parse(args).unwrap();
            assert_eq!(args_of_row.sizes(trace.hash_ids.len()).unwrap(), *expected, "{args:?}");
            // The optimum gets as many blocks as the pool.
            let pool = args_of_row.shape(expected[0], EvictionPolicy::Lru);
            let blocks = pool.bytes / pool.block_bytes / u64::from(pool.replicas);
            assert_eq!(args_of_row.blocks(expected[0]), blocks, "{args:?}");
        }
        let error = parse(&["--pool-ratio", "0.0001"]).unwrap().sizes(1000).unwrap_err();
        let expected = "a pool of 0 bytes has no room for 1 replicas of one block of 65536";
        assert_eq!(error.to_string(), expected);
    }
}
