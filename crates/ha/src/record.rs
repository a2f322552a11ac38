use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mooncake_types::{
    Epoch, OverruledFilter, OverruledKey, OverruledKeys, SegmentId, Version, limits,
};
use serde::{Deserialize, Serialize};

/// The name of the format in the text of a record.
const FORMAT: &str = "mooncake-membership";

/// The version of the text's layout.
const LAYOUT: u32 = 1;

/// Upper limit for the text without the ids, in bytes.
const HEAD_BYTES: usize = 1024;

/// Bytes of an id in the text: 32 digits in quotes, and a comma.
const ID_BYTES: usize = 35;

/// Bytes of an overruled key in the text: five numbers of up to 20 digits, and what is between them.
const HASH_BYTES: usize = 108;

/// Bytes of the filter of overruled keys in the text.
const FILTER_BYTES: usize = OverruledFilter::BYTES.div_ceil(3) * 4;

/// A segment whose content counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// The id of its incarnation.
    pub segment: SegmentId,
    /// Since when objects in it may have been removed or replaced without it, if that is so. The default version
    /// stands for a time from which no later leader can tell what it lacks.
    pub behind: Option<Version>,
    /// Whether it lies on a disk, in a shared directory or in an object store, and so outlives its process.
    pub is_disk: bool,
    /// Whether an operator has drained it: the next leader does so again.
    pub is_drained: bool,
}

/// One change of a record. Repeating it changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Makes the segment a member. Changes nothing if it is one already.
    Join(SegmentId),
    /// Makes a segment that outlives its process a member.
    JoinDisk(SegmentId),
    /// Removes the segment from the members: its content is lost.
    Strike(SegmentId),
    /// Marks the segment as behind since this version, if it is a member. A segment that is behind for longer stays so.
    MarkBehind(SegmentId, Version),
    /// Removes that mark, if the segment is a member.
    CaughtUp(SegmentId),
    /// Marks the segment as drained, if it is a member.
    Drain(SegmentId),
    /// Removes that mark, if the segment is a member.
    Undrain(SegmentId),
    /// Overrules versions of the key with this hash, on segments that are behind. Once none is behind, no key is
    /// overruled.
    Overrule(u64, OverruledKey),
    /// Raises the record's epoch to one that was seen elsewhere, so that later leaders get higher ones. Never lowers
    /// it.
    RaiseEpoch(Epoch),
}

/// The membership record: what must outlive every master.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    fresh: bool,
    epoch: Epoch,
    members: BTreeMap<SegmentId, Member>,
    overruled: OverruledKeys,
    /// The last leader gave the leadership back before its lease was over.
    is_resigned: bool,
    /// The leader before this one did so.
    follows_resigned: bool,
}

#[derive(Serialize, Deserialize)]
struct Head {
    format: String,
    layout: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    format: String,
    layout: u32,
    checksum: u64,
    content: Content,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    cluster_id: String,
    epoch: u64,
    members: Vec<String>,
    behind: Vec<String>,
    /// Ids, epochs and counters of those behind whose changes later leaders can tell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    behind_since: Vec<(String, u64, u64)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    overruled: Vec<(u64, [u64; 4])>,
    /// The bits of the filter with further overruled keys, and what it says about all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    overruled_filter: Option<(String, [u64; 4])>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    disks: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    drained: Vec<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    resigned: bool,
}

impl Content {
    fn checksum(&self) -> u64 {
        let text = serde_json::to_vec(self).unwrap_or_default();
        crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &text)
    }
}

impl Record {
    /// The record of a cluster that never had a leader.
    #[must_use]
    pub fn empty() -> Self {
        Self { fresh: true, ..Self::default() }
    }

