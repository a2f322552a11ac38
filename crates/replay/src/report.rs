//! The results of a replay, as a table and as JSON.

use std::fmt::{self, Display, Formatter, Write};
use std::time::Duration;

use mooncake_types::ByteSize;
use serde_json::{Value, json};

use crate::latency::Latencies;
use crate::tally::Tally;

const QUANTILES: [f64; 3] = [0.5, 0.99, 1.0];

/// The figures of a replay.
pub(crate) struct Report {
    pub(crate) tally: Tally,
    pub(crate) wall: Duration,
    pub(crate) cut_short: bool,
    pub(crate) clients: u64,
    pub(crate) block_bytes: usize,
    /// Requests, distinct blocks and last arrival, of the part of the trace that was read.
    pub(crate) trace_requests: usize,
    pub(crate) distinct_blocks: usize,
    pub(crate) last_ms: u64,
    /// How many storage nodes there are, if known.
    pub(crate) nodes: Option<usize>,
    pub(crate) pool_bytes: Option<u64>,
    /// Whether nodes lend disks, to which evicted blocks are offloaded.
    pub(crate) has_disks: bool,
    /// Counted over the replayed requests.
    pub(crate) infinite_hits: u64,
    pub(crate) lru_hits: Option<u64>,
    pub(crate) evicted_blocks: Option<u64>,
}

impl Report {
    pub(crate) fn to_json(&self) -> Value {
        let tally = &self.tally;
        let errors: Vec<Value> = tally
            .errors
            .iter()
            .map(|(&(call, code), count)| {
                json!({"call": call.name(), "code": code.number(), "name": code.name(), "count": count})
            })
            .collect();
        json!({
            "requests": tally.requests,
            "trace_requests": self.trace_requests,
            "complete": !self.cut_short,
            "clients": self.clients,
            "nodes": self.nodes,
            "blocks": tally.blocks,
            "distinct_blocks": self.distinct_blocks,
            "block_bytes": self.block_bytes,
            "pool_bytes": self.pool_bytes,
            "has_disks": self.has_disks,
            "hits": tally.hits,
            "hit_ratio": self.ratio(tally.hits),
            "infinite_hit_ratio": self.ratio(self.infinite_hits),
            "lru_hit_ratio": self.lru_hits.map(|hits| self.ratio(hits)),
            "bytes_read": tally.bytes_read,
            "bytes_written": tally.bytes_written,
            "wall_seconds": self.wall.as_secs_f64(),
            "read_gb_per_s_and_client": speed(tally.bytes_read, &tally.get),
            "write_gb_per_s_and_client": speed(tally.bytes_written, &tally.put),
            "exist": latency_json(&tally.exist),
            "get": latency_json(&tally.get),
            "put": latency_json(&tally.put),
            "evicted_blocks": self.evicted_blocks,
            "blocks_stored": tally.stored,
            "blocks_already_stored": tally.already_stored,
            "blocks_lost_before_get": tally.lost,
            "blocks_without_room": tally.no_room,
            "errors": errors,
            "wrong_blocks": tally.wrong_blocks,
            "wrong_bytes": tally.wrong_bytes,
            "first_wrong": tally.first_wrong.as_ref().map(ToString::to_string),
        })
    }

    fn ratio(&self, hits: u64) -> f64 {
        hits as f64 / self.tally.blocks.max(1) as f64
    }

    fn rows(&self) -> Vec<(&'static str, String)> {
        let tally = &self.tally;
        let percent = |hits| format!("{:.1} %", 100.0 * self.ratio(hits));
        let or_unknown = |value: Option<String>| value.unwrap_or_else(|| "unknown".to_owned());
        let moved = |bytes: u64, calls: &Latencies| {
            let each = if self.clients == 1 { "" } else { " per client" };
            format!("{:.2} GB at {:.2} GB/s{each}", bytes as f64 / 1e9, speed(bytes, calls))
        };
        let mut rows = vec![
            ("requests", self.requests_cell()),
            ("blocks", self.blocks_cell()),
            ("pool", or_unknown(self.pool_bytes.map(|bytes| self.pool_cell(bytes)))),
            ("hit ratio", percent(tally.hits)),
            ("  infinite cache", percent(self.infinite_hits)),
            ("  LRU of the same size", or_unknown(self.lru_hits.map(percent))),
            ("read", moved(tally.bytes_read, &tally.get)),
            ("written", moved(tally.bytes_written, &tally.put)),
            ("evictions", or_unknown(self.evicted_blocks.map(|n| grouped(n) + " blocks"))),
        ];
        let outcomes = [
            ("lost before the get", tally.lost),
            ("stored by others first", tally.already_stored),
            ("no room at the put", tally.no_room),
        ];
        let met = outcomes.into_iter().filter(|&(_, blocks)| blocks > 0);
        rows.extend(met.map(|(name, blocks)| (name, grouped(blocks) + " blocks")));
        rows.push(("time", self.time_cell()));
        rows.push(("errors", self.errors_cell()));
        rows.push(("wrong bytes", grouped(tally.wrong_bytes)));
        rows
    }

