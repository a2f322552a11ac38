//! Counters of a replay.

use std::collections::BTreeMap;

use mooncake_types::ErrorCode;

use crate::content::Mismatch;
use crate::latency::Latencies;

/// The call that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Call {
    Exist,
    Get,
    Put,
}

impl Call {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Call::Exist => "exist",
            Call::Get => "get",
            Call::Put => "put",
        }
    }
}

/// Sums over all replayed requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) requests: u64,
    pub(crate) blocks: u64,
    /// Blocks that were read within the longest stored prefix of their request.
    pub(crate) hits: u64,
    /// Blocks that existed, but were gone at the get.
    pub(crate) lost: u64,
    pub(crate) stored: u64,
    /// Blocks that another client stored first.
    pub(crate) already_stored: u64,
    /// Blocks for which the pool had no room.
    pub(crate) no_room: u64,
    pub(crate) bytes_read: u64,
    pub(crate) bytes_written: u64,
    pub(crate) wrong_bytes: u64,
    pub(crate) wrong_blocks: u64,
    pub(crate) first_wrong: Option<WrongBlock>,
    pub(crate) errors: BTreeMap<(Call, ErrorCode), u64>,
    pub(crate) exist: Latencies,
    pub(crate) get: Latencies,
    pub(crate) put: Latencies,
}

/// A block whose bytes differ from those that were put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WrongBlock {
    /// The number of the request in the trace, from 1.
    pub(crate) request: usize,
    pub(crate) key: String,
    pub(crate) block: u32,
    pub(crate) mismatch: Mismatch,
}

impl std::fmt::Display for WrongBlock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Mismatch { at, bytes, found: (stamp, index) } = self.mismatch;
        write!(
            f,
            "request {}, key {}: {bytes} wrong bytes from byte {at} of block {} on; the word there reads as \
             word {index} of put {} of block {}",
            self.request, self.key, self.block, stamp.generation, stamp.block
        )
    }
}

impl Tally {
    pub(crate) fn error(&mut self, call: Call, code: ErrorCode) {
        *self.errors.entry((call, code)).or_default() += 1;
    }

    pub(crate) fn wrong(&mut self, wrong: WrongBlock) {
        self.wrong_bytes += wrong.mismatch.bytes;
        self.wrong_blocks += 1;
        self.first_wrong.get_or_insert(wrong);
    }

    pub(crate) fn error_count(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Whether every byte was right, and no call failed.
    pub(crate) fn is_clean(&self) -> bool {
        self.wrong_bytes == 0 && self.errors.is_empty()
    }

    pub(crate) fn add(&mut self, mut other: Tally) {
        self.requests += other.requests;
        self.blocks += other.blocks;
        self.hits += other.hits;
        self.lost += other.lost;
        self.stored += other.stored;
        self.already_stored += other.already_stored;
        self.no_room += other.no_room;
        self.bytes_read += other.bytes_read;
        self.bytes_written += other.bytes_written;
        self.wrong_bytes += other.wrong_bytes;
        self.wrong_blocks += other.wrong_blocks;
        self.first_wrong = self.first_wrong.take().or(other.first_wrong);
        for (cause, count) in other.errors {
            *self.errors.entry(cause).or_default() += count;
        }
        self.exist.append(&mut other.exist);
        self.get.append(&mut other.get);
        self.put.append(&mut other.put);
    }
}