    /// Whether the cluster had no leader before the leadership of this record.
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// The highest epoch that led, or was seen.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// All members, in the order of their ids.
    pub fn members(&self) -> impl ExactSizeIterator<Item = Member> + '_ {
        self.members.values().copied()
    }

    /// The member of this id.
    #[must_use]
    pub fn member(&self, segment: SegmentId) -> Option<Member> {
        self.members.get(&segment).copied()
    }

    /// The keys that are overruled on segments that are behind.
    #[must_use]
    pub const fn overruled(&self) -> &OverruledKeys {
        &self.overruled
    }

    /// Approximate length of its text, in bytes.
    pub(crate) fn about_bytes(&self) -> usize {
        let ids = |member: &Member| {
            let since = member.behind.map(|since| since != Version::default());
            let behind = since.map_or(0, |is_told| 1 + 2 * usize::from(is_told));
            1 + behind + usize::from(member.is_disk) + usize::from(member.is_drained)
        };
        let ids = self.members.values().map(ids).sum::<usize>();
        let filter = self.overruled.filter().map_or(0, |_| HASH_BYTES + FILTER_BYTES);
        HEAD_BYTES + ids * ID_BYTES + self.overruled.single().len() * HASH_BYTES + filter
    }

    /// Applies one change.
    pub fn apply(&mut self, change: Change) {
        match change {
            Change::Join(segment) => _ = self.join(segment),
            Change::JoinDisk(segment) => self.join(segment).is_disk = true,
            Change::Strike(segment) => {
                self.members.remove(&segment);
                self.forget_overruled();
            }
            Change::MarkBehind(segment, since) => self.set_behind(segment, Some(since)),
            Change::CaughtUp(segment) => self.set_behind(segment, None),
            Change::Overrule(hash, key) => {
                self.overruled.add(hash, key);
                self.forget_overruled();
            }
            Change::Drain(segment) => self.set_drained(segment, true),
            Change::Undrain(segment) => self.set_drained(segment, false),
            Change::RaiseEpoch(epoch) => self.epoch = self.epoch.max(epoch),
        }
    }

    fn join(&mut self, segment: SegmentId) -> &mut Member {
        let member = Member { segment, behind: None, is_disk: false, is_drained: false };
        self.members.entry(segment).or_insert(member)
    }

    fn set_behind(&mut self, segment: SegmentId, since: Option<Version>) {
        if let Some(found) = self.members.get_mut(&segment) {
            found.behind = match (found.behind, since) {
                (Some(before), Some(since)) => Some(before.min(since)),
                _ => since,
            };
        }
        self.forget_overruled();
    }

    /// No key is overruled unless a segment is behind.
    fn forget_overruled(&mut self) {
        if !self.overruled.is_empty() && self.members.values().all(|it| it.behind.is_none()) {
            self.overruled.clear();
        }
    }

    fn set_drained(&mut self, segment: SegmentId, is_drained: bool) {
        if let Some(found) = self.members.get_mut(&segment) {
            found.is_drained = is_drained;
        }
    }

    /// Leaves out what later leaders need to let segments catch up: those that are behind will start empty under them.
    pub(crate) fn shorten(&mut self) {
        self.overruled.clear();
        let behind = self.members.values_mut().filter(|member| member.behind.is_some());
        behind.for_each(|member| member.behind = Some(Version::default()));
    }

    /// The record of the next leader, whose wall clock shows `now`.
    pub(crate) fn succeed(&self, now: Epoch) -> Self {
        self.under(self.epoch.next(now))
    }

    /// The record of the next leader, under this epoch.
    pub(crate) fn under(&self, epoch: Epoch) -> Self {
        let fresh = self.epoch == Epoch(0);
        let (is_resigned, follows_resigned) = (false, self.is_resigned);
        Self { fresh, epoch, is_resigned, follows_resigned, ..self.clone() }
    }

    /// The record of a leader that gives the leadership back.
    pub(crate) fn resigned(&self) -> Self {
        Self { is_resigned: true, ..self.clone() }
    }

    /// Whether the previous leader gave the leadership back before its lease was over.
    pub(crate) fn follows_resigned(&self) -> bool {
        self.follows_resigned
    }

    pub(crate) fn encode(&self, cluster_id: &str) -> String {
        let content = Content {
            cluster_id: cluster_id.to_owned(),
            epoch: self.epoch.0,
            members: self.members.keys().map(ToString::to_string).collect(),
            behind: self.ids_of(|member| member.behind.is_some()),
            behind_since: self.members().filter_map(since_text).collect(),
            overruled: self.overruled.single().iter().map(overruled_text).collect(),
            overruled_filter: self.overruled.filter().map(filter_text),
            disks: self.ids_of(|member| member.is_disk),
            drained: self.ids_of(|member| member.is_drained),
            resigned: self.is_resigned,
        };
        let written = Written {
            format: FORMAT.to_owned(),
            layout: LAYOUT,
            checksum: content.checksum(),
            content,
        };
        serde_json::to_string(&written).unwrap_or_default()
    }

    fn ids_of(&self, has_mark: impl Fn(&Member) -> bool) -> Vec<String> {
        self.members().filter(has_mark).map(|member| member.segment.to_string()).collect()
    }

    /// Decodes a record.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub(crate) fn decode(text: &[u8], cluster_id: &str) -> Result<Self, String> {
        let no_record = |error: serde_json::Error| format!("it is no membership record ({error})");
        let head: Head = serde_json::from_slice(text).map_err(no_record)?;
        if head.format != FORMAT {
            return Err(format!("it is no membership record but {:?}", head.format));
        }
        if head.layout != LAYOUT {
            return Err(format!("its layout is {}; this version reads {LAYOUT}", head.layout));
        }
        let Written { checksum, content, .. } = serde_json::from_slice(text).map_err(no_record)?;
        if checksum != content.checksum() {
            return Err("its checksum is wrong: it was damaged or edited".to_owned());
        }
        if content.cluster_id != cluster_id {
            return Err(format!("it is that of the cluster {:?}", content.cluster_id));
        }
        Self::from_content(&content)
    }

    fn from_content(content: &Content) -> Result<Self, String> {
        if content.epoch == 0 || Epoch(content.epoch) > limits::HIGHEST_EPOCH {
            return Err(format!("its epoch is {}", content.epoch));
        }
        let members = parse_ids(&content.members)?;
        let behind = parse_ids(&content.behind)?;
        let disks = parse_ids(&content.disks)?;
        let drained = parse_ids(&content.drained)?;
        if [&behind, &disks, &drained].iter().any(|marked| !marked.is_subset(&members)) {
            return Err("a segment that is behind, drained or a disk is no member".to_owned());
        }
        let since = parse_since(&content.behind_since)?;
        if !since.keys().all(|segment| behind.contains(segment)) {
            return Err("a segment that is not behind is so since a version".to_owned());
        }
        if content.overruled.len() > limits::MAX_OVERRULED_KEYS {
            return Err(format!("it overrules {} keys", content.overruled.len()));
        }
        let member = |segment: SegmentId| Member {
            segment,
            behind: behind
                .contains(&segment)
                .then(|| since.get(&segment).copied().unwrap_or_default()),
            is_disk: disks.contains(&segment),
            is_drained: drained.contains(&segment),
        };
        let members = members.iter().map(|&id| (id, member(id))).collect();
        let (epoch, is_resigned) = (Epoch(content.epoch), content.resigned);
        let single = content.overruled.iter().map(|&(hash, numbers)| (hash, key_of(numbers)));
        let filter = content.overruled_filter.as_ref().map(parse_filter).transpose()?;
        let overruled = OverruledKeys::new(single.collect(), filter);
        Ok(Self { fresh: false, epoch, members, overruled, is_resigned, follows_resigned: false })
    }
}

