//! Random worlds: actions drawn from a seed, the state machine beside a model of what callers were told, all
//! invariants after every event.
//!
//! `MOONCAKE_SEED=n` replays one world; `MOONCAKE_EVENTS=n` sets its length.

#![allow(clippy::disallowed_methods, reason = "the seed may come from outside")]

mod world;

use std::collections::BTreeMap;

use mooncake_meta::{AllocatorKind, Config, Strategy};
use mooncake_types::{
    ClientId, ErrorCode, Grant, Placement, ReplicateConfig, Reply, Request, ScanAction,
    SegmentAddress, SegmentId, SoftPin, Tick, Version,
};
use world::World;

const KIB: u64 = 1024;
const KEYS: u64 = 14;
const CLIENTS: u128 = 3;
const SEGMENTS: u128 = 5;

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }
}

#[derive(Clone, Debug)]
enum Action {
    Advance {
        ms: u64,
    },
    Ping {
        client: u128,
    },
    Mount {
        client: u128,
        id: u128,
        len: u64,
    },
    Unmount {
        client: u128,
        id: u128,
        grace_ms: u64,
    },
    Start {
        client: u128,
        key: u64,
        len: u64,
        replicas: u32,
        pin: u64,
        exclude: Option<u128>,
    },
    /// Ends the running put with this number, modulo how many there are; now and then by a stranger.
    End {
        nth: u64,
        failed: u32,
        stranger: bool,
    },
    Revoke {
        nth: u64,
    },
    Get {
        key: u64,
    },
    Exist {
        key: u64,
    },
    Remove {
        key: u64,
        force: bool,
    },
    RemoveAll {
        force: bool,
    },
}

fn draw(dice: &mut Dice) -> Action {
    let client = 1 + u128::from(dice.roll(CLIENTS as u64));
    let id = 1 + u128::from(dice.roll(SEGMENTS as u64));
    let key = dice.roll(KEYS);
    match dice.roll(100) {
        0..12 => Action::Advance { ms: [1, 10, 400, 3_000, 9_000, 40_000][dice.roll(6) as usize] },
        12..18 => Action::Ping { client },
        18..23 => Action::Mount { client, id, len: [64, 200, 512][dice.roll(3) as usize] * KIB },
        23..25 => Action::Unmount { client, id, grace_ms: dice.roll(2) * 5_000 },
        25..55 => Action::Start {
            client,
            key,
            len: match dice.roll(12) {
                0..8 => 1 + dice.roll(60 * KIB),
                8..11 => 60 * KIB + dice.roll(300 * KIB),
                _ => 400 * KIB + dice.roll(1024 * KIB),
            },
            replicas: 1 + dice.roll(3) as u32,
            pin: dice.roll(10),
            exclude: (dice.roll(8) == 0).then_some(id),
        },
        55..75 => Action::End {
            nth: dice.roll(1000),
            failed: if dice.roll(6) == 0 { dice.roll(8) as u32 } else { 0 },
            stranger: dice.roll(15) == 0,
        },
        75..78 => Action::Revoke { nth: dice.roll(1000) },
        78..86 => Action::Get { key },
        86..93 => Action::Exist { key },
        93..99 => Action::Remove { key, force: dice.roll(3) == 0 },
        _ => Action::RemoveAll { force: dice.roll(4) == 0 },
    }
}

/// A place in a segment: segment, offset, length.
type Extent = (SegmentId, u64, u64);

#[derive(Clone, Debug)]
struct Object {
    writer: ClientId,
    grant: Grant,
    len: u64,
    started: Tick,
    complete: bool,
    leased_until: Tick,
    hard: bool,
    extents: Vec<Extent>,
}

/// What callers were told, and what they may rely on because of it.
#[derive(Default)]
struct Model {
    objects: BTreeMap<String, Object>,
    /// Ranges of discarded puts, with the moment from which they may be granted again.
    held_back: Vec<(Tick, Extent)>,
    last_version: Version,
}

struct Run {
    world: World,
    model: Model,
    config: Config,
}

fn extents(placements: &[Placement], segments: &[SegmentAddress]) -> Vec<Extent> {
    placements.iter().map(|p| (segments[p.segment as usize].id, p.offset, p.len)).collect()
}

fn overlap(a: &Extent, b: &Extent) -> bool {
    a.0 == b.0 && a.1 < b.1 + b.2 && b.1 < a.1 + a.2
}

