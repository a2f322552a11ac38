//! Masters that a Kubernetes Lease object elects; the API server is a stub.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::cluster::{Cluster, Master};
use crate::followed::{SLACK, a_killed_leader_is_replaced, a_paused_leader_is_fenced};
use mooncake_testing::PATIENCE;
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

/// Waits until just these pods have the label of a leader.
fn wait_for_leaders(leases: &Mutex<Leases>, expected: &[&str]) {
    let begun = Instant::now();
    loop {
        let leases = leases.lock().expect("no panic");
        let leads = |pod: &&str| leases.labels[*pod].contains_key("mooncake.io/store-role");
        let found: Vec<&str> = leases.labels.keys().map(String::as_str).filter(leads).collect();
        if found == expected {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "the pods {found:?} are labelled");
        drop(leases);
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn the_pod_of_the_leader_has_a_label_and_that_of_a_master_that_ends_loses_it() {
    let leases = Arc::<Mutex<Leases>>::default();
    let own = Arc::clone(&leases);
    let port = listen(move |stream| serve(&own, stream));
    let url = format!("http://127.0.0.1:{port}");
    // The label of an earlier process.
    let stale = [("mooncake.io/store-role".to_owned(), "leader".to_owned())];
    let labels = [("m-0".to_owned(), [].into()), ("m-1".to_owned(), stale.into())];
    leases.lock().expect("no panic").labels.extend(labels);
    let master = |pod: &str| {
        let variables =
            [("MOONCAKE_KUBERNETES_URL", url.as_str()), ("POD_NAME", pod), ("POD_NAMESPACE", "kv")];
        Master::start_with_variables("k8s://kv/mooncake-master", &variables, None)
    };
    let mut first = master("m-0");
    first.wait_until_role("leader");
    let _second = master("m-1");
    wait_for_leaders(&leases, &["m-0"]);
    assert_eq!(first.program.stop(rustix::process::Signal::TERM).0, Some(0));
    wait_for_leaders(&leases, &["m-1"]);
}
