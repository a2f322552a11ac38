//! Puts and upserts, compared with the model.

use std::collections::BTreeMap;

use mooncake_meta::AllocatorKind;
use mooncake_types::{
    ClientId, ErrorCode, Grant, Placement, PutItem, PutMode, PutRevoke, ReplicateConfig, SegmentId,
    SoftPin, split_tenant,
};

use crate::action::{Start, name};
use crate::model::{Object, Put, Run, extents};
use crate::world::Placed;

impl Run {
    pub(crate) fn start(&mut self, start: &Start) {
        let soft_pin = match start.pin {
            0 => SoftPin::Sliding,
            1 => SoftPin::Enable { ttl_ms: Some(7_000) },
            2 => SoftPin::Enable { ttl_ms: None },
            4 => SoftPin::Disable,
            _ => SoftPin::Preserve,
        };
        let excluded: Vec<SegmentId> =
            start.exclude.iter().flat_map(|&id| self.segments_called(id)).collect();
        let config = ReplicateConfig {
            replica_num: start.replicas,
            soft_pin,
            hard_pin: start.pin == 3,
            excluded_segments: excluded.clone(),
            ..ReplicateConfig::default()
        };
        let key = name(start.key);
        let put = PutItem { group: start.group, ..PutItem::new(&key, start.len) };
        let mode = if start.upsert { PutMode::Upsert } else { PutMode::Insert };
        let refused = self.refusal(&key, mode, start.group);
        let before = self.world.meta.stats().counters.evicted_bytes;
        let dearest = self.world.meta.dearest_victim();
        let result = self.world.begin(ClientId(start.client), put, config, mode);
        let evicted = self.world.meta.stats().counters.evicted_bytes - before;
        // With `offload_on_evict`, all other replicas of an object go at once when it sinks.
        if let Ok(placed) = &result
            && !self.config.offload_on_evict
        {
            let last = placed.what.placements.iter().map(|placement| placement.replica).max();
            self.has_evicted_little(start, u64::from(last.unwrap_or(0)) + 1, (evicted, dearest));
        }
        self.learn();
        match result {
            Err(ErrorCode::NoAvailableHandle) => {
                assert_eq!(refused, None, "{key}");
                self.is_refused_for_good(start, &excluded, before);
            }
            Err(ErrorCode::UnavailableInCurrentStatus) => {
                assert!(refused.is_none() && self.config.offload, "{key}");
                self.meet("a put was told to wait");
            }
            Err(ErrorCode::TenantQuotaExceeded) => {
                assert!(refused.is_none() && evicted == 0, "{key}");
                self.pins_too_much(start);
            }
            Err(other) => assert_eq!(Some(other), refused, "{key}"),
            Ok(placed) => {
                assert_eq!(refused, None, "{key}");
                self.granted(start, mode, placed, &excluded);
            }
        }
    }

    fn refusal(&self, key: &str, mode: PutMode, group: &str) -> Option<ErrorCode> {
        let holder = self.model.group_of(key)?;
        let is_readable = self.model.readable(key).is_some();
        match mode {
            PutMode::Insert if !is_readable && self.model.waiting(key).is_none() => None,
            PutMode::Insert => Some(ErrorCode::ObjectAlreadyExists),
            PutMode::Upsert if is_readable && self.model.has_task(key) => {
                Some(ErrorCode::ObjectHasReplicationTask)
            }
            PutMode::Upsert if !group.is_empty() && group != holder => {
                Some(ErrorCode::InvalidParams)
            }
            PutMode::Upsert => None,
        }
    }

    fn granted(
        &mut self,
        start: &Start,
        mode: PutMode,
        placed: Placed<Grant>,
        excluded: &[SegmentId],
    ) {
        let key = name(start.key);
        let extents = extents(&placed.what.placements, &placed.segments);
        self.ranges_are_free(&extents, excluded);
        let hidden = extents.iter().find(|extent| self.model.hidden.contains(&extent.0));
        assert_eq!(hidden, None, "nothing is granted out of sight");
        assert!(placed.what.version > self.model.last_version, "versions grow");
        self.model.last_version = placed.what.version;
        let put = Put {
            writer: ClientId(start.client),
            grant: placed.what,
            len: start.len,
            started: self.world.now,
            mode,
            hard: start.pin == 3,
            group: match mode {
                PutMode::Insert => start.group,
                PutMode::Upsert => self.model.group_of(&key).unwrap_or(start.group),
            },
            granted: extents.clone(),
            overtaken: false,
            extents,
            key,
        };
        self.model.running.push(put);
    }

    /// A tenant that was refused a hard pin would have pinned more than it is guaranteed.
    fn pins_too_much(&mut self, start: &Start) {
        let key = name(start.key);
        // An upsert inherits the hard pin of what it replaces, even if that is out of sight or still running.
        let is_pinned = self.model.objects.get(&key).is_some_and(|object| object.hard)
            || self.model.running.iter().any(|put| put.key == key && put.hard)
            || self.world.meta.peek(&key).is_some_and(|report| report.hard_pin);
        assert!(start.pin == 3 || start.upsert && is_pinned, "{key} is not pinned");
        let tenant = self.world.meta.tenant(split_tenant(&key).0).expect("it has a quota");
        let wanted = start.len * u64::from(start.replicas);
        assert!(tenant.pinned_bytes + wanted > tenant.guaranteed_bytes, "{key}: {tenant:?}");
        self.meet("a hard pin was refused for a quota");
    }

