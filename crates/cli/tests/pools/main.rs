//! Masters and nodes as processes that are killed, paused, drained and restarted, under stores that use them.

#![allow(missing_docs, reason = "tests are no public interface")]

mod cached_reads;
mod drain;
mod drain_leaders;
mod dummies;
mod fabric;
mod healing;
mod hit_ratio;
mod log_lines;
mod lost_nodes;
mod recovery;
mod restarts;
mod secrets;
mod start;
mod unreached;
mod usrbio;
mod verbs;
