//! Masters that are killed, paused and started again, as processes, under stores that follow whoever leads.

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
