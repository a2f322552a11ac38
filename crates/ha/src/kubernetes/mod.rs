//! A Lease object of Kubernetes as the coordinator, and the label of the leader's pod.
//!
//! The object holds the leader, in the fields that other programs use and in an annotation, and the record, in
//! another annotation. Every write names the version of the object that it replaces, and the API server refuses it if
//! that is not the newest. The server ends no lease by itself. For a reader, a lease is over once the object has not
//! changed for its length, by the reader's own clock.

mod access;
mod api;
mod lease;
mod lease_object;
mod object;
mod pod;
mod server;
mod term;
mod timestamp;

pub use access::KubernetesAccess;
pub(crate) use lease::Lease;
pub use pod::Pod;
