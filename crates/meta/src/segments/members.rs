//! The membership record, as far as the state machine knows it: the segments that may come back with their objects.
//!
//! The shell writes the durable record, which takes time. The state machine hands out the changes as [`Effect`]s.
//! Each takes effect when the shell says that it is recorded.

use std::collections::{BTreeMap, BTreeSet};

use mooncake_types::{Epoch, Medium, OverruledKey, OverruledKeys, SegmentId, Version};

use crate::touched::touch;

/// Newer than every version.
const NEWEST: Version = Version { epoch: Epoch(u64::MAX), counter: u64::MAX };

/// A change of the membership record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// The segment becomes a member. The shell records this by itself, before a mount: see
    /// [`Meta::effects_before`](crate::Meta::effects_before).
    Join(SegmentId),
    /// As `Join`, for a segment that outlives its process. It may be a member already, in a record of an earlier
    /// version.
    JoinDisk(SegmentId),
    /// The segment is a member no longer: its bytes count as lost, and it comes back empty if at all.
    Strike(SegmentId),
    /// The segment may lack changes since this version was granted. The default version stands for changes that no
    /// later leader can tell: under the next leader the segment starts empty.
    MarkBehind(SegmentId, Version),
    /// The segment lacks no changes any more.
    CaughtUp(SegmentId),
    /// Under the key with this hash of the record, or in the entries of the version with this hash, something is gone that
    /// later leaders could know from the segments in step. They believe no such entry on a segment that was behind by
    /// then.
    Overrule(u64, OverruledKey),
}

impl Effect {
    /// The change by which a segment of this medium joins.
    pub(crate) const fn join(id: SegmentId, medium: Medium) -> Effect {
        match medium {
            Medium::Memory => Self::Join(id),
            Medium::Disk | Medium::SharedDisk | Medium::ObjectStore => Self::JoinDisk(id),
        }
    }
}

/// The hash of a key in the membership record. It must never change: masters of other releases read it.
#[must_use]
pub fn written_hash(key: &str) -> u64 {
    hash_of(key.bytes())
}

/// The hash of a version in the membership record, for entries whose keys nobody named. Neither must it ever change.
#[must_use]
pub fn written_hash_of_version(version: Version) -> u64 {
    // No key has a byte of zeros, so no key has the same text.
    let numbers = [version.epoch.0, version.counter].into_iter().flat_map(u64::to_be_bytes);
    hash_of(std::iter::once(0).chain(numbers))
}

fn hash_of(bytes: impl Iterator<Item = u8>) -> u64 {
    // FNV-1a with 64 bits, whose high bits are then mixed into the low ones.
    let fnv = bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (fnv ^ fnv >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}

/// A segment in the membership record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Member {
    /// The segment.
    pub segment: SegmentId,
    /// Since when it may lack changes, if it is marked behind: see [`Effect::MarkBehind`].
    pub behind: Option<Version>,
    /// Whether it outlives its process: a disk, files in a shared directory, or a prefix of an object store.
    pub is_disk: bool,
}

/// The membership record as a new leader finds it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedMembers {
    /// Whether the record knows of no earlier leader. It then says nothing about the segments that exist.
    pub fresh: bool,
    /// Its members, in any order.
    pub members: Vec<Member>,
    /// Its overruled keys and versions: see [`Effect::Overrule`].
    pub overruled: OverruledKeys,
}

/// The members, and the changes that are not recorded yet.
#[derive(Debug, Default)]
pub(crate) struct Members {
    /// Whether a shell writes the record. If not, every change takes effect at once.
    pub(super) is_recorded: bool,
    pub(super) known: BTreeMap<SegmentId, Member>,
    /// The members that are behind since a version, the longest behind first. Later leaders let them catch up.
    trackable: BTreeSet<(Version, SegmentId)>,
    /// Those of them that do not catch up with this leader.
    lacking: BTreeSet<(Version, SegmentId)>,
    /// The newest version since when this leader had a member marked behind.
    pub(super) newest_mark: Version,
    /// How many members are behind.
    behind: usize,
    /// Those of them that catch up: this leader knows all their entries, and has removed ones dropped before it answers.
    catching_up: BTreeSet<SegmentId>,
    /// The overruled keys in the record.
    overruled: OverruledKeys,
    /// The overruled keys of this leader, recorded or not: their written hashes, by their hashes in the index. Overruled
    /// versions have no others than their written ones.
    written: BTreeMap<u64, u64>,
    /// Changes that are not recorded yet.
    pub(super) pending: BTreeSet<Effect>,
    /// How many of them overrule a key or version.
    pub(super) overruling: usize,
    /// Those of them that the shell has not taken yet.
    pub(super) effects: Vec<Effect>,
}

impl Members {
    pub(crate) fn recorded(record: &RecordedMembers) -> Self {
        let mut members = Self { is_recorded: true, ..Self::default() };
        for member in &record.members {
            members.known.insert(member.segment, *member);
            members.track(member.segment, None, member.behind);
        }
        members.overruled.clone_from(&record.overruled);
        members
    }

    /// Whether a member is marked behind; none if the segment is no member.
    pub(crate) fn is_behind(&self, id: SegmentId) -> Option<bool> {
        self.known.get(&id).map(|member| member.behind.is_some())
    }

    /// Since when a member is behind, if it is.
    pub(crate) fn behind_since(&self, id: SegmentId) -> Option<Version> {
        self.known.get(&id)?.behind
    }

    /// Since when changes may be missing on a member, the longest time: of those that later leaders let catch up, and
    /// that do not catch up with this one.
    pub(crate) fn oldest_lacking(&self) -> Option<Version> {
        self.lacking.first().map(|&(since, _)| since)
    }

