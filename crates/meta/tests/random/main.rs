//! Random worlds: actions are drawn from a seed, and a model records what the master told callers. After every event,
//! the state machine is compared with the model and all invariants are checked.
//!
//! `MOONCAKE_SEED=n` replays one world; `MOONCAKE_EVENTS=n` sets its length.

#![allow(clippy::disallowed_methods, reason = "the seed may come from outside")]

mod action;
mod drains;
mod followed;
mod model;
mod puts;
mod reads;
mod sight;
mod tasks;
#[path = "../world/mod.rs"]
mod world;

use std::collections::BTreeMap;

use action::{Action, Dice, KEYS, KIB, draw, name, other_tenant, segment};
use model::{Model, RARE, Run};
use mooncake_meta::{
    AllocatorKind, Config, EvictionPolicy, Replication, ReplicationMode, Strategy, TenantQuota,
};
use mooncake_types::{ClientId, Reply, Request, Tenant};
use world::World;

/// Seeds that meet states which the first 30 do not: adjacent windows, and a promoted replica in pieces.
const ONCE_AT_FAULT: [u64; 3] = [55, 263, 334];

/// From this seed on, tenants have shares of the memory. Only hard pins are refused for a quota.
const FIRST_WITH_SHARES: u64 = 2_000;

/// From this seed on, worlds have failure domains.
const FIRST_IN_RACKS: u64 = 1_000;

impl Run {
    fn new(config: Config) -> Run {
        let mut world = World::new(config.clone());
        if config.multi_tenants {
            let quota = TenantQuota { burst_bytes: Some(1 << 60), ..TenantQuota::of_bytes(KIB) };
            for (tenant, kib) in [(Tenant::default(), 500), (other_tenant(), 1_500)] {
                let quota = TenantQuota { bytes: kib * KIB, ..quota };
                world.meta.set_tenant_quota(&tenant, Some(quota)).expect("quotas are enforced");
            }
        }
        world.meta.record_key_events();
        Run {
            world,
            model: Model::default(),
            config,
            met: BTreeMap::new(),
            renamed: BTreeMap::new(),
            followed: BTreeMap::new(),
        }
    }

    fn step(&mut self, action: &Action) {
        match action {
            Action::Advance { ms } => self.world.advance(*ms),
            Action::Ping { client } => self.ping(ClientId(*client)),
            Action::Disconnect { client } => self.disconnect(ClientId(*client)),
            Action::Report { client, id } => {
                self.world.report(ClientId(*client), &[], &self.segments_called(*id));
            }
            Action::Mount { client, id, len } => {
                self.mount(ClientId(*client), segment(*id, *len), *len);
            }
            Action::Unmount { client, id, grace_ms } => {
                for id in self.segments_called(*id) {
                    let _ = self.world.unmount(ClientId(*client), id.0, *grace_ms);
                }
            }
            Action::Start(start) => self.start(start),
            Action::End { nth, failed, stranger } => self.end(*nth, *failed, *stranger),
            Action::Revoke { nth } => self.revoke(*nth),
            Action::Get { key } => self.get(&name(*key)),
            Action::Exist { key } => {
                self.exist(&name(*key));
                self.prefetch(&name(*key));
            }
            Action::Remove { key, force } => self.remove(&name(*key), *force),
            Action::RemoveAll { force } => self.remove_all(*force),
            Action::Clear { client, key, nth } => {
                self.clear(ClientId(*client), &name(*key), *nth);
            }
            Action::CreateTask { key, moves, nth, targets } => {
                self.create_task(&name(*key), *moves, *nth, *targets);
            }
            Action::FetchTasks { client } => self.fetch_tasks(ClientId(*client)),
            Action::EndTask { nth, ok, stranger } => self.end_task(*nth, *ok, *stranger),
            Action::Drain { nth, targets } => self.drain(*nth, *targets),
            Action::CancelDrain => self.cancel_drain(),
        }
        self.learn();
        self.learn_of_drains();
        self.nothing_else_holds_a_key();
        self.world.check();
        self.follow();
    }
}

