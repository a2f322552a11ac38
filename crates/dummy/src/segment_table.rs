//! Locations of objects in a frame: placements that point into one list of segments.

use std::collections::BTreeMap;

use mooncake_types::{ErrorCode, Located, Placement, Seal, SegmentAddress, SegmentId};

use mooncake_client::ObjectLocation;

/// The segments that placements point into, each once.
#[derive(Default)]
pub(super) struct SegmentTable {
    numbers: BTreeMap<SegmentId, u32>,
    pub(super) segments: Vec<SegmentAddress>,
}

impl SegmentTable {
    /// The location of an object, with numbers in the place of its segments.
    pub(super) fn locate(&mut self, location: &ObjectLocation) -> Located {
        let ObjectLocation { version, len, ref replicas } = *location;
        let ranges = replicas.iter().flat_map(|of| of.stripes.iter().map(|it| (of.number, it)));
        let placements = ranges.map(|(replica, stripe)| Placement {
            replica,
            segment: self.number_of(&stripe.segment),
            offset: stripe.offset,
            len: stripe.len,
            seal: Seal::NONE,
        });
        Located { version, len, placements: placements.collect() }
    }

    fn number_of(&mut self, segment: &SegmentAddress) -> u32 {
        *self.numbers.entry(segment.id).or_insert_with(|| {
            self.segments.push(segment.clone());
            self.segments.len() as u32 - 1
        })
    }
}

/// Converts locations back, with segments in the place of their numbers.
pub(super) fn locations(
    results: Vec<Result<Located, ErrorCode>>,
    segments: &[SegmentAddress],
) -> Vec<Result<ObjectLocation, ErrorCode>> {
    let location = |result: Result<Located, _>| ObjectLocation::from_located(&result?, segments);
    results.into_iter().map(location).collect()
}

#[cfg(test)]
mod tests {
    use mooncake_types::{Epoch, Medium, Version};

    use super::*;
    use mooncake_client::{ReplicaLocation, Stripe};

    fn location(counter: u64, segments: &[u128]) -> ObjectLocation {
        let stripe = |id: u128| {
            let (name, endpoint) = (format!("n:{id}").into(), format!("e:{id}").into());
            let segment =
                SegmentAddress { id: SegmentId(id), name, endpoint, medium: Medium::Memory };
            Stripe { segment, offset: 64 * counter, len: 500 }
        };
        let stripes = || segments.iter().copied().map(stripe).collect();
        let replicas = [0, 2].map(|number| ReplicaLocation { number, stripes: stripes() }).into();
        let version = Version { epoch: Epoch(3), counter };
        ObjectLocation { version, len: 500 * segments.len() as u64, replicas }
    }

    #[test]
    fn locations_come_back_as_they_were_and_name_each_segment_once() {
        let locations = [location(1, &[7, 8]), location(2, &[9]), location(3, &[8])];
        let mut table = SegmentTable::default();
        let located = locations.iter().map(|location| Ok(table.locate(location))).collect();
        assert_eq!(table.segments.len(), 3);
        let found = super::locations(located, &table.segments);
        assert_eq!(found, locations.map(Ok));
    }
}