/// A member that is behind since a version, for the record's text.
fn since_text(member: Member) -> Option<(String, u64, u64)> {
    let since = member.behind.filter(|&since| since != Version::default())?;
    Some((member.segment.to_string(), since.epoch.0, since.counter))
}

/// An overruled key, for the record's text.
fn overruled_text((&hash, key): (&u64, &OverruledKey)) -> (u64, [u64; 4]) {
    (hash, numbers_of(key))
}

fn numbers_of(key: &OverruledKey) -> [u64; 4] {
    [key.until.epoch.0, key.until.counter, key.at.epoch.0, key.at.counter]
}

fn key_of([epoch, counter, at_epoch, at_counter]: [u64; 4]) -> OverruledKey {
    OverruledKey { until: version(epoch, counter), at: version(at_epoch, at_counter) }
}

/// The filter with further overruled keys, for the record's text.
fn filter_text(filter: &OverruledFilter) -> (String, [u64; 4]) {
    (STANDARD.encode(filter.bits()), numbers_of(&filter.key()))
}

fn parse_filter((bits, numbers): &(String, [u64; 4])) -> Result<OverruledFilter, String> {
    let bits = STANDARD.decode(bits).map_err(|error| format!("its filter: {error}"))?;
    let filter = OverruledFilter::new(bits, key_of(*numbers));
    filter.ok_or_else(|| "its filter has another length".to_owned())
}

