//! Masters that a Kubernetes Lease object elects; the API server is a stub.

use std::sync::{Arc, Mutex};

use crate::cluster::Cluster;
use crate::followed::{SLACK, a_killed_leader_is_replaced, a_paused_leader_is_fenced};
use mooncake_testing::leases::{Leases, serve};
use mooncake_testing::stub::listen;

fn cluster() -> Cluster {
    let leases = Arc::<Mutex<Leases>>::default();
    let port = listen(move |stream| serve(&leases, stream));
    Cluster::at_kubernetes("k8s://kv/mooncake-master", format!("http://127.0.0.1:{port}"))
}

#[test]
fn kubernetes_has_a_killed_leader_replaced_and_the_client_follows() {
    a_killed_leader_is_replaced(cluster(), SLACK);
}

#[test]
fn kubernetes_has_a_paused_leader_replaced_and_it_does_nothing_late() {
    a_paused_leader_is_fenced(cluster());
}
