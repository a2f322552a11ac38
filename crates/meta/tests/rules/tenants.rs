//! Tenants: keys apart, quotas, and whose objects give way.

use mooncake_meta::{Config, EvictionPolicy, TenantQuota};
use mooncake_types::{
    CreateTask, ErrorCode, PutItem, PutMode, PutRevoke, ReplicateConfig, Reply, Request, Scan,
    ScanAction, SoftPin, TaskKind, Tenant,
};

use crate::world::{ALICE, BOB, World};
use crate::{KIB, pool, pool_with};

fn tenant(name: &str) -> Tenant {
    Tenant::named(name).expect("a name")
}

fn key(name: &str, key: &str) -> String {
    tenant(name).key(key).into_owned()
}

fn quota(kib: u64) -> TenantQuota {
    TenantQuota::of_bytes(kib * KIB)
}

/// A pool of segments of 64 KiB that enforces these quotas in KiB, guaranteed and at most. It evicts only for puts.
fn shared(segments: u128, quotas: &[(&str, u64, u64)]) -> World {
    shared_by(Config::default(), segments, quotas)
}

fn shared_by(config: Config, segments: u128, quotas: &[(&str, u64, u64)]) -> World {
    let config =
        Config { multi_tenants: true, tenant_eviction_high_watermark_ratio: 0.0, ..config };
    let mut world = pool_with(segments, 64 * KIB, config);
    for &(name, guaranteed, burst) in quotas {
        let quota = TenantQuota { burst_bytes: Some(burst * KIB), ..quota(guaranteed) };
        assert_eq!(world.meta.set_tenant_quota(&tenant(name), Some(quota)), Ok(()));
    }
    world
}

fn put(world: &mut World, name: &str, own_key: &str, kib: u64) -> Result<(), ErrorCode> {
    let result = world.put(&key(name, own_key), kib * KIB).map(|_| ());
    world.advance(1);
    world.check();
    result
}

/// The keys of a tenant as the tenant knows them.
fn keys_of(world: &mut World, name: &str) -> Vec<String> {
    let action = ScanAction::List;
    let scan = Scan { tenant: Some(name), pattern: None, action, cursor: 0, limit: 1_000 };
    let Reply::Scanned(page) = world.ask(BOB, &Request::Scan(scan)) else { panic!("no page") };
    assert_eq!(page.next_cursor, None, "one page has all");
    let mut keys: Vec<String> = page.objects.into_iter().map(|(key, _)| key).collect();
    keys.sort();
    keys
}

#[test]
fn a_scan_meets_the_objects_of_one_tenant_by_its_own_keys() {
    let mut world = pool(1, 64 * KIB);
    for (name, own) in [("default", "a"), ("blue", "a"), ("blue", "ab"), ("red", "a")] {
        put(&mut world, name, own, 1).unwrap();
    }
    assert_eq!(keys_of(&mut world, "default"), ["a"]);
    assert_eq!(keys_of(&mut world, "blue"), ["a", "ab"]);
    assert_eq!(keys_of(&mut world, "green"), [""; 0]);
    let action = ScanAction::Remove { force: true };
    let remove = Scan { tenant: Some("blue"), pattern: Some("^a$"), action, cursor: 0, limit: 100 };
    let Reply::Scanned(page) = world.ask(BOB, &Request::Scan(remove)) else { panic!("no page") };
    assert_eq!(page.removed, 1);
    assert_eq!(keys_of(&mut world, "blue"), ["ab"]);
    let remove = Scan { tenant: None, pattern: None, ..remove };
    let Reply::Scanned(page) = world.ask(BOB, &Request::Scan(remove)) else { panic!("no page") };
    assert_eq!((page.removed, world.keys().len()), (3, 0));
}

