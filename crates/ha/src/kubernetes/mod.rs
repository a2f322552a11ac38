//! A Lease object of Kubernetes as the coordinator.
//!
//! The object holds both things: who leads in its fields, as other programs write them, and in an annotation; the
//! record in another annotation. Every write names the version of the object that it replaces, and the API server
//! refuses it if that is not the newest. The server lets no lease end by itself: a lease is over for who has seen the
//! object unchanged for as long as the lease says, by its own clock.

mod access;
mod api;
mod lease;
mod lease_object;
mod object;
mod term;
mod timestamp;

pub use access::KubernetesAccess;
pub(crate) use lease::Lease;
