//! What the master told callers, and what it must keep to because of that.

use std::collections::{BTreeMap, BTreeSet};

use mooncake_meta::{Config, Tiers};
use mooncake_types::{
    ClientId, Grant, Placement, PutMode, SegmentAddress, SegmentId, TaskId, TaskStatus, Tick,
    Version,
};

use crate::world::World;

/// A range: segment, offset, length.
pub(crate) type Extent = (SegmentId, u64, u64);

/// A put that has neither ended nor been discarded.
#[derive(Clone, Debug)]
pub(crate) struct Put {
    pub(crate) key: String,
    pub(crate) writer: ClientId,
    pub(crate) grant: Grant,
    pub(crate) len: u64,
    pub(crate) started: Tick,
    pub(crate) mode: PutMode,
    pub(crate) hard: bool,
    pub(crate) group: &'static str,
    /// Whether a newer version of the key has become readable.
    pub(crate) overtaken: bool,
    /// The ranges of the grant, and those of them that still exist.
    pub(crate) granted: Vec<Extent>,
    pub(crate) extents: Vec<Extent>,
}

impl Put {
    /// The ranges of the replicas that are complete and did not fail.
    pub(crate) fn kept(&self, failed: u32) -> Vec<Extent> {
        let placed = || self.grant.placements.iter().zip(&self.granted);
        let lost = placed().filter(|(_, extent)| !self.extents.contains(extent));
        let lost = lost.fold(failed, |set, (placement, _)| set | 1 << placement.replica);
        let kept = placed().filter(|(placement, _)| lost & 1 << placement.replica == 0);
        kept.map(|(_, extent)| *extent).collect()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) writer: ClientId,
    pub(crate) version: Version,
    pub(crate) len: u64,
    pub(crate) ended: Tick,
    /// The lease ends at this time or later.
    pub(crate) leased_until: Tick,
    /// The lease ends at this time or earlier.
    pub(crate) spared_until: Tick,
    pub(crate) hard: bool,
    pub(crate) group: &'static str,
    pub(crate) extents: Vec<Extent>,
}

#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) id: TaskId,
    pub(crate) key: String,
    pub(crate) version: Version,
    pub(crate) moves: bool,
    pub(crate) assigned: ClientId,
    pub(crate) fetched: bool,
    /// Whether the master started it. It then blocks no other operation.
    pub(crate) own: bool,
    /// The ranges of the new replicas, and those of the replica to be moved.
    pub(crate) extents: Vec<Extent>,
    pub(crate) source: Vec<Extent>,
}

#[derive(Default)]
pub(crate) struct Model {
    /// The complete objects.
    pub(crate) objects: BTreeMap<String, Object>,
    /// The running puts, in the order of their versions.
    pub(crate) running: Vec<Put>,
    /// The tasks that have not ended.
    pub(crate) tasks: Vec<Task>,
    /// When the lease of a group ends, as long as the group has members.
    pub(crate) groups: BTreeMap<&'static str, Tick>,
    /// The same, even without members: the master may still remember a member that was lost.
    pub(crate) spared_groups: BTreeMap<&'static str, Tick>,
    /// Ranges of discarded puts, and when they may be granted again.
    pub(crate) held_back: Vec<(Tick, Extent)>,
    pub(crate) last_version: Version,
    /// The segments that are out of sight.
    pub(crate) hidden: BTreeSet<SegmentId>,
}

pub(crate) struct Run {
    pub(crate) world: World,
    pub(crate) model: Model,
    pub(crate) config: Config,
    /// How often each rare state was met.
    pub(crate) met: BTreeMap<&'static str, u64>,
    /// How often a segment had to take a new id.
    pub(crate) renamed: BTreeMap<SegmentId, u128>,
    /// The tiers of each key, according to the key events.
    pub(crate) followed: BTreeMap<Box<str>, Tiers>,
}

/// The states that the random worlds must meet, since they test little otherwise.
pub(crate) const RARE: [&str; 28] = [
    "an object went out of sight",
    "an object came back into sight",
    "a put took the place of what was out of sight",
    "an insert came too late",
    "an upsert was overtaken",
    "an upsert replaced a leased object",
    "an upsert replaced an object",
    "a group was evicted",
    "a pinned group stayed",
    "replicas were cleared",
    "a task was refused at an object with a task",
    "a copy was made",
    "a move was made",
    "a task failed by its client",
    "a task failed without its client",
    "a drain moved an object",
    "a drain has succeeded",
    "a drain has failed",
    "a drain was canceled",
    "a lost replica was replaced",
    "an object that is read often got another replica",
    "such a replica was evicted",
    "an object was copied to a disk",
    "an object sank",
    "an object was evicted without a copy",
    "an object was promoted",
    "a put was told to wait",
    "a task of the master's own failed",
];