impl Run {
    fn step(&mut self, action: &Action) {
        match action {
            Action::Advance { ms } => self.world.advance(*ms),
            Action::Ping { client } => {
                self.world.ping(ClientId(*client), &[]);
            }
            Action::Mount { client, id, len } => {
                // A segment's length belongs to its identity.
                let _ =
                    self.world.mount(ClientId(*client), *id * 1_000_000 + u128::from(*len), *len);
            }
            Action::Unmount { client, id, grace_ms } => {
                for len in [64, 200, 512] {
                    let id = *id * 1_000_000 + len * u128::from(KIB);
                    let _ = self.world.unmount(ClientId(*client), id, *grace_ms);
                }
            }
            Action::Start { .. } => self.start(action),
            Action::End { nth, failed, stranger } => self.end(*nth, *failed, *stranger),
            Action::Revoke { nth } => self.revoke(*nth),
            Action::Get { key } => self.get(&name(*key)),
            Action::Exist { key } => self.exist(&name(*key)),
            Action::Remove { key, force } => self.remove(&name(*key), *force),
            Action::RemoveAll { force } => self.remove_all(*force),
        }
        self.learn();
        self.world.check();
    }

    /// Compares the model with the master and learns what eviction, timeouts and unmounts took: each loss must be
    /// one that the rules allow.
    fn learn(&mut self) {
        let now = self.world.now;
        let mounted: Vec<SegmentId> = self.world.meta.segments().iter().map(|s| s.id).collect();
        let mut gone = Vec::new();
        for (key, object) in &mut self.model.objects {
            let report = self.world.meta.peek(key);
            let same = report.filter(|report| report.located.version == object.grant.version);
            let Some(report) = same else {
                let lost = object.extents.iter().any(|extent| !mounted.contains(&extent.0));
                if object.complete {
                    let protected = object.hard || object.leased_until > now;
                    assert!(lost || !protected, "{key} is protected and gone: {object:?}");
                } else {
                    let old = now.since_ms(object.started) >= self.config.put_discard_ms;
                    assert!(old, "the put of {key} is young and gone: {object:?}");
                    let until = object.started.after_ms(self.config.put_release_ms);
                    self.model
                        .held_back
                        .extend(object.extents.iter().map(|extent| (until, *extent)));
                }
                gone.push(key.clone());
                continue;
            };
            assert_eq!(report.complete, object.complete, "{key}");
            assert_eq!(report.located.len, object.len, "{key}");
            let left = extents(&report.located.placements, &report.segments);
            let there = left.iter().filter(|extent| mounted.contains(&extent.0));
            let moved = there.filter(|extent| !object.extents.contains(extent)).count();
            assert!(!object.complete || moved == 0, "{key} moved");
            if object.complete {
                object.extents = left;
            } else {
                // Nothing protects a range of a segment that left, even if the segment comes back.
                object.extents.retain(|extent| mounted.contains(&extent.0));
            }
        }
        for key in gone {
            self.model.objects.remove(&key);
        }
        self.model.held_back.retain(|(until, extent)| *until > now && mounted.contains(&extent.0));
    }

    fn start(&mut self, action: &Action) {
        let Action::Start { client, key, len, replicas, pin, exclude } = action else { return };
        let soft_pin = match pin {
            0 => SoftPin::Sliding,
            1 => SoftPin::Enable { ttl_ms: Some(7_000) },
            2 => SoftPin::Enable { ttl_ms: None },
            _ => SoftPin::Preserve,
        };
        let excluded: Vec<SegmentId> = exclude
            .iter()
            .flat_map(|id| {
                [64, 200, 512].map(|len| SegmentId(id * 1_000_000 + len * u128::from(KIB)))
            })
            .collect();
        let config = ReplicateConfig {
            replica_num: *replicas,
            soft_pin,
            hard_pin: *pin == 3,
            excluded_segments: excluded.clone(),
            ..ReplicateConfig::default()
        };
        let (writer, key, now) = (ClientId(*client), name(*key), self.world.now);
        let result = self.world.start_with(writer, &key, *len, config);
        self.learn();
        let held = self.model.objects.get(&key);
        match result {
            Err(ErrorCode::ObjectAlreadyExists) => assert!(held.is_some(), "{key} is free"),
            Err(ErrorCode::NoAvailableHandle) => self.nothing_could_be_evicted(*len, &excluded),
            Err(other) => panic!("{other}"),
            Ok(placed) => {
                assert!(held.is_none(), "{key} is taken by {held:?}");
                let extents = extents(&placed.what.placements, &placed.segments);
                self.ranges_are_free(&extents, &excluded);
                assert!(placed.what.version > self.model.last_version, "versions grow");
                self.model.last_version = placed.what.version;
                let object = Object {
                    writer,
                    grant: placed.what,
                    len: *len,
                    started: now,
                    complete: false,
                    leased_until: now,
                    hard: *pin == 3,
                    extents,
                };
                self.model.objects.insert(key, object);
            }
        }
    }