    /// A refused put evicts nothing, and no eviction at its price could have made room for it.
    fn is_refused_for_good(&mut self, start: &Start, excluded: &[SegmentId], evicted: u64) {
        let pinned = |object: &Object| object.hard && !object.group.is_empty();
        if self.model.objects.values().any(pinned) {
            self.meet("a pinned group stayed");
        }
        if self.config.allocator == AllocatorKind::Offset {
            let now = self.world.meta.stats().counters.evicted_bytes;
            assert_eq!(now, evicted, "a put that was refused evicted something");
            self.world.meta.check_refusal(start.len, excluded).unwrap();
        }
    }

    /// For each replica, a put evicts at most four times its length, or one object or group. An evicted group takes
    /// replicas along that no reader can reach and that the model does not count; `dearest` bounds those.
    fn has_evicted_little(&self, start: &Start, replicas: u64, (evicted, dearest): (u64, u64)) {
        let mut units: BTreeMap<&str, u64> = BTreeMap::new();
        for (key, object) in &self.model.objects {
            let unit = if object.group.is_empty() { key } else { object.group };
            let bytes = object.extents.iter().map(|extent| extent.2).sum::<u64>();
            *units.entry(unit).or_default() += bytes;
        }
        let one = units.into_values().max().unwrap_or(0).max(dearest);
        let most = match self.config.allocator {
            AllocatorKind::Offset => (4 * start.len).max(one),
            // With slabs, the master learns only after an eviction whether a slab is free.
            AllocatorKind::Cachelib => 4 * start.len + one,
        };
        let most = replicas * most;
        assert!(evicted <= most, "{evicted} bytes were evicted for {start:?}");
    }

    fn pick(&self, nth: u64) -> Option<usize> {
        let count = self.model.running.len();
        (count > 0).then(|| nth as usize % count)
    }

    pub(crate) fn end(&mut self, nth: u64, failed: u32, stranger: bool) {
        let Some(place) = self.pick(nth) else { return };
        let put = self.model.running[place].clone();
        if stranger {
            let result = self.world.end(ClientId(99), &put.key, &put.grant, 0);
            assert_eq!(result, Err(ErrorCode::IllegalClient));
            return;
        }
        let replaced = self.world.meta.stats().leased_tombstones;
        let result = self.world.end(put.writer, &put.key, &put.grant, failed);
        if self.world.meta.stats().leased_tombstones > replaced {
            self.meet("an upsert replaced a leased object");
        }
        if result == Err(ErrorCode::IllegalClient) {
            // The writer was declared dead and has returned as another client.
            return;
        }
        self.model.running.remove(place);
        match (result, put.overtaken, put.mode) {
            (Ok(()), false, _) => self.ended(&put, failed),
            (Ok(()), true, PutMode::Upsert) => self.meet("an upsert was overtaken"),
            (Err(ErrorCode::ObjectAlreadyExists), true, PutMode::Insert) => {
                self.meet("an insert came too late");
            }
            // Every replica failed, or lies on a segment that left.
            (Err(ErrorCode::ObjectNotFound), false, _) => {
                let kept = |p: &Placement| failed & 1 << p.replica == 0;
                let whole = put.extents.len() == put.grant.placements.len();
                assert!(!(whole && put.grant.placements.iter().any(kept)), "{put:?} was lost");
            }
            _ => panic!("{result:?}, but {put:?}"),
        }
    }

    fn ended(&mut self, put: &Put, failed: u32) {
        let kept = put.kept(failed);
        let older =
            |other: &&mut Put| other.key == put.key && other.grant.version < put.grant.version;
        self.model.running.iter_mut().filter(older).for_each(|other| other.overtaken = true);
        let old = self.model.objects.remove(&put.key);
        match &old {
            Some(old) if self.model.is_out_of_sight(old) => {
                self.meet("a put took the place of what was out of sight");
            }
            Some(_) => self.meet("an upsert replaced an object"),
            None => {}
        }
        assert!(old.as_ref().is_none_or(|old| old.version < put.grant.version), "versions grow");
        let object = Object {
            writer: put.writer,
            version: put.grant.version,
            len: put.len,
            ended: self.world.now,
            leased_until: self.world.now,
            spared_until: self.world.now,
            hard: put.hard || old.is_some_and(|old| old.hard && put.mode == PutMode::Upsert),
            group: put.group,
            extents: kept,
        };
        let report = self.world.meta.peek(&put.key).filter(|report| report.complete);
        if let Some(report) = report {
            assert_eq!(report.located.version, put.grant.version);
            let left = extents(&report.located.placements, &report.segments);
            assert_eq!(left, self.model.replicas_in_sight(&object).concat(), "{}", put.key);
        } else {
            assert!(self.world.meta.is_out_of_sight(&put.key), "an ended put is there");
            assert!(self.model.is_out_of_sight(&object), "{object:?} is in sight");
        }
        self.model.objects.insert(put.key.clone(), object);
    }

    pub(crate) fn revoke(&mut self, nth: u64) {
        let Some(place) = self.pick(nth) else { return };
        let put = &self.model.running[place];
        // Some replicas' ranges are pinned at their node, so the master grants them later.
        let held_replicas = if nth.is_multiple_of(4) { nth as u32 >> 2 } else { 0 };
        let revoked = PutRevoke { held_replicas, ..PutRevoke::new(&put.key, put.grant.version) };
        match self.world.give_up(put.writer, revoked) {
            Ok(()) => {
                self.model.running.remove(place);
            }
            Err(ErrorCode::IllegalClient) => {}
            Err(other) => panic!("{other}"),
        }
    }
}