pub(crate) fn extents(placements: &[Placement], segments: &[SegmentAddress]) -> Vec<Extent> {
    placements.iter().map(|p| (segments[p.segment as usize].id, p.offset, p.len)).collect()
}

fn overlap(a: &Extent, b: &Extent) -> bool {
    a.0 == b.0 && a.1 < b.1 + b.2 && b.1 < a.1 + a.2
}

impl Model {
    /// The oldest put of a key that may still become readable.
    pub(crate) fn waiting(&self, key: &str) -> Option<&Put> {
        self.running.iter().find(|put| put.key == key && !put.overtaken)
    }

    pub(crate) fn has_task(&self, key: &str) -> bool {
        let of_caller = |task: &Task| task.key == key && !task.own;
        self.objects.contains_key(key) && self.tasks.iter().any(of_caller)
    }

    /// The group of the key's object, or of its running put.
    pub(crate) fn group_of(&self, key: &str) -> Option<&'static str> {
        let object = self.objects.get(key).map(|object| object.group);
        object.or_else(|| self.waiting(key).map(|put| put.group))
    }

    /// Whether a pin or a lease protects an object from eviction. `lives` tells which keys exist: a pinned member that
    /// was lost protects its group no more.
    pub(crate) fn is_protected(
        &self,
        object: &Object,
        now: Tick,
        lives: impl Fn(&str) -> bool,
    ) -> bool {
        let pinned = |(key, other): (&String, &Object)| {
            other.group == object.group && other.hard && lives(key)
        };
        let by_group = !object.group.is_empty()
            && (self.groups.get(object.group).is_some_and(|until| *until > now)
                || self.objects.iter().any(pinned));
        object.hard || object.leased_until > now || by_group
    }

    /// A reader received a route to the key, with a lease.
    pub(crate) fn lease(&mut self, key: &str, now: Tick, ttl_ms: u64) {
        let group = self.objects[key].group;
        if !group.is_empty() {
            self.groups.insert(group, now.after_ms(ttl_ms));
            self.spared_groups.insert(group, now.after_ms(ttl_ms));
            for other in self.objects.values_mut().filter(|other| other.group == group) {
                other.leased_until = other.leased_until.max(now.after_ms(ttl_ms / 2));
                other.spared_until = now.after_ms(ttl_ms);
            }
        }
        let object = self.objects.get_mut(key).expect("it is there");
        object.leased_until = now.after_ms(ttl_ms);
        object.spared_until = now.after_ms(ttl_ms);
    }
}

impl Run {
    pub(crate) fn meet(&mut self, what: &'static str) {
        *self.met.entry(what).or_default() += 1;
    }

    /// Compares the model with the master, and adopts what eviction, timeouts and unmounts removed. The rules must
    /// allow each loss.
    pub(crate) fn learn(&mut self) {
        let now = self.world.now;
        let mounted: Vec<SegmentId> = self.world.meta.segments().iter().map(|s| s.id).collect();
        self.learn_of_sight();
        self.learn_of_puts(&mounted);
        self.learn_of_objects(&mounted);
        self.learn_of_tasks(&mounted);
        self.model.held_back.retain(|(until, extent)| *until > now && mounted.contains(&extent.0));
        let model = &mut self.model;
        let used = |group: &str| {
            model.objects.values().any(|object| object.group == group)
                || model.running.iter().any(|put| put.group == group)
        };
        model.groups.retain(|group, _| used(group));
    }

    fn learn_of_puts(&mut self, mounted: &[SegmentId]) {
        let (now, config) = (self.world.now, &self.config);
        let old = |put: &Put| now.since_ms(put.started) >= config.put_discard_ms;
        let (given_up, running): (Vec<Put>, Vec<Put>) =
            std::mem::take(&mut self.model.running).into_iter().partition(old);
        self.model.running = running;
        for put in &mut self.model.running {
            // A segment that left protects no range, even if it returns.
            put.extents.retain(|extent| mounted.contains(&extent.0));
        }
        for put in given_up {
            let until = put.started.after_ms(config.put_release_ms);
            self.model.held_back.extend(put.extents.iter().map(|extent| (until, *extent)));
        }
    }