    fn ranges_are_free(&self, granted: &[Extent], excluded: &[SegmentId]) {
        let sizes: BTreeMap<SegmentId, u64> =
            self.world.meta.segments().iter().map(|s| (s.id, s.capacity)).collect();
        let taken = self.model.objects.values().flat_map(|object| &object.extents);
        let held = self.model.held_back.iter().map(|(_, extent)| extent);
        let taken: Vec<&Extent> = taken.chain(held).collect();
        for extent in granted {
            assert!(extent.1 + extent.2 <= sizes[&extent.0], "{extent:?} leaves its segment");
            assert!(!excluded.contains(&extent.0), "{extent:?} was excluded");
            let other = taken.iter().find(|other| overlap(extent, other));
            assert!(other.is_none(), "{extent:?} was granted and is held as {other:?}");
        }
    }

    /// A put that found no room left nothing behind that could have made some.
    fn nothing_could_be_evicted(&self, len: u64, excluded: &[SegmentId]) {
        let usable: Vec<_> = self
            .world
            .meta
            .segments()
            .into_iter()
            .filter(|s| s.state == mooncake_types::SegmentState::Ok && !excluded.contains(&s.id))
            .collect();
        if usable.iter().all(|segment| segment.capacity < len) {
            return;
        }
        let large: Vec<SegmentId> =
            usable.iter().filter(|s| s.capacity >= len).map(|s| s.id).collect();
        for (key, object) in &self.model.objects {
            let evictable =
                object.complete && !object.hard && object.leased_until <= self.world.now;
            let there = object.extents.iter().any(|extent| large.contains(&extent.0));
            assert!(!(evictable && there), "no room for {len} bytes, but {key} is evictable");
        }
    }

    fn running(&self, nth: u64) -> Option<(String, Object)> {
        let running: Vec<_> = self.model.objects.iter().filter(|(_, o)| !o.complete).collect();
        let (key, object) = running.get(nth as usize % running.len().max(1))?;
        Some(((*key).clone(), (*object).clone()))
    }

    fn end(&mut self, nth: u64, failed: u32, stranger: bool) {
        let Some((key, object)) = self.running(nth) else { return };
        if stranger {
            let result = self.world.end(ClientId(99), &key, &object.grant, 0);
            assert_eq!(result, Err(ErrorCode::IllegalClient));
            return;
        }
        match self.world.end(object.writer, &key, &object.grant, failed) {
            Ok(()) => {
                let report = self.world.meta.peek(&key).expect("an ended put is there");
                let left = extents(&report.located.placements, &report.segments);
                let kept = |p: &&Placement| failed & 1 << p.replica == 0;
                let wanted = object.grant.placements.iter().filter(kept).count();
                assert!(left.len() <= wanted, "{key}: a failed replica is readable");
                let held = self.model.objects.get_mut(&key).expect("the model has it");
                (held.complete, held.extents) = (true, left);
            }
            // Every replica failed or lies on a segment that is gone, or the writer died and came back.
            Err(ErrorCode::ObjectNotFound) => {
                self.model.objects.remove(&key);
            }
            Err(ErrorCode::IllegalClient) => {}
            Err(other) => panic!("{other}"),
        }
    }

    fn revoke(&mut self, nth: u64) {
        let Some((key, object)) = self.running(nth) else { return };
        match self.world.revoke(object.writer, &key, &object.grant) {
            Ok(()) => {
                self.model.objects.remove(&key);
            }
            Err(ErrorCode::IllegalClient) => {}
            Err(other) => panic!("{other}"),
        }
    }