#[test]
fn without_quotas_tenants_share_the_pool_as_one() {
    let mut world = pool(1, 64 * KIB);
    for (name, own) in ["blue", "default"].into_iter().cycle().zip(["0", "1", "2", "3", "4"]) {
        put(&mut world, name, own, 16).unwrap();
    }
    assert_eq!(keys_of(&mut world, "blue"), ["2", "4"]);
    assert_eq!(world.meta.tenants(10), []);
    let set = world.meta.set_tenant_quota(&tenant("blue"), Some(quota(1)));
    assert_eq!(set, Err(ErrorCode::UnavailableInCurrentMode));
}

#[test]
fn groups_of_one_name_are_apart_by_tenant() {
    let mut world = pool(1, 64 * KIB);
    for name in ["blue", "red"] {
        let put = PutItem { group: "g", ..PutItem::new("", 16 * KIB) };
        let stored = key(name, "a");
        let put = PutItem { key: &stored, ..put };
        let config = ReplicateConfig { hard_pin: name == "red", ..ReplicateConfig::default() };
        let placed = world.begin(ALICE, put, config, PutMode::Insert).unwrap();
        world.end(ALICE, &stored, &placed.what, 0).unwrap();
    }
    put(&mut world, "default", "x", 32).unwrap();
    put(&mut world, "default", "y", 16).unwrap();
    assert_eq!(keys_of(&mut world, "blue"), [""; 0], "the pin of the other tenant's group holds");
    assert_eq!(keys_of(&mut world, "red"), ["a"]);
}

#[test]
fn only_registered_tenants_put() {
    let mut world = shared(1, &[("blue", 64, 64)]);
    assert_eq!(put(&mut world, "blue", "a", 1), Ok(()));
    for name in ["red", "default"] {
        assert_eq!(put(&mut world, name, "a", 1), Err(ErrorCode::TenantNotRegistered));
    }
}

#[test]
fn a_quota_is_taken_away_only_from_an_empty_tenant() {
    let mut world = shared(1, &[("blue", 64, 64)]);
    let blue = tenant("blue");
    put(&mut world, "blue", "a", 1).unwrap();
    assert_eq!(world.meta.set_tenant_quota(&blue, None), Err(ErrorCode::TenantNotEmpty));
    world.remove(&key("blue", "a"), true).unwrap();
    world.advance(10_000);
    assert_eq!(world.meta.set_tenant_quota(&blue, None), Ok(()));
    assert_eq!(world.meta.set_tenant_quota(&blue, None), Err(ErrorCode::TenantNotRegistered));
    assert_eq!(put(&mut world, "blue", "a", 1), Err(ErrorCode::TenantNotRegistered));
    let wrong = TenantQuota::of_bytes(0);
    assert_eq!(world.meta.set_tenant_quota(&blue, Some(wrong)), Err(ErrorCode::InvalidParams));
}

#[test]
fn a_tenant_at_its_quota_evicts_its_own_least_recently_used_objects() {
    let mut world = shared(2, &[("blue", 32, 48), ("red", 64, 64)]);
    put(&mut world, "red", "r", 16).unwrap();
    for own in ["a", "b", "c", "d", "e"] {
        put(&mut world, "blue", own, 16).unwrap();
    }
    assert_eq!(keys_of(&mut world, "blue"), ["c", "d", "e"]);
    assert_eq!(keys_of(&mut world, "red"), ["r"]);
    let report = world.meta.tenant("blue").expect("it is registered");
    assert_eq!((report.bytes, report.objects), (48 * KIB, 3));
    assert_eq!((report.guaranteed_bytes, report.most_bytes), (32 * KIB, 48 * KIB));
    assert_eq!((report.evicted_bytes, report.refused_puts), (32 * KIB, 0));
}