    /// Whether a member is behind that later leaders let catch up.
    pub(crate) fn has_trackable(&self) -> bool {
        !self.trackable.is_empty()
    }

    pub(super) fn set_catching_up(&mut self, id: SegmentId, is_so: bool) {
        match is_so {
            true => _ = self.catching_up.insert(id),
            false => _ = self.catching_up.remove(&id),
        }
        let Some(since) = self.behind_since(id) else { return };
        match is_so || !self.trackable.contains(&(since, id)) {
            true => _ = self.lacking.remove(&(since, id)),
            false => _ = self.lacking.insert((since, id)),
        }
    }

    /// The members that are behind since before this version, of those that later leaders let catch up.
    pub(crate) fn behind_before(&self, version: Version) -> impl Iterator<Item = SegmentId> {
        let before = self.trackable.iter().take_while(move |(since, _)| *since < version);
        before.inspect(|_| touch()).map(|&(_, id)| id)
    }

    /// Whether the record overrules this version of a key on a segment that is behind since a version.
    pub(crate) fn is_overruled(&self, hash: u64, version: Version, since: Version) -> bool {
        self.overruled.covers(hash, version, since)
    }

    /// As [`Self::is_overruled`], as far as the filter says so.
    pub(crate) fn is_filtered(&self, hash: u64, version: Version, since: Version) -> bool {
        self.overruled.is_filtered(hash, version, since)
    }

    /// Whether the record overrules this version of a key on each segment that later leaders let catch up.
    pub(crate) fn is_overruled_on_all(&self, hash: u64, version: Version) -> bool {
        let newest_mark = self.trackable.last().map_or(Version::default(), |&(since, _)| since);
        self.is_overruled(hash, version, newest_mark)
    }

    pub(super) fn overrule(&mut self, hash: u64, key: OverruledKey) {
        if self.behind > 0 {
            self.overruled.add(hash, key);
        }
    }

    /// Whether the record is about to overrule versions of a key.
    pub(crate) fn is_overruling(&self, hash: u64) -> bool {
        let (none, all) = (OverruledKey::default(), OverruledKey { until: NEWEST, at: NEWEST });
        let of_key = Effect::Overrule(hash, none)..=Effect::Overrule(hash, all);
        self.pending.range(of_key).next().is_some()
    }

    pub(crate) fn has_overruled(&self) -> bool {
        !self.overruled.is_empty()
    }

    /// About how many keys are overruled, in the record and on their way there.
    pub(crate) fn overruled_keys(&self) -> usize {
        self.overruled.len() + self.overruling
    }

    /// Notes that this leader has a key or version overruled: its hash in the index, and its [written](written_hash) one.
    pub(crate) fn note_written(&mut self, hash: u64, written: u64) {
        self.written.insert(hash, written);
    }

    /// The written hash of the key with this hash in the index, if this leader had the key overruled.
    pub(crate) fn written(&self, hash: u64) -> Option<u64> {
        self.written.get(&hash).copied()
    }

    /// Marks a member behind, or ends its mark. A member that is behind for longer stays so. Once none is behind, no
    /// key is overruled.
    pub(super) fn set_behind(&mut self, id: SegmentId, since: Option<Version>) -> bool {
        touch();
        let Some(member) = self.known.get_mut(&id) else { return false };
        let before = member.behind;
        member.behind = match (before, since) {
            (Some(before), Some(since)) => Some(before.min(since)),
            _ => since,
        };
        let after = member.behind;
        self.track(id, before, after);
        true
    }

    pub(super) fn strike(&mut self, id: SegmentId) {
        touch();
        let member = self.known.remove(&id);
        self.track(id, member.and_then(|member| member.behind), None);
    }

    fn track(&mut self, id: SegmentId, before: Option<Version>, after: Option<Version>) {
        if let Some(since) = before {
            self.trackable.remove(&(since, id));
            self.lacking.remove(&(since, id));
        }
        if after.is_none() {
            self.catching_up.remove(&id);
        }
        if let Some(since) = after.filter(|&since| since != Version::default()) {
            self.trackable.insert((since, id));
            if !self.catching_up.contains(&id) {
                self.lacking.insert((since, id));
            }
        }
        self.behind += usize::from(after.is_some());
        self.behind -= usize::from(before.is_some());
        if self.behind == 0 {
            self.overruled.clear();
            self.written.clear();
        }
    }

    /// Whether the record says that a member outlives its process.
    pub(crate) fn is_disk(&self, id: SegmentId) -> bool {
        self.known.get(&id).is_some_and(|member| member.is_disk)
    }

    pub(super) fn join(&mut self, segment: SegmentId) -> &mut Member {
        let member = Member { segment, behind: None, is_disk: false };
        self.known.entry(segment).or_insert(member)
    }

    /// Whether the record is about to mark a member behind.
    pub(super) fn is_marking(&self, id: SegmentId) -> bool {
        let marks = Effect::MarkBehind(id, Version::default())..=Effect::MarkBehind(id, NEWEST);
        self.pending.range(marks).next().is_some()
    }

    /// Whether a member lacks nothing, and only the record still marks it behind.
    pub(crate) fn is_caught_up(&self, id: SegmentId) -> bool {
        self.is_pending(Effect::CaughtUp(id)) && !self.is_marking(id)
    }

    pub(crate) fn is_pending(&self, effect: Effect) -> bool {
        self.pending.contains(&effect)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Member> {
        self.known.values().inspect(|_| touch()).copied()
    }
}