    fn get(&mut self, key: &str) {
        let result = self.world.get(key);
        let until = self.world.now.after_ms(self.config.lease_ttl_ms);
        match (result, self.model.objects.get_mut(key)) {
            (Ok(placed), Some(object)) if object.complete => {
                assert_eq!(placed.what.version, object.grant.version);
                assert_eq!(extents(&placed.what.placements, &placed.segments), object.extents);
                object.leased_until = until;
            }
            (Err(ErrorCode::ReplicaIsNotReady), Some(object)) if !object.complete => {}
            (Err(ErrorCode::ObjectNotFound), None) => {}
            (result, object) => panic!("{key}: {result:?}, but {object:?}"),
        }
    }

    fn exist(&mut self, key: &str) {
        let found = self.world.exist(key);
        let until = self.world.now.after_ms(self.config.lease_ttl_ms);
        let object = self.model.objects.get_mut(key).filter(|object| object.complete);
        assert_eq!(found, object.is_some(), "{key}");
        if let Some(object) = object {
            object.leased_until = until;
        }
    }

    fn remove(&mut self, key: &str, force: bool) {
        let result = self.world.remove(key, force);
        let leased = |object: &Object| object.leased_until > self.world.now;
        let expected = match self.model.objects.get(key) {
            None => Err(ErrorCode::ObjectNotFound),
            Some(object) if !object.complete => Err(ErrorCode::ReplicaIsNotReady),
            Some(object) if leased(object) && !force => Err(ErrorCode::ObjectHasLease),
            Some(_) => Ok(()),
        };
        assert_eq!(result, expected, "{key}");
        if result.is_ok() {
            self.model.objects.remove(key);
        }
    }

    fn remove_all(&mut self, force: bool) {
        let page = self.world.scan(None, ScanAction::Remove { force }, 3).expect("no pattern");
        let now = self.world.now;
        let before = self.model.objects.len();
        self.model.objects.retain(|_, o| !o.complete || (o.leased_until > now && !force));
        assert_eq!(page.removed as usize, before - self.model.objects.len());
    }
}

fn name(key: u64) -> String {
    format!("key-{key}")
}

fn config(seed: u64) -> Config {
    Config {
        seed,
        eviction_high_watermark_ratio: if seed.is_multiple_of(2) { 1.0 } else { 0.8 },
        allow_evict_soft_pinned: true,
        allocator: if seed % 5 == 4 { AllocatorKind::Cachelib } else { AllocatorKind::Offset },
        strategy: if seed % 3 == 2 { Strategy::FreeRatioFirst } else { Strategy::Random },
        soft_pin_ttl_ms: 12_000,
        stripe_threshold_bytes: if seed % 4 == 3 { 128 * KIB } else { 0 },
        ..Config::default()
    }
}

/// Runs one world. The seed alone decides what happens, so the seed alone replays it.
fn run(seed: u64, events: usize) {
    let mut dice = Dice(seed);
    let log: Vec<Action> = (0..events).map(|_| draw(&mut dice)).collect();
    let config = config(seed);
    let mut run = Run { world: World::new(config.clone()), model: Model::default(), config };
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
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn random_worlds_keep_all_invariants_and_promises() {
    let events = setting("MOONCAKE_EVENTS").unwrap_or(5_000) as usize;
    if let Some(seed) = setting("MOONCAKE_SEED") {
        return run(seed, events);
    }
    for seed in 0..30 {
        run(seed, events);
    }
}

/// The same requests give the same replies: nothing depends on addresses, clocks or hash order.
#[test]
fn a_replay_gives_the_same_replies() {
    let play = || {
        let mut dice = Dice(77);
        let mut run =
            Run { world: World::new(config(3)), model: Model::default(), config: config(3) };
        let mut replies = Vec::new();
        for _ in 0..2_000 {
            run.step(&draw(&mut dice));
            let key = name(dice.roll(KEYS));
            let request = Request::GetReplicaList { keys: vec![&key] };
            let reply = run.world.meta.handle(run.world.now, ClientId(1), &request);
            if let (Reply::Located { results, .. }, Some(object)) =
                (&reply, run.model.objects.get_mut(&key))
                && results[0].is_ok()
            {
                object.leased_until = run.world.now.after_ms(run.config.lease_ttl_ms);
            }
            replies.push(format!("{reply:?}"));
        }
        replies
    };
    assert_eq!(play(), play());
}
