//! Nodes that leave sight and return, compared with the model.

use std::collections::BTreeSet;

use mooncake_meta::SegmentReport;
use mooncake_types::{ClientId, Medium, SegmentId, SegmentState};

use crate::FIRST_IN_RACKS;
use crate::action::segments_of;
use crate::model::{Extent, Model, Object, Run};

/// The ranges of an object, grouped by replica.
pub(crate) fn replicas(object: &Object) -> Vec<Vec<Extent>> {
    let (mut all, mut replica, mut len) = (Vec::new(), Vec::new(), 0);
    for extent in &object.extents {
        replica.push(*extent);
        len += extent.2;
        if len == object.len {
            all.push(std::mem::take(&mut replica));
            len = 0;
        }
    }
    assert_eq!(len, 0, "{object:?} has half a replica");
    all
}

/// The distance between the ids that a segment takes in turn.
const NEW_NAME: u128 = 1 << 40;

impl Run {
    fn called(&self, id: SegmentId) -> SegmentId {
        SegmentId(id.0 + self.renamed.get(&id).copied().unwrap_or(0) * NEW_NAME)
    }

    pub(crate) fn segments_called(&self, id: u128) -> [SegmentId; 3] {
        segments_of(id).map(|id| self.called(id))
    }

    /// A node whose segment may not return under its id mounts it under a new one.
    pub(crate) fn mount(&mut self, client: ClientId, id: u128, len: u64) {
        let id = SegmentId(id);
        let medium = self.medium_of(id);
        let domains = self.domains_of(id);
        let domains: Vec<&str> = domains.iter().map(String::as_str).collect();
        let mounted = self.world.mount_in(medium, client, self.called(id).0, len, &domains);
        let is_there = |it: &SegmentReport| it.id == self.called(id);
        if mounted.is_err() && !self.world.meta.segments().iter().any(is_there) {
            *self.renamed.entry(id).or_default() += 1;
            let _ = self.world.mount_in(medium, client, self.called(id).0, len, &domains);
        }
    }

    /// In some worlds, segments lie in racks and zones, and change their rack from time to time.
    fn domains_of(&self, id: SegmentId) -> Vec<String> {
        let moved = self.world.now.0 / 60_000 % 2;
        let rack = format!("rack={}", (id.0 + u128::from(moved)) % 3);
        let zone = format!("zone={}", id.0 % 2);
        if self.config.seed < FIRST_IN_RACKS { vec![] } else { vec![rack, zone] }
    }

    /// In worlds with offload, some segments are disks.
    fn medium_of(&self, id: SegmentId) -> Medium {
        match self.config.offload && id.0 / 1_000_000 % 3 == 2 {
            true => Medium::Disk,
            false => Medium::Memory,
        }
    }
}

impl Model {
    fn is_hidden(&self, replica: &[Extent]) -> bool {
        replica.iter().any(|extent| self.hidden.contains(&extent.0))
    }

    /// Whether an object has replicas, and all of them are out of sight.
    pub(crate) fn is_out_of_sight(&self, object: &Object) -> bool {
        let replicas = replicas(object);
        !replicas.is_empty() && replicas.iter().all(|replica| self.is_hidden(replica))
    }

    /// The object under this key, if readers can get it.
    pub(crate) fn readable(&self, key: &str) -> Option<&Object> {
        self.objects.get(key).filter(|object| !self.is_out_of_sight(object))
    }

    /// The replicas that readers are told of.
    pub(crate) fn replicas_in_sight(&self, object: &Object) -> Vec<Vec<Extent>> {
        let in_sight = |replica: &Vec<Extent>| !self.is_hidden(replica);
        replicas(object).into_iter().filter(in_sight).collect()
    }

    /// The ranges that an object certainly has. A replica that is partly out of sight may have been evicted, with its
    /// ranges in sight.
    pub(crate) fn certain_extents(&self, object: &Object) -> Vec<Extent> {
        let is_certain = |replica: &Vec<Extent>| {
            let hidden = replica.iter().filter(|extent| self.hidden.contains(&extent.0)).count();
            hidden == 0 || hidden == replica.len()
        };
        replicas(object).into_iter().filter(is_certain).flatten().collect()
    }

    /// The ranges that an object may still have, now that the master names these. Replicas out of sight keep theirs.
    pub(crate) fn known_extents(
        &self,
        object: &Object,
        named: &[Extent],
        mounted: &[SegmentId],
    ) -> Vec<Extent> {
        let stays = |replica: &Vec<Extent>| {
            let is_named = replica.iter().all(|extent| named.contains(extent));
            let is_mounted = replica.iter().all(|extent| mounted.contains(&extent.0));
            is_named || (is_mounted && self.is_hidden(replica))
        };
        replicas(object).into_iter().filter(stays).flatten().collect()
    }
}

impl Run {
    pub(crate) fn disconnect(&mut self, client: ClientId) {
        self.world.disconnect(client);
        let lent = self.world.meta.segments().into_iter().filter(|s| s.client == client);
        assert!(lent.into_iter().all(|segment| !segment.in_sight), "{client} is out of sight");
    }

    pub(crate) fn ping(&mut self, client: ClientId) {
        self.world.ping(client, &[]);
        self.world.fetch_drops(client);
        let lent = self.world.meta.segments().into_iter().filter(|s| s.client == client);
        // Once its grace period has ended, a segment is out of sight for all readers.
        let mut lent = lent.filter(|s| s.state != SegmentState::GracefullyUnmounting);
        assert!(lent.all(|segment| segment.in_sight), "{client} is in sight");
    }

    /// Adopts which segments are out of sight.
    pub(crate) fn learn_of_sight(&mut self) {
        let reports = self.world.meta.segments();
        let hidden = reports.iter().filter(|report| !report.in_sight).map(|report| report.id);
        let hidden: BTreeSet<SegmentId> = hidden.collect();
        let before = std::mem::replace(&mut self.model.hidden, hidden);
        for key in (0..crate::action::KEYS).map(crate::action::name) {
            let Some(object) = self.model.objects.get(&key) else { continue };
            let was_hidden = object.extents.iter().any(|extent| before.contains(&extent.0));
            let is_hidden = self.model.is_out_of_sight(object);
            match (was_hidden, is_hidden) {
                (false, true) => self.meet("an object went out of sight"),
                (true, false) => self.meet("an object came back into sight"),
                _ => {}
            }
        }
    }
}
