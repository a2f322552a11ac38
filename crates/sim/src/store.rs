//! The coordinator: the lease, the membership record and the highest epoch that led. It outlives every master.

use std::collections::BTreeMap;

use mooncake_meta::{Effect, Member, RecordedMembers, written_hash, written_hash_of_version};
use mooncake_types::{Epoch, OverruledKeys, SegmentId, Version};

use crate::ids::Process;

#[derive(Debug)]
pub(crate) struct Store {
    members: BTreeMap<SegmentId, Member>,
    overruled: OverruledKeys,
    /// Most overruled keys that it keeps.
    most_overruled: usize,
    epoch: Epoch,
    /// The holder of the lease, and until when no other may take it. `None` with a single master.
    lease: Option<(Process, u64)>,
    lease_us: u64,
}

impl Store {
    /// A store before the first leader.
    pub(crate) fn new(lease_us: u64, (most_single, most_filtered): (usize, usize)) -> Self {
        let members = BTreeMap::new();
        let overruled = OverruledKeys::with_most_single(most_single);
        let most_overruled = most_single + most_filtered;
        Self { members, overruled, most_overruled, epoch: Epoch(0), lease: None, lease_us }
    }

    /// The record that a new leader finds, and its epoch, which is `ahead` above the last one.
    pub(crate) fn lead(&mut self, ahead: u64) -> (RecordedMembers, Epoch) {
        let members = self.members.values().copied().collect();
        let overruled = self.overruled.clone();
        let record = RecordedMembers { fresh: self.epoch == Epoch(0), members, overruled };
        self.epoch = Epoch(self.epoch.0 + ahead);
        (record, self.epoch)
    }

    /// Gives the lease to a process, or renews it. False if another process holds it.
    pub(crate) fn hold(&mut self, process: Process, now_us: u64) -> bool {
        let is_free = self.lease.is_none_or(|(holder, until)| holder == process || until <= now_us);
        if is_free {
            self.lease = Some((process, now_us + self.lease_us));
        }
        is_free
    }

    /// Whether the record refuses writes of this process, since another one took the lease.
    pub(crate) fn fences(&self, process: Process) -> bool {
        self.lease.is_some_and(|(holder, _)| holder != process)
    }

    /// Applies a durable change.
    pub(crate) fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::Join(id) => _ = self.join(id),
            Effect::JoinDisk(id) => self.join(id).is_disk = true,
            Effect::Strike(id) => {
                self.members.remove(&id);
            }
            Effect::MarkBehind(id, since) => self.mark(id, Some(since)),
            Effect::CaughtUp(id) => self.mark(id, None),
            Effect::Overrule(hash, key) => self.overruled.add(hash, key),
        }
        if self.members.values().all(|member| member.behind.is_none()) {
            self.overruled.clear();
        }
    }

    /// Whether the record has a filter, and takes this version of a key for one that it overrules. So it may be, for the
    /// sake of other keys in the filter.
    pub(crate) fn is_filtered(&self, key: &str, version: Version) -> bool {
        let hashes = [written_hash(key), written_hash_of_version(version)];
        hashes.into_iter().any(|it| self.overruled.is_filtered(it, version, Version::default()))
    }

    /// Whether the record has as many overruled keys as it has room for.
    pub(crate) fn is_full(&self) -> bool {
        self.overruled.len() >= self.most_overruled
    }

    pub(crate) fn has_filter(&self) -> bool {
        self.overruled.filter().is_some()
    }

    /// The members that are behind since before this one.
    pub(crate) fn behind_before(&self, id: SegmentId) -> Vec<SegmentId> {
        let Some(member) = self.members.get(&id) else { return Vec::new() };
        let is_before = |other: &&Member| {
            other.behind.is_some_and(|it| member.behind.is_none_or(|since| it < since))
        };
        self.members.values().filter(is_before).map(|other| other.segment).collect()
    }

    /// The members that can tell what this one lacks, if it is behind.
    pub(crate) fn ahead_of(&self, id: SegmentId) -> Vec<SegmentId> {
        let Some(since) = self.members.get(&id).and_then(|member| member.behind) else {
            return Vec::new();
        };
        let is_ahead = |other: &&Member| other.behind.is_none_or(|it| it > since);
        self.members.values().filter(is_ahead).map(|other| other.segment).collect()
    }

    fn join(&mut self, segment: SegmentId) -> &mut Member {
        let member = Member { segment, behind: None, is_disk: false };
        self.members.entry(segment).or_insert(member)
    }

    fn mark(&mut self, id: SegmentId, since: Option<Version>) {
        if let Some(known) = self.members.get_mut(&id) {
            known.behind = match (known.behind, since) {
                (Some(before), Some(since)) => Some(before.min(since)),
                _ => since,
            };
        }
    }
}
