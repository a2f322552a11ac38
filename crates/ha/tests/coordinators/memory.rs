use std::time::Duration;

use mooncake_ha::{Change, Coordinator, CoordinatorError, Ended, MemoryStore};
use mooncake_types::{Epoch, OverruledKey, SegmentId, Version};

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

/// A leader must be able to mark members behind at any time, or no removal could be acknowledged.
#[test]
fn a_record_without_room_forgets_what_segments_lack_but_not_that_they_are_behind() {
    let store = MemoryStore::default();
    let leadership = lead(&Memory(store.clone()).connect(), "a", Duration::ZERO);
    let since = Version { epoch: Epoch(3), counter: 4 };
    let behind = || leadership.record().members().map(|it| it.behind).collect::<Vec<_>>();
    leadership.apply(&[Change::Join(SegmentId(1)), Change::Join(SegmentId(2))]).expect("room");
    leadership.apply(&[Change::MarkBehind(SegmentId(1), since)]).expect("room");
    store.set_limit(4_000);
    let overrule = |hash| Change::Overrule(hash, OverruledKey { until: since, at: since });
    for hash in 0..10 {
        leadership.apply(&[overrule(hash)]).expect("room");
    }
    assert_eq!((leadership.record().overruled().len(), behind()), (10, vec![Some(since), None]));
    for hash in 10..100 {
        leadership.apply(&[overrule(hash)]).expect("what does not fit is left out");
    }
    leadership.apply(&[Change::MarkBehind(SegmentId(2), since)]).expect("room for marks");
    assert_eq!(behind()[0], Some(Version::default()), "no later leader knows what it lacks");
    assert!(behind()[1].is_some());
    leadership.resign().expect("it leads");
    let next = lead(&Memory(store).connect(), "b", TTL);
    assert!(next.record().members().all(|member| member.behind.is_some()));
}
