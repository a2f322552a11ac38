//! What happened in a replay, in numbers.

use std::collections::BTreeMap;

use mooncake_types::ErrorCode;

use super::content::Mismatch;
use super::latency::Latencies;

/// The call that an error came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Call {
    Exist,
    Get,
    Put,
}

impl Call {
    pub(super) fn name(self) -> &'static str {
        match self {
            Call::Exist => "exist",
            Call::Get => "get",
            Call::Put => "put",
        }
    }
}

/// The sums over all requests that were replayed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) requests: u64,
    pub(super) blocks: u64,
    /// Blocks that were read as part of the longest stored prefix of their request.
    pub(super) hits: u64,
    /// Blocks that were promised by exist and gone at the get.
    pub(super) lost: u64,
    pub(super) stored: u64,
    /// Blocks that another client stored first.
    pub(super) already_stored: u64,
    /// Blocks that found the pool full of what may not be evicted.
    pub(super) no_room: u64,
    pub(super) bytes_read: u64,
    pub(super) bytes_written: u64,
    pub(super) wrong_bytes: u64,
    pub(super) wrong_blocks: u64,
    pub(super) first_wrong: Option<WrongBlock>,
    pub(super) errors: BTreeMap<(Call, ErrorCode), u64>,
    pub(super) exist: Latencies,
    pub(super) get: Latencies,
    pub(super) put: Latencies,
}

/// A block that came back with other bytes than it was put with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WrongBlock {
    /// Requests count from 1, in the order of the trace.
    pub(super) request: usize,
    pub(super) key: String,
    pub(super) block: u32,
    pub(super) mismatch: Mismatch,
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
    pub(super) fn error(&mut self, call: Call, code: ErrorCode) {
        *self.errors.entry((call, code)).or_default() += 1;
    }

    pub(super) fn wrong(&mut self, wrong: WrongBlock) {
        self.wrong_bytes += wrong.mismatch.bytes;
        self.wrong_blocks += 1;
        self.first_wrong.get_or_insert(wrong);
    }

    pub(super) fn error_count(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Whether every byte was right and every call was answered as it should be.
    pub(super) fn is_clean(&self) -> bool {
        self.wrong_bytes == 0 && self.errors.is_empty()
    }

    pub(super) fn add(&mut self, mut other: Tally) {
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