#[test]
fn a_tenant_at_its_quota_evicts_soft_pinned_objects_of_its_own_if_it_has_no_others() {
    let mut world = shared(2, &[("blue", 32, 32)]);
    let pinned = crate::soft(SoftPin::Enable { ttl_ms: Some(600_000) });
    world.put_with(ALICE, &key("blue", "a"), 16 * KIB, pinned).unwrap();
    for own in ["b", "c", "d"] {
        put(&mut world, "blue", own, 16).unwrap();
        assert_eq!(keys_of(&mut world, "blue"), ["a", own]);
    }
    assert_eq!(put(&mut world, "blue", "e", 32), Ok(()));
    assert_eq!(keys_of(&mut world, "blue"), ["e"], "the pin gives way at last");
}

#[test]
fn a_tenant_at_its_quota_passes_over_its_leased_objects() {
    for policy in EvictionPolicy::ALL {
        let config = Config { eviction_policy: policy, ..Config::default() };
        let mut world = shared_by(config, 1, &[("blue", 48, 48)]);
        for own in ["a", "b", "c"] {
            put(&mut world, "blue", own, 16).unwrap();
        }
        world.get(&key("blue", "a")).unwrap();
        assert_eq!(put(&mut world, "blue", "d", 16), Ok(()), "{policy:?}");
        assert_eq!(keys_of(&mut world, "blue"), ["a", "c", "d"], "{policy:?}");
    }
}

#[test]
fn what_can_never_fit_a_quota_is_refused_and_evicts_nothing() {
    let mut world = shared(2, &[("blue", 32, 32)]);
    put(&mut world, "blue", "a", 16).unwrap();
    assert_eq!(put(&mut world, "blue", "b", 33), Err(ErrorCode::TenantQuotaExceeded));
    let two = ReplicateConfig { replica_num: 2, ..ReplicateConfig::default() };
    let stored = key("blue", "c");
    let refused = world.start_with(ALICE, &stored, 17 * KIB, two);
    assert_eq!(refused, Err(ErrorCode::TenantQuotaExceeded), "each replica counts");
    assert_eq!(keys_of(&mut world, "blue"), ["a"]);
    assert_eq!(world.meta.tenant("blue").expect("it is there").refused_puts, 2);
}

#[test]
fn leased_objects_of_a_tenant_stay_and_its_put_is_refused() {
    let mut world = shared(2, &[("blue", 32, 32)]);
    for own in ["a", "b"] {
        put(&mut world, "blue", own, 16).unwrap();
        world.get(&key("blue", own)).unwrap();
    }
    assert_eq!(put(&mut world, "blue", "c", 16), Err(ErrorCode::TenantQuotaExceeded));
    world.advance(5_001);
    assert_eq!(put(&mut world, "blue", "c", 16), Ok(()));
    let report = world.meta.tenant("blue").expect("it is there");
    assert_eq!((report.lookups, report.hits), (2, 2));
}

#[test]
fn running_puts_count_and_are_given_back() {
    let mut world = shared(1, &[("blue", 32, 32)]);
    let stored = key("blue", "a");
    let placed = world.start(ALICE, &stored, 32 * KIB).unwrap();
    assert_eq!(put(&mut world, "blue", "b", 1), Err(ErrorCode::TenantQuotaExceeded));
    world.revoke(ALICE, &stored, &placed.what).unwrap();
    assert_eq!(world.meta.tenant("blue").expect("it is there").bytes, 0);
    assert_eq!(put(&mut world, "blue", "b", 1), Ok(()));
}

#[test]
fn puts_that_were_never_ended_count_until_their_ranges_are_free() {
    let config = Config { put_discard_ms: 1_000, put_release_ms: 10_000, ..Config::default() };
    let mut world = shared_by(config, 1, &[("blue", 32, 32)]);
    world.start(ALICE, &key("blue", "a"), 32 * KIB).unwrap();
    world.advance(5_000);
    world.check();
    assert_eq!(keys_of(&mut world, "blue"), [""; 0]);
    let report = world.meta.tenant("blue").expect("it is registered");
    assert_eq!((report.bytes, report.objects), (32 * KIB, 0), "the writer may still write there");
    assert_eq!(put(&mut world, "blue", "b", 1), Err(ErrorCode::TenantQuotaExceeded));
    world.advance(6_000);
    assert_eq!(put(&mut world, "blue", "b", 32), Ok(()));
}

