//! A Lease object of Kubernetes as the coordinator.

mod access;

pub use access::KubernetesAccess;