fn config(seed: u64) -> Config {
    Config {
        seed,
        multi_tenants: seed >= FIRST_WITH_SHARES,
        eviction_policy: EvictionPolicy::ALL[seed as usize / 8 % 4],
        eviction_high_watermark_ratio: if seed.is_multiple_of(2) { 1.0 } else { 0.8 },
        allow_evict_soft_pinned: true,
        allocator: if seed % 5 == 4 { AllocatorKind::Cachelib } else { AllocatorKind::Offset },
        strategy: [Strategy::Random, Strategy::LocalFirst, Strategy::FreeRatioFirst]
            [seed as usize % 3],
        soft_pin_ttl_ms: 12_000,
        stripe_threshold_bytes: if seed % 4 == 3 { 128 * KIB } else { 0 },
        replication: Replication {
            mode: match seed % 7 {
                0 => ReplicationMode::Off,
                1 => ReplicationMode::Observe,
                _ => ReplicationMode::Enforce,
            },
            window_ms: 200_000,
            admission_qps: 0.005,
            max_replicas: 3,
        },
        offload: seed.is_multiple_of(2),
        offload_on_evict: seed % 8 == 2,
        offload_force_evict: seed % 3 == 1,
        offloading_queue_limit: 4,
        promotion_on_hit: seed.is_multiple_of(2),
        promotion_admission_threshold: 1 + seed as u32 % 3,
        promotion_queue_limit: 2,
        ..Config::default()
    }
}

/// Runs one world, and counts how often it met each rare state. The seed decides everything, so it alone replays the
/// world.
fn run(seed: u64, events: usize) -> BTreeMap<&'static str, u64> {
    let mut dice = Dice(seed);
    let log: Vec<Action> = (0..events).map(|_| draw(&mut dice)).collect();
    let config = config(seed);
    let mut run = Run::new(config);
    for (number, action) in log.iter().enumerate() {
        let step = std::panic::AssertUnwindSafe(|| run.step(action));
        if let Err(cause) = std::panic::catch_unwind(step) {
            let from = number.saturating_sub(12);
            eprintln!("the last events:");
            for (at, action) in log[from..=number].iter().enumerate() {
                eprintln!("  {:>6} {action:?}", from + at);
            }
            eprintln!("replay: MOONCAKE_SEED={seed} MOONCAKE_EVENTS={}", number + 1);
            std::panic::resume_unwind(cause);
        }
    }
    let moved = run.world.meta.stats().counters.drain_moved;
    run.met.insert("a drain moved an object", moved);
    let counters = run.world.meta.stats().counters;
    let copies = [
        ("a lost replica was replaced", counters.repairs.made),
        ("an object that is read often got another replica", counters.replications.made),
        ("such a replica was evicted", counters.extra_replicas_evicted),
        ("an object was copied to a disk", counters.offloads.made),
        ("an object sank", counters.evictions_deferred),
        ("an object was evicted without a copy", counters.evictions_forced),
        ("an object was promoted", counters.promotions.made),
        (
            "a task of the master's own failed",
            counters.repairs.failed + counters.replications.failed,
        ),
    ];
    run.met.extend(copies);
    run.met
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn random_worlds_keep_all_invariants_and_promises() {
    let events = setting("MOONCAKE_EVENTS").unwrap_or(5_000) as usize;
    if let Some(seed) = setting("MOONCAKE_SEED") {
        run(seed, events);
        return;
    }
    let mut met: BTreeMap<&str, u64> = RARE.map(|what| (what, 0)).into();
    for seed in (0..30).chain(ONCE_AT_FAULT) {
        for (what, count) in run(seed, events) {
            *met.get_mut(what).expect("it is in the list") += count;
        }
    }
    println!("{met:#?}");
    assert!(met.values().all(|&count| count > 0), "not everything happened: {met:?}");
}

#[test]
fn random_worlds_in_racks_keep_them_too() {
    let events = setting("MOONCAKE_EVENTS").unwrap_or(5_000) as usize;
    for seed in FIRST_IN_RACKS..FIRST_IN_RACKS + 12 {
        run(seed, events);
    }
}

#[test]
fn random_worlds_with_shares_of_tenants_keep_them_too() {
    let events = setting("MOONCAKE_EVENTS").unwrap_or(5_000) as usize;
    for seed in FIRST_WITH_SHARES..FIRST_WITH_SHARES + 12 {
        run(seed, events);
    }
}

/// A replay gives equal replies, so nothing depends on addresses, clocks or hash order.
#[test]
fn a_replay_gives_the_same_replies() {
    let play = || {
        let mut dice = Dice(77);
        let mut run = Run::new(config(3));
        let mut replies = Vec::new();
        for _ in 0..2_000 {
            run.step(&draw(&mut dice));
            let key = name(dice.roll(KEYS));
            let request = Request::GetReplicaList { keys: vec![&key] };
            let reply = run.world.meta.handle(run.world.now, ClientId(1), &request);
            if let Reply::Located { results, .. } = &reply
                && results[0].is_ok()
            {
                run.model.lease(&key, run.world.now, run.config.lease_ttl_ms);
            }
            replies.push(format!("{reply:?}"));
        }
        replies
    };
    assert_eq!(play(), play());
}