#[test]
fn ranges_that_a_writer_could_not_get_count_too() {
    let mut world = shared(1, &[("blue", 32, 32)]);
    let stored = key("blue", "a");
    let placed = world.start(ALICE, &stored, 32 * KIB).unwrap();
    let given_up = PutRevoke { held_replicas: 1, ..PutRevoke::new(&stored, placed.what.version) };
    world.give_up(ALICE, given_up).unwrap();
    world.check();
    assert_eq!(put(&mut world, "blue", "b", 1), Err(ErrorCode::TenantQuotaExceeded));
    world.advance(600_000);
    assert_eq!(put(&mut world, "blue", "b", 32), Ok(()));
}

#[test]
fn a_quota_is_not_taken_away_while_a_put_of_the_tenant_reserves_memory() {
    let config = Config { put_discard_ms: 1_000, put_release_ms: 10_000, ..Config::default() };
    let mut world = shared_by(config, 1, &[("blue", 32, 32)]);
    world.start(ALICE, &key("blue", "a"), KIB).unwrap();
    world.advance(5_000);
    let blue = tenant("blue");
    assert_eq!(world.meta.set_tenant_quota(&blue, None), Err(ErrorCode::TenantNotEmpty));
    world.advance(6_000);
    assert_eq!(world.meta.set_tenant_quota(&blue, None), Ok(()));
    world.check();
}

#[test]
fn hard_pins_are_admitted_within_what_is_guaranteed() {
    let mut world = shared(2, &[("blue", 32, 128), ("red", 64, 64)]);
    let pinned = ReplicateConfig { hard_pin: true, ..ReplicateConfig::default() };
    let running = world.start_with(ALICE, &key("blue", "a"), 16 * KIB, pinned.clone()).unwrap();
    world.put_with(ALICE, &key("blue", "b"), 16 * KIB, pinned.clone()).unwrap();
    let refused = world.start_with(ALICE, &key("blue", "c"), KIB, pinned.clone());
    assert_eq!(refused, Err(ErrorCode::TenantQuotaExceeded), "puts count from their beginning");
    assert_eq!(put(&mut world, "blue", "c", 32), Ok(()), "what is not pinned may use the burst");
    world.revoke(ALICE, &key("blue", "a"), &running.what).unwrap();
    world.put_with(ALICE, &key("blue", "d"), 16 * KIB, pinned).unwrap();
    assert_eq!(world.meta.tenant("blue").expect("it is there").pinned_bytes, 32 * KIB);
    for own in ["r1", "r2", "r3", "r4"] {
        assert_eq!(put(&mut world, "red", own, 16), Ok(()), "its share is left");
    }
    world.remove(&key("blue", "b"), true).unwrap();
    world.advance(10_000);
    assert_eq!(world.meta.tenant("blue").expect("it is there").pinned_bytes, 16 * KIB);
    world.check();
}

#[test]
fn a_hard_pinned_object_is_replaced_within_what_is_guaranteed() {
    let mut world = shared(2, &[("blue", 32, 128)]);
    let pinned = ReplicateConfig { hard_pin: true, ..ReplicateConfig::default() };
    let stored = key("blue", "a");
    world.put_with(ALICE, &stored, 32 * KIB, pinned).unwrap();
    let placed = world.upsert(ALICE, &stored, 32 * KIB).unwrap();
    world.end(ALICE, &stored, &placed.what, 0).unwrap();
    world.check();
    world.advance(10_000);
    assert_eq!(world.meta.tenant("blue").expect("it is there").pinned_bytes, 32 * KIB);
    let longer = world.upsert(ALICE, &stored, 33 * KIB);
    assert_eq!(longer, Err(ErrorCode::TenantQuotaExceeded), "the pin would be inherited");
}

