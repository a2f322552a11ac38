//! The command line of `mooncake replay`, and the sizes that follow from it.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Parser;
use mooncake_types::ByteSize;
use mooncake_workload::{Trace, TraceLimits};

use crate::content;

/// The default size of the pool, as a share of the trace's distinct blocks.
const DEFAULT_POOL_RATIO: f64 = 0.1;
/// The default pool has room for at least this many requests of the longest length.
const MIN_LONGEST_REQUESTS: usize = 4;
const MAX_NODES: u64 = 64;
const MAX_CLIENTS: u64 = 256;

/// Replay real requests against a pool and check every byte.
///
/// Each request of the trace names the blocks of its prompt. For each request a client asks which blocks are stored,
/// and gets the longest stored prefix into a buffer. It compares every byte with what the block's key and its last put
/// say it must be. Then it puts the missing blocks. At the end a table shows the hit ratio beside those of an infinite
/// cache and of an LRU cache of the same size. It also has speeds, latencies and the number of wrong bytes.
///
/// Without --master, a master and storage nodes are started on free ports of this host, and stopped at the end. The
/// exit status is 1 if a byte was wrong or a call failed.
#[derive(Debug, Parser)]
#[command(name = "mooncake replay", max_term_width = 110)]
pub(crate) struct ReplayArgs {
    /// The trace: JSON lines with timestamp, input_length, output_length and hash_ids; plain or gzipped.
    #[arg(long, value_name = "FILE", default_value = "data/conversation_trace.jsonl.gz")]
    pub(crate) trace: PathBuf,
    /// Replay only the first N requests.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) requests: Option<u64>,
    /// Length of a block, like 65536 or 64KiB; a multiple of 8, at most 8 MiB.
    #[arg(long, value_name = "SIZE", default_value = "64KB", value_parser = block_bytes)]
    pub(crate) block_bytes: usize,
    /// Size of the pool, all nodes together, like 2GiB. With --master: the size of the caches to compare with.
    #[arg(long, value_name = "SIZE", value_parser = size, conflicts_with = "pool_ratio")]
    pub(crate) pool_bytes: Option<u64>,
    /// Size of the pool as a share of the distinct blocks in the replayed requests [default: 0.1, and room for four
    /// requests of the longest length].
    #[arg(long, value_name = "SHARE", value_parser = share, conflicts_with = "master")]
    pub(crate) pool_ratio: Option<f64>,
    /// How many storage nodes to start.
    #[arg(long, value_name = "N", default_value_t = 2, conflicts_with = "master",
          value_parser = clap::value_parser!(u64).range(1..=MAX_NODES))]
    pub(crate) nodes: u64,
    /// Let each started node lend a disk in this folder. Blocks without room in memory are offloaded there instead of
    /// being evicted. The files are removed at the end.
    #[arg(long, value_name = "FOLDER", conflicts_with = "master")]
    pub(crate) disk: Option<PathBuf>,
    /// How long the started master protects a block after an existence check or a read, in milliseconds. The
    /// production default of 5000 would be too long here: an hour of requests is replayed in seconds, and leased
    /// blocks cannot be evicted.
    #[arg(long, value_name = "MS", default_value_t = 200, conflicts_with = "master",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) lease_ms: u64,
    /// How many clients replay requests in parallel, each with its own thread and connections.
    #[arg(long, value_name = "N", default_value_t = 1, visible_alias = "threads",
          value_parser = clap::value_parser!(u64).range(1..=MAX_CLIENTS))]
    pub(crate) clients: u64,
    /// Use the running cluster of this master instead of starting one. The blocks are removed at the end.
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) master: Option<String>,
    /// Address of the admin HTTP server of --master, for metrics [default: its host, port 9003].
    #[arg(long, value_name = "HOST:PORT", requires = "master")]
    pub(crate) master_http: Option<String>,
    /// The cluster id of the running cluster.
    #[arg(long, value_name = "ID", requires = "master")]
    pub(crate) cluster_id: Option<String>,
    /// Also write the figures to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// The parent process. A started process asks the kernel to end with it.
    #[arg(long, value_name = "PID", hide = true)]
    pub(crate) as_child_of: Option<u32>,
    /// The program that the started process then becomes.
    #[arg(last = true, hide = true)]
    pub(crate) command: Vec<OsString>,
}

/// The pool cannot hold the longest request.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a pool of {blocks} blocks is too small: the longest request has {longest}, so give at least \
     --pool-bytes {bytes}"
)]
pub(crate) struct PoolTooSmall {
    blocks: usize,
    longest: usize,
    bytes: u64,
}

