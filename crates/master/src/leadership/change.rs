//! Converts between effects of the state machine and changes of the membership record.

use mooncake_ha::{Change, Leadership};
use mooncake_meta::{Effect, Member, RecordedMembers};
use mooncake_types::SegmentId;

/// The change of the record for an effect.
pub(crate) fn change(effect: Effect) -> Change {
    match effect {
        Effect::Join(segment) => Change::Join(segment),
        Effect::JoinDisk(segment) => Change::JoinDisk(segment),
        Effect::Strike(segment) => Change::Strike(segment),
        Effect::MarkBehind(segment, since) => Change::MarkBehind(segment, since),
        Effect::CaughtUp(segment) => Change::CaughtUp(segment),
        Effect::Overrule(hash, key) => Change::Overrule(hash, key),
    }
}

/// The effect for a change of the record, if there is one.
pub(crate) fn effect(change: Change) -> Option<Effect> {
    match change {
        Change::Join(segment) => Some(Effect::Join(segment)),
        Change::JoinDisk(segment) => Some(Effect::JoinDisk(segment)),
        Change::Strike(segment) => Some(Effect::Strike(segment)),
        Change::MarkBehind(segment, since) => Some(Effect::MarkBehind(segment, since)),
        Change::CaughtUp(segment) => Some(Effect::CaughtUp(segment)),
        Change::Overrule(hash, key) => Some(Effect::Overrule(hash, key)),
        // Nothing waits for the marks of drains.
        Change::Drain(_) | Change::Undrain(_) | Change::RaiseEpoch(_) => None,
    }
}

/// The change of the record by which a segment counts as drained under the next leader, or no longer.
pub(crate) fn drain_mark((segment, is_drained): (SegmentId, bool)) -> Change {
    match is_drained {
        true => Change::Drain(segment),
        false => Change::Undrain(segment),
    }
}

/// The segments that an earlier leader drained.
pub(crate) fn drained(leadership: &Leadership) -> Vec<SegmentId> {
    let record = leadership.record();
    record.members().filter(|member| member.is_drained).map(|member| member.segment).collect()
}

/// The record that a leader begins with.
pub(crate) fn record(leadership: &Leadership) -> RecordedMembers {
    let record = leadership.record();
    let member =
        |mooncake_ha::Member { segment, behind, is_disk, .. }| Member { segment, behind, is_disk };
    RecordedMembers {
        fresh: record.is_fresh(),
        members: record.members().map(member).collect(),
        overruled: record.overruled().clone(),
    }
}

#[cfg(test)]
mod tests {
    use mooncake_types::{Epoch, OverruledKey, SegmentId, Version};

    use super::*;

    #[test]
    fn every_effect_comes_back_from_its_change() {
        let (segment, version) = (SegmentId(7), Version { epoch: Epoch(3), counter: 4 });
        for expected in [
            Effect::Join(segment),
            Effect::JoinDisk(segment),
            Effect::Strike(segment),
            Effect::MarkBehind(segment, version),
            Effect::CaughtUp(segment),
            Effect::Overrule(9, OverruledKey { until: version, at: version }),
        ] {
            assert_eq!(effect(change(expected)), Some(expected));
        }
        assert_eq!(effect(Change::RaiseEpoch(Epoch(1))), None);
    }
}