#[test]
fn a_quota_of_objects_counts_each_once() {
    let mut world = shared(2, &[]);
    let objects = TenantQuota { objects: Some(2), ..quota(128) };
    world.meta.set_tenant_quota(&tenant("blue"), Some(objects)).unwrap();
    let two = ReplicateConfig { replica_num: 2, ..ReplicateConfig::default() };
    for own in ["a", "b", "c"] {
        world.put_with(ALICE, &key("blue", own), KIB, two.clone()).unwrap();
        world.advance(1);
    }
    assert_eq!(keys_of(&mut world, "blue"), ["b", "c"]);
    let report = world.meta.tenant("blue").expect("it is there");
    assert_eq!((report.objects, report.bytes), (2, 4 * KIB));
    world.check();
}

#[test]
fn the_tenant_furthest_above_its_share_gives_way() {
    for policy in EvictionPolicy::ALL {
        let config = Config { eviction_policy: policy, ..Config::default() };
        let quotas = [("blue", 16, 64), ("green", 16, 64), ("red", 16, 64)];
        let mut world = shared_by(config, 1, &quotas);
        for (name, own) in [("red", "r"), ("green", "g1"), ("green", "g2"), ("blue", "b1")] {
            put(&mut world, name, own, 16).unwrap();
        }
        put(&mut world, "red", "r2", 16).unwrap();
        assert_eq!(keys_of(&mut world, "green"), ["g2"], "{policy:?}: it had twice its share");
        assert_eq!(keys_of(&mut world, "red"), ["r", "r2"]);
        put(&mut world, "blue", "b2", 16).unwrap();
        assert_eq!(keys_of(&mut world, "red"), ["r2"], "{policy:?}: now red has");
        assert_eq!(keys_of(&mut world, "blue"), ["b1", "b2"]);
    }
}

#[test]
fn nobody_takes_the_room_of_a_tenant_within_its_share() {
    let mut world = shared(2, &[("quiet", 64, 64), ("noisy", 64, 128)]);
    for own in ["a", "b", "c", "d"] {
        put(&mut world, "quiet", own, 16).unwrap();
    }
    for number in 0..100 {
        put(&mut world, "noisy", &number.to_string(), 16).unwrap();
    }
    assert_eq!(keys_of(&mut world, "quiet"), ["a", "b", "c", "d"]);
    for own in keys_of(&mut world, "noisy") {
        world.get(&key("noisy", &own)).unwrap();
    }
    let refused = put(&mut world, "noisy", "x", 16);
    assert_eq!(refused, Err(ErrorCode::NoAvailableHandle), "it has leased all that it has");
    assert_eq!(keys_of(&mut world, "quiet"), ["a", "b", "c", "d"]);
}

#[test]
fn what_a_noisy_tenant_borrowed_comes_back_at_once() {
    let mut world = shared(2, &[("quiet", 64, 64), ("noisy", 64, 128)]);
    for number in 0..20 {
        put(&mut world, "noisy", &number.to_string(), 16).unwrap();
    }
    assert_eq!(keys_of(&mut world, "noisy").len(), 8, "it may have the whole pool");
    for own in ["a", "b", "c", "d"] {
        put(&mut world, "quiet", own, 16).unwrap();
    }
    assert_eq!(keys_of(&mut world, "quiet"), ["a", "b", "c", "d"]);
    assert_eq!(keys_of(&mut world, "noisy").len(), 4);
}

