use std::time::Duration;

use mooncake_ha::{Coordinator, CoordinatorError, Ended, MemoryStore};

use crate::world::{CLUSTER, TTL, World, ended, lead, options};

struct Memory(MemoryStore);

impl World for Memory {
    fn connect_to(&self, cluster_id: &str) -> Coordinator {
        Coordinator::in_memory(&self.0, &options(cluster_id)).expect("good options")
    }

    fn spoil_leader(&self, bytes: &[u8]) {
        self.0.spoil_leader(CLUSTER, bytes);
    }

    fn spoil_record(&self, bytes: &[u8]) {
        self.0.spoil_record(CLUSTER, bytes);
    }
}

crate::contract!(Memory(MemoryStore::default()));

#[test]
fn a_leader_lasts_as_long_as_its_lease_when_the_coordinator_is_away() {
    let store = MemoryStore::default();
    let leadership = lead(&Memory(store.clone()).connect(), "a", Duration::ZERO);
    store.set_reachable(false);
    let unknown = leadership.apply(&[]);
    assert!(matches!(unknown, Err(CoordinatorError::Unavailable { .. })), "{unknown:?}");
    assert!(leadership.is_valid());
    assert_eq!(ended(&leadership), Ended::Expired);
    assert!(!leadership.is_valid());
}

#[test]
fn a_leader_outlasts_a_short_absence_of_the_coordinator() {
    let store = MemoryStore::default();
    let leadership = lead(&Memory(store.clone()).connect(), "a", Duration::ZERO);
    store.set_reachable(false);
    assert!(leadership.renew().is_err());
    store.set_reachable(true);
    let before = leadership.valid_until();
    let after = leadership.renew().expect("it leads");
    assert!(after > before && after <= std::time::Instant::now() + TTL * 9 / 10);
}

#[test]
fn a_leader_that_was_deposed_finds_out_with_the_next_renewal() {
    let store = MemoryStore::default();
    let leadership = lead(&Memory(store.clone()).connect(), "a", Duration::ZERO);
    store.depose(CLUSTER);
    assert_eq!(ended(&leadership), Ended::Deposed);
    assert!(!leadership.is_valid());
}
