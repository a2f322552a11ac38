//! An etcd cluster as the coordinator, through the JSON gateway that its members serve beside gRPC.
//!
//! The leader's key hangs on a lease, so etcd takes it away when the lease is over. All writes of a leader are
//! transactions that hold only while its key is the one that it made (its create revision) and the record is the one
//! that it wrote last (its revision). A transaction whose answer was lost is recognised when it is found done.

mod cluster;
mod gateway;
mod keys;
mod message;
mod term;

pub(crate) use cluster::Cluster;