fn version(epoch: u64, counter: u64) -> Version {
    Version { epoch: Epoch(epoch), counter }
}

fn parse_since(texts: &[(String, u64, u64)]) -> Result<BTreeMap<SegmentId, Version>, String> {
    let ids: Vec<String> = texts.iter().map(|(id, ..)| id.clone()).collect();
    parse_ids(&ids)?;
    let versions = texts.iter().map(|&(_, epoch, counter)| version(epoch, counter));
    let ids = ids.iter().map(|id| SegmentId(u128::from_str_radix(id, 16).unwrap_or_default()));
    Ok(ids.zip(versions).collect())
}

fn parse_ids(texts: &[String]) -> Result<BTreeSet<SegmentId>, String> {
    let mut ids = BTreeSet::new();
    for text in texts {
        let number = u128::from_str_radix(text, 16);
        let number = number.map_err(|_| format!("{text:?} is no id of a segment"))?;
        if !ids.insert(SegmentId(number)) {
            return Err(format!("the segment {text} stands in it twice"));
        }
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SINCE: Version = Version { epoch: Epoch(6), counter: 7 };

    fn record() -> Record {
        let mut record = Record::empty().succeed(Epoch(7));
        for change in [
            Change::Join(SegmentId(2)),
            Change::Join(SegmentId(1)),
            Change::Join(SegmentId(3)),
            Change::MarkBehind(SegmentId(3), SINCE),
            Change::MarkBehind(SegmentId(9), SINCE),
            Change::Overrule(5, OverruledKey { until: SINCE, at: SINCE }),
        ] {
            record.apply(change);
        }
        record
    }

    fn member(id: u128, behind: bool) -> Member {
        let behind = behind.then_some(SINCE);
        Member { segment: SegmentId(id), behind, is_disk: false, is_drained: false }
    }

    #[test]
    fn changes_are_what_they_say_and_may_be_repeated() {
        let all = [member(1, false), member(2, false), member(3, true)];
        for (change, expected) in [
            (Change::Join(SegmentId(3)), all.to_vec()),
            (Change::Strike(SegmentId(2)), vec![all[0], all[2]]),
            (Change::Strike(SegmentId(9)), all.to_vec()),
            (Change::MarkBehind(SegmentId(1), SINCE), vec![member(1, true), all[1], all[2]]),
            (Change::CaughtUp(SegmentId(3)), vec![all[0], all[1], member(3, false)]),
            (Change::CaughtUp(SegmentId(9)), all.to_vec()),
        ] {
            for times in 1..3 {
                let mut record = record();
                (0..times).for_each(|_| record.apply(change));
                assert_eq!(record.members().collect::<Vec<_>>(), expected, "{change:?}");
            }
        }
    }

    #[test]
    fn a_disk_is_recorded_as_one_and_a_record_without_disks_is_what_earlier_versions_wrote() {
        let without = record();
        assert!(!without.encode("a").contains("disks"));
        let mut with = record();
        for segment in [SegmentId(3), SegmentId(5)] {
            with.apply(Change::JoinDisk(segment));
            with.apply(Change::Join(segment));
        }
        let disk = |id, behind| Member { is_disk: true, ..member(id, behind) };
        let expected = [member(1, false), member(2, false), disk(3, true), disk(5, false)];
        assert_eq!(with.members().collect::<Vec<_>>(), expected);
        let read = Record::decode(with.encode("a").as_bytes(), "a").expect("it was just written");
        assert_eq!(read.members().collect::<Vec<_>>(), expected);
        with.apply(Change::Strike(SegmentId(3)));
        with.apply(Change::Strike(SegmentId(5)));
        assert!(!with.encode("a").contains("disks"));
    }

    #[test]
    fn a_drain_is_recorded_until_it_is_undone_and_a_record_without_drains_is_what_earlier_versions_wrote()
     {
        let mut record = record();
        assert!(!record.encode("a").contains("drained"));
        record.apply(Change::Drain(SegmentId(1)));
        record.apply(Change::Drain(SegmentId(9)));
        let read = Record::decode(record.encode("a").as_bytes(), "a").expect("it was just written");
        let drained = Member { is_drained: true, ..member(1, false) };
        let expected = [drained, member(2, false), member(3, true)];
        assert_eq!(read.members().collect::<Vec<_>>(), expected);
        record.apply(Change::Undrain(SegmentId(1)));
        assert!(!record.encode("a").contains("drained"));
    }

    #[test]
    fn keys_that_have_no_room_one_by_one_are_in_a_filter_that_is_as_it_was_written() {
        let mut record = record();
        assert!(!record.encode("a").contains("filter"));
        let key = OverruledKey { until: SINCE, at: SINCE };
        let hash = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (0..3_000).for_each(|number| record.apply(Change::Overrule(hash(number), key)));
        let text = record.encode("a");
        assert!(text.len() <= record.about_bytes(), "{} of {}", text.len(), record.about_bytes());
        let read = Record::decode(text.as_bytes(), "a").expect("it was just written");
        assert_eq!(read.overruled(), record.overruled());
        let is_covered = |number| read.overruled().covers(hash(number), SINCE, SINCE);
        assert!((0..3_000).all(is_covered));
        assert!((3_000..4_000).filter(|&number| is_covered(number)).count() < 20);
        record.apply(Change::CaughtUp(SegmentId(3)));
        assert!(record.overruled().is_empty() && !record.encode("a").contains("filter"));
    }

    #[test]
    fn an_epoch_is_raised_and_never_lowered() {
        let mut record = record();
        let epochs = [9, 8, 9].map(|epoch| {
            record.apply(Change::RaiseEpoch(Epoch(epoch)));
            record.epoch().0
        });
        assert_eq!(epochs, [9, 9, 9]);
    }

    /// Epochs up to 2^61 may be in records of earlier versions. Such a cluster counts on from there.
    #[test]
    fn a_record_that_an_earlier_version_raised_is_read_and_followed() {
        let mut record = record();
        record.apply(Change::RaiseEpoch(Epoch(1 << 61)));
        let read = Record::decode(record.encode("a").as_bytes(), "a");
        assert_eq!(read.map(|read| read.epoch()), Ok(Epoch(1 << 61)));
        let next = record.succeed(Epoch(1));
        assert_eq!(next.epoch(), Epoch((1 << 61) + 1));
        assert_eq!(Record::decode(next.encode("a").as_bytes(), "a"), Ok(next));
    }

    #[test]
    fn a_clock_that_is_far_ahead_does_not_carry_the_record_away() {
        let ahead = Epoch(7 + limits::MAX_EPOCH_JUMP + 1);
        assert_eq!(record().succeed(ahead).epoch(), Epoch(7 + limits::MAX_EPOCH_JUMP));
        assert_eq!(Record::empty().succeed(ahead).epoch(), ahead, "nothing else is known");
    }

    #[test]
    fn a_successor_has_a_higher_epoch_and_the_same_members() {
        let first = Record::empty().succeed(Epoch(5));
        assert_eq!((first.is_fresh(), first.epoch()), (true, Epoch(5)));
        let second = record().succeed(Epoch(5));
        assert_eq!((second.is_fresh(), second.epoch()), (false, Epoch(8)));
        assert!(second.members().eq(record().members()));
    }

    #[test]
    fn a_resignation_is_known_to_the_next_leader_and_to_no_later_one() {
        let read = |record: &Record| {
            Record::decode(record.encode("a").as_bytes(), "a").expect("it is sound")
        };
        let next = read(&record().resigned()).succeed(Epoch(1));
        assert!(next.follows_resigned());
        assert!(!read(&next).succeed(Epoch(1)).follows_resigned());
        assert!(!read(&record()).succeed(Epoch(1)).follows_resigned());
    }

    #[test]
    fn a_record_comes_back_from_its_text() {
        let text = record().encode("a cluster");
        let expected = Record { fresh: false, ..record() };
        assert_eq!(Record::decode(text.as_bytes(), "a cluster"), Ok(expected));
    }

    #[test]
    fn a_record_in_which_a_byte_has_changed_is_not_believed() {
        let good = record().encode("a").into_bytes();
        for place in 0..good.len() {
            for other in [good[place] ^ 1, good[place] ^ 0x20, b'"', b'0', b' ', 0, 255] {
                let mut text = good.clone();
                text[place] = other;
                let read = Record::decode(&text, "a");
                assert!(other == good[place] || read.is_err(), "{other} at {place}: {read:?}");
            }
            assert!(Record::decode(&good[..place], "a").is_err(), "{place} bytes");
        }
    }

    #[test]
    fn what_is_no_record_is_refused_with_the_reason() {
        let good = record().encode("a");
        let sealed = |content: Content| {
            let checksum = content.checksum();
            let written = Written { format: FORMAT.into(), layout: LAYOUT, checksum, content };
            serde_json::to_string(&written).expect("plain text")
        };
        let content = |epoch, members: &[&str], behind: &[&str]| {
            let own = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
            let (members, behind) = (own(members), own(behind));
            Content {
                cluster_id: "a".into(),
                epoch,
                members,
                behind,
                behind_since: vec![],
                overruled: vec![],
                overruled_filter: None,
                disks: vec![],
                drained: vec![],
                resigned: false,
            }
        };
        for (text, reason) in [
            (String::new(), "no membership record (EOF"),
            ("garbage".into(), "no membership record"),
            (good[..good.len() - 9].into(), "no membership record (EOF"),
            (good.replace(FORMAT, "other"), "no membership record but \"other\""),
            (good.replace("\"layout\":1", "\"layout\":2"), "its layout is 2; this version reads 1"),
            (good.replace("\"epoch\":7", "\"epoch\":6"), "its checksum is wrong"),
            (good.replace("\"content\"", "\"more\":1,\"content\""), "unknown field"),
            (record().encode("b"), "that of the cluster \"b\""),
            (sealed(content(0, &[], &[])), "its epoch is 0"),
            (sealed(content(u64::MAX, &[], &[])), "its epoch is 18446744073709551615"),
            (sealed(content(1, &["x"], &[])), "\"x\" is no id of a segment"),
            (sealed(content(1, &["1", "01"], &[])), "the segment 01 stands in it twice"),
            (
                sealed(content(1, &["1"], &["2"])),
                "a segment that is behind, drained or a disk is no member",
            ),
            (
                sealed(Content { disks: vec!["2".into()], ..content(1, &["1"], &[]) }),
                "a segment that is behind, drained or a disk is no member",
            ),
            (
                sealed(Content { drained: vec!["2".into()], ..content(1, &["1"], &[]) }),
                "a segment that is behind, drained or a disk is no member",
            ),
        ] {
            let refused = Record::decode(text.as_bytes(), "a").expect_err(&text);
            assert!(refused.contains(reason), "{text}: {refused}");
        }
    }
}
