//! An etcd cluster as the coordinator, through the JSON gateway that its members serve beside gRPC.
//!
//! The leader's key is bound to a lease, so etcd deletes it when the lease ends. All writes of a leader are
//! transactions with two conditions: its key is the one that it created (the create revision), and the record is the
//! one that it wrote last (the revision). If the answer to a transaction was lost, the leader recognises it as done
//! when it reads the keys.

mod cluster;
mod gateway;
mod keys;
mod message;
mod term;

pub(crate) use cluster::EtcdBackend;
pub(crate) use gateway::Gateway;
pub(crate) use message::{RangeAnswer, encode};