impl ReplayArgs {
    /// How much of the trace to read. Each request puts a block at most once, so there are at most as many generations
    /// as requests.
    pub(crate) fn trace_limits(&self) -> TraceLimits {
        let most = content::MAX_GENERATION as usize;
        let requests = self.requests.map_or(most, |wanted| most.min(wanted as usize));
        TraceLimits { requests, distinct_blocks: content::MAX_BLOCKS }
    }

    /// How many blocks each node must have room for.
    pub(crate) fn blocks_per_node(&self, trace: &Trace) -> Result<usize, PoolTooSmall> {
        let share = |ratio: f64| (trace.hash_ids.len() as f64 * ratio) as usize;
        let blocks = match (self.pool_bytes, self.pool_ratio) {
            (Some(bytes), _) => (bytes / self.block_bytes as u64) as usize,
            (None, Some(ratio)) => share(ratio),
            (None, None) => share(DEFAULT_POOL_RATIO).max(MIN_LONGEST_REQUESTS * trace.longest()),
        };
        let (longest, nodes) = (trace.longest(), self.nodes as usize);
        if blocks < longest {
            let bytes = (longest * self.block_bytes) as u64;
            return Err(PoolTooSmall { blocks, longest, bytes });
        }
        Ok(blocks.div_ceil(nodes))
    }
}

fn size(text: &str) -> Result<u64, String> {
    let size: ByteSize =
        text.parse().map_err(|_| "expected bytes like 65536, or a size like 64KB".to_owned())?;
    Ok(size.0)
}

fn block_bytes(text: &str) -> Result<usize, String> {
    let bytes = size(text)?;
    let fits = (1..=content::MAX_BLOCK_BYTES as u64).contains(&bytes);
    if fits && bytes.is_multiple_of(content::WORD_BYTES as u64) {
        Ok(bytes as usize)
    } else {
        Err(format!("expected a multiple of 8 bytes up to {}", content::MAX_BLOCK_BYTES))
    }
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|share| *share > 0.0 && *share <= 1.0);
    share.ok_or_else(|| "expected a share like 0.1, above 0 and at most 1".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<ReplayArgs, clap::Error> {
        ReplayArgs::try_parse_from([&["mooncake replay"], args].concat())
    }

    #[test]
    fn every_bad_argument_is_named() {
        let rows: &[(&[&str], &str)] = &[
            (&["--requests", "0"], "--requests"),
            (&["--block-bytes", "0"], "multiple of 8 bytes up to 8388608"),
            (&["--block-bytes", "1001"], "multiple of 8 bytes up to 8388608"),
            (&["--block-bytes", "9MiB"], "multiple of 8 bytes up to 8388608"),
            (&["--block-bytes", "many"], "expected bytes like 65536"),
            (&["--pool-bytes", "10%"], "expected bytes like 65536"),
            (&["--pool-ratio", "0"], "expected a share like 0.1"),
            (&["--pool-ratio", "1.1"], "expected a share like 0.1"),
            (&["--pool-ratio", "NaN"], "expected a share like 0.1"),
            (&["--nodes", "0"], "--nodes"),
            (&["--lease-ms", "0"], "--lease-ms"),
            (&["--clients", "257"], "--clients"),
            (&["--pool-ratio", "0.5", "--pool-bytes", "1G"], "cannot be used with"),
            (&["--master", "a:1", "--nodes", "3"], "cannot be used with"),
            (&["--master", "a:1", "--disk", "x"], "cannot be used with"),
            (&["--master-http", "a:1"], "--master <HOST:PORT>"),
            (&["--trase", "x"], "--trace"),
        ];
        for (args, expected) in rows {
            let error = parse(args).expect_err(&args.join(" ")).to_string();
            assert!(error.contains(expected), "{args:?}: {error}");
        }
    }

    #[test]
    fn the_pool_follows_from_the_trace_or_from_a_size() {
        // 1000 distinct blocks, 30 in the longest request.
        let mut requests: Vec<Box<[u32]>> = vec![(0..30).collect()];
        requests.extend((30..1000).map(|block| Box::from([block])));
        let trace = Trace { requests, arrivals_ms: vec![0; 971], hash_ids: (0..1000).collect() };
        let small = |blocks| Err(PoolTooSmall { blocks, longest: 30, bytes: 30 << 16 });
        let rows: &[(&[&str], Result<usize, PoolTooSmall>)] = &[
            (&[], Ok(60)),
            (&["--pool-ratio", "0.2"], Ok(100)),
            (&["--pool-ratio", "0.05", "--nodes", "3"], Ok(17)),
            (&["--pool-ratio", "0.02"], small(20)),
            (&["--pool-bytes", "64MiB"], Ok(512)),
            (&["--pool-bytes", "1MiB"], small(16)),
        ];
        for (args, expected) in rows {
            assert_eq!(parse(args).unwrap().blocks_per_node(&trace), *expected, "{args:?}");
        }
    }
}