    fn learn_of_objects(&mut self, mounted: &[SegmentId]) {
        let now = self.world.now;
        let mut gone = Vec::new();
        let mut evicted_groups = Vec::new();
        for (key, object) in &self.model.objects {
            let report = self.world.meta.peek(key);
            let same = report.filter(|report| report.complete);
            let Some(report) = same else {
                if self.world.meta.is_out_of_sight(key) {
                    let left = self.model.known_extents(object, &[], mounted);
                    assert!(!left.is_empty(), "{key} is in sight: {object:?}");
                    gone.push((key.clone(), Some(left)));
                    continue;
                }
                let lost = object.extents.iter().any(|extent| !mounted.contains(&extent.0));
                let protected = self.model.is_protected(object, now, |key| self.world.holds(key));
                assert!(lost || !protected, "{key} is protected and gone: {object:?}");
                if !lost && !object.group.is_empty() {
                    evicted_groups.push(object.group);
                    *self.met.entry("a group was evicted").or_default() += 1;
                }
                gone.push((key.clone(), None));
                continue;
            };
            assert_eq!(report.located.version, object.version, "{key}");
            assert_eq!(report.located.len, object.len, "{key}");
            let left = extents(&report.located.placements, &report.segments);
            let there = left.iter().filter(|extent| mounted.contains(&extent.0));
            let moved = there.filter(|extent| !object.extents.contains(extent)).count();
            assert_eq!(moved, 0, "{key} moved");
            gone.push((key.clone(), Some(self.model.known_extents(object, &left, mounted))));
        }
        for (key, left) in gone {
            match left {
                None => {
                    self.model.objects.remove(&key);
                }
                Some(left) => self.model.objects.get_mut(&key).expect("it is there").extents = left,
            }
        }
        for (key, object) in &self.model.objects {
            let torn = evicted_groups.contains(&object.group);
            // Replicas on disks are evicted one by one, not by groups.
            assert!(!torn || self.config.offload, "{key} is left of a group that was evicted");
        }
    }

    /// Adopts tasks that ended without their clients.
    fn learn_of_tasks(&mut self, mounted: &[SegmentId]) {
        let now = self.world.now;
        let hold_ms = self.config.put_release_ms - self.config.put_discard_ms;
        for mut task in std::mem::take(&mut self.model.tasks) {
            task.extents.retain(|extent| mounted.contains(&extent.0));
            let report = self.world.query_task(task.id).expect("it has not ended long ago");
            let expected = match task.fetched {
                false => TaskStatus::Pending,
                true => TaskStatus::Processing,
            };
            if report.status == expected {
                let object = self.model.objects.get(&task.key);
                // The master drops an object that was lost when it next looks it up.
                let same = object.is_none_or(|object| object.version == task.version);
                assert!(same, "{task:?} is about {object:?}");
                self.model.tasks.push(task);
                continue;
            }
            if report.status == TaskStatus::Failed {
                self.meet("a task failed without its client");
            }
            let failed = report.status == TaskStatus::Failed && !report.message.is_empty();
            assert!(failed || !task.fetched, "{task:?}: {report:?}");
            let held = task.extents.iter().map(|extent| (now.after_ms(hold_ms), *extent));
            self.model.held_back.extend(held);
        }
    }

    /// A key without a readable object is free unless a put of it is running.
    pub(crate) fn nothing_else_holds_a_key(&self) {
        for key in (0..crate::action::KEYS).map(crate::action::name) {
            if self.model.readable(&key).is_some() {
                continue;
            }
            let found = self.world.meta.peek(&key).map(|report| report.complete);
            let expected = self.model.waiting(&key).map(|_| false);
            assert_eq!(found, expected, "{key}");
        }
    }

    pub(crate) fn ranges_are_free(&self, granted: &[Extent], excluded: &[SegmentId]) {
        let sizes: BTreeMap<SegmentId, u64> =
            self.world.meta.segments().iter().map(|s| (s.id, s.capacity)).collect();
        let model = &self.model;
        let objects: Vec<Extent> =
            model.objects.values().flat_map(|object| model.certain_extents(object)).collect();
        let running = model.running.iter().flat_map(|put| &put.extents);
        let copies = model.tasks.iter().flat_map(|task| &task.extents);
        let held = model.held_back.iter().map(|(_, extent)| extent);
        let taken: Vec<&Extent> = objects.iter().chain(running).chain(copies).chain(held).collect();
        for extent in granted {
            assert!(extent.1 + extent.2 <= sizes[&extent.0], "{extent:?} leaves its segment");
            assert!(!excluded.contains(&extent.0), "{extent:?} was excluded");
            let other = taken.iter().find(|other| overlap(extent, other));
            assert!(other.is_none(), "{extent:?} was granted and is held as {other:?}");
        }
    }
}
