//! Masters as processes that are killed, paused and restarted, under stores that follow the leader.

#![allow(missing_docs, reason = "tests are no public interface")]

mod alone;
mod cluster;
mod doctor;
mod drained;
mod elected;
mod etcd;
mod followed;
mod kubernetes;
mod redis;
mod surroundings;
mod warm;
mod way;
