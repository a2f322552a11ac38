//! Masters that are killed, paused and started again, as processes, under stores that follow whoever leads.

#![allow(missing_docs, reason = "tests are no public interface")]

mod alone;
mod cluster;
mod elected;
mod etcd;
mod followed;
mod kubernetes;
#[path = "../../../ha/tests/coordinators/leases.rs"]
mod leases;
mod redis;
#[allow(dead_code, reason = "these tests need the part that serves")]
#[path = "../../../ha/tests/coordinators/stub.rs"]
mod stub;
mod surroundings;