#[test]
fn quotas_that_exceed_the_pool_count_in_proportion() {
    let mut world = shared(1, &[]);
    for (name, kib) in [("blue", 96), ("red", 32)] {
        world.meta.set_tenant_quota(&tenant(name), Some(quota(kib))).unwrap();
    }
    let effective = |world: &World, name| world.meta.tenant(name).expect("it is there").most_bytes;
    assert_eq!((effective(&world, "blue"), effective(&world, "red")), (48 * KIB, 16 * KIB));
    assert_eq!(put(&mut world, "red", "a", 17), Err(ErrorCode::TenantQuotaExceeded));
    world.mount(ALICE, 9, 64 * KIB).unwrap();
    assert_eq!((effective(&world, "blue"), effective(&world, "red")), (96 * KIB, 32 * KIB));
    assert_eq!(put(&mut world, "red", "a", 17), Ok(()));
}

#[test]
fn a_tenant_above_the_watermark_of_its_quota_is_relieved_between_requests() {
    let config = Config {
        multi_tenants: true,
        tenant_eviction_high_watermark_ratio: 0.5,
        eviction_ratio: 0.25,
        ..Config::default()
    };
    let mut world = pool_with(2, 64 * KIB, config);
    world.meta.set_tenant_quota(&tenant("blue"), Some(quota(64))).unwrap();
    for own in ["a", "b"] {
        put(&mut world, "blue", own, 16).unwrap();
    }
    assert_eq!(keys_of(&mut world, "blue"), ["a", "b"], "half is not above half");
    put(&mut world, "blue", "c", 16).unwrap();
    assert_eq!(keys_of(&mut world, "blue"), ["c"], "a quarter of the quota is left");
}

#[test]
fn copies_are_admitted_like_puts() {
    let mut world = shared(2, &[("blue", 32, 32)]);
    let stored = key("blue", "a");
    world.put(&stored, 17 * KIB).unwrap();
    let targets = ["node-1:12345", "node-2:12345"];
    let task =
        CreateTask { key: &stored, kind: TaskKind::Copy, source: "", targets: targets.to_vec() };
    let id = world.create_task(task).unwrap();
    assert!(world.fetch_tasks(ALICE).orders.is_empty(), "two copies exceed the quota");
    let report = world.query_task(id).unwrap();
    assert!(report.message.contains("QUOTA"), "{report:?}");
    world.check();
}

/// Reads an object of a tenant, or puts it. Returns whether it was there.
fn request(world: &mut World, name: &str, own: &str) -> bool {
    let stored = key(name, own);
    let is_hit = world.get(&stored).is_ok();
    if !is_hit {
        world.put(&stored, KIB).unwrap();
    }
    is_hit
}

/// What a quiet tenant hits and still has, after requests between which another tenant has `noise` of its own.
fn quiet_beside(policy: EvictionPolicy, noise: u64) -> (usize, Vec<String>) {
    let config = Config {
        multi_tenants: true,
        eviction_policy: policy,
        lease_ttl_ms: 100,
        tenant_eviction_high_watermark_ratio: 0.0,
        ..Config::default()
    };
    let mut world = pool_with(1, 512 * KIB, config);
    for name in ["quiet", "noisy"] {
        world.meta.set_tenant_quota(&tenant(name), Some(quota(64))).unwrap();
    }
    let mut hits = 0;
    for number in 0..1_500 {
        // Some objects are used over and over, some twice, most once.
        let own = match number % 4 {
            0 => format!("hot {}", number * 7 % 60),
            1 => format!("twice {}", number / 8),
            _ => format!("once {number}"),
        };
        hits += usize::from(request(&mut world, "quiet", &own));
        for other in 0..noise {
            request(&mut world, "noisy", &format!("{}", (number * noise + other) / 2));
        }
        world.advance(10);
    }
    world.check();
    (hits, keys_of(&mut world, "quiet"))
}

#[test]
fn the_noise_of_another_tenant_does_not_change_which_objects_of_a_quiet_one_go() {
    for policy in EvictionPolicy::ALL {
        let alone = quiet_beside(policy, 0);
        assert!(alone.0 > 0, "{policy:?}: the trace hits nothing");
        assert_eq!(quiet_beside(policy, 3), alone, "{policy:?}");
    }
}