    fn requests_cell(&self) -> String {
        let plural = if self.clients == 1 { "" } else { "s" };
        let part = match self.cut_short {
            true => format!(" of {}", grouped(self.trace_requests as u64)),
            false => format!(", {:.1} minutes of traffic", self.last_ms as f64 / 60_000.0),
        };
        format!("{}{part}, {} client{plural}", grouped(self.tally.requests), self.clients)
    }

    fn blocks_cell(&self) -> String {
        let size = ByteSize(self.block_bytes as u64);
        let distinct = grouped(self.distinct_blocks as u64);
        format!("{} of {size}, {distinct} distinct", grouped(self.tally.blocks))
    }

    fn pool_cell(&self, bytes: u64) -> String {
        let blocks = bytes / self.block_bytes as u64;
        let share = 100.0 * blocks as f64 / self.distinct_blocks.max(1) as f64;
        let nodes = self.nodes.map(|nodes| format!(" on {nodes} nodes")).unwrap_or_default();
        let disks = if self.has_disks { ", and disks" } else { "" };
        format!(
            "{}{nodes}, {} blocks ({share:.0} % of the distinct){disks}",
            ByteSize(bytes),
            grouped(blocks)
        )
    }

    /// The overall speed includes the time in which clients make and check blocks.
    fn time_cell(&self) -> String {
        let seconds = self.wall.as_secs_f64();
        let bytes = self.tally.bytes_read + self.tally.bytes_written;
        format!("{seconds:.1} s, {:.2} GB/s all in all", bytes as f64 / seconds.max(1e-9) / 1e9)
    }

    fn errors_cell(&self) -> String {
        let mut text = grouped(self.tally.error_count());
        for ((call, code), count) in &self.tally.errors {
            let _ = write!(text, "; {count} x {} {code}", call.name());
        }
        text
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (name, value) in self.rows() {
            writeln!(f, "{name:<24}{value}")?;
        }
        writeln!(
            f,
            "\n{:<24}{:>10}{:>10}{:>10}{:>10}",
            "per request", "calls", "p50", "p99", "max"
        )?;
        let tally = &self.tally;
        for (name, calls) in [("exist", &tally.exist), ("get", &tally.get), ("put", &tally.put)] {
            let [p50, p99, max] = calls.quantiles(QUANTILES).map(milliseconds);
            let count = grouped(calls.calls() as u64);
            writeln!(f, "{name:<24}{count:>10}{p50:>10}{p99:>10}{max:>10}")?;
        }
        if let Some(wrong) = &tally.first_wrong {
            writeln!(f, "\nThe first of {} wrong blocks: {wrong}", grouped(tally.wrong_blocks))?;
        }
        Ok(())
    }
}

/// The speed of one client while it waits for calls of this kind, in GB/s.
fn speed(bytes: u64, calls: &Latencies) -> f64 {
    let seconds = calls.total().as_secs_f64();
    if seconds > 0.0 { bytes as f64 / seconds / 1e9 } else { 0.0 }
}

fn milliseconds(duration: Duration) -> String {
    format!("{:.2} ms", duration.as_secs_f64() * 1e3)
}

fn latency_json(calls: &Latencies) -> Value {
    let [p50, p99, max] = calls.quantiles(QUANTILES).map(|took| took.as_secs_f64() * 1e6);
    json!({"calls": calls.calls(), "p50_us": p50, "p99_us": p99, "max_us": max})
}

/// A number with a comma before every three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests;
