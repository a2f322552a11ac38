//! Traces of requests, each with the blocks that it names, and how a pool serves them.
//!
//! [`Trace`] reads traces. [`lru_hits`] and [`best_hits`] compute the hits of ideal caches. [`Pool`] runs a trace
//! through the master's own state machine in virtual time, without sockets or bytes. The command `mooncake sim`
//! compares them ([`sim`]).

#![forbid(unsafe_code)]

mod generate;
mod kv_events;
mod lines;
mod lru;
mod optimum;
mod pool;
mod request_log;
pub mod sim;
mod trace;
mod trace_error;

pub use generate::{Workload, generate};
pub use kv_events::{
    BadBatch, EventBatch, EventTrace, EventTraceConfig, NoValue, Seen, StoredBlocks, Value,
    read_value,
};
pub use lru::{infinite_hits, lru_hits};
pub use optimum::best_hits;
pub use pool::{Pool, PoolError, PoolShape, Tally};
pub use request_log::{LogCounts, RequestLog};
pub use trace::{Trace, TraceLimits};
pub use trace_error::{LineProblem, TraceError};
