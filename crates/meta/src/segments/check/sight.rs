use std::collections::{BTreeMap, BTreeSet};

use mooncake_types::ClientId;

use crate::Meta;
use crate::check::{Check, ensure};
use crate::segments::{Closed, Segment};
use crate::timer::Timer;

impl Meta {
    pub(crate) fn every_segment_is_seen_as_its_client_is(&self) -> Check {
        let is_seen = |segment: &Segment| segment.is_mounted() && !segment.is(Closed::Struck);
        for (slot, segment) in self.segments.iter().filter(|(_, segment)| is_seen(segment)) {
            let client = self.clients.get(segment.client);
            ensure(
                "a mounted segment is in sight if its client is",
                client.is_some_and(|client| client.in_sight != segment.is(Closed::OutOfSight)),
                || format!("segment slot {slot}, {:?}, {client:?}", segment.closed),
            )?;
        }
        let mut lent: BTreeMap<ClientId, Vec<u32>> = BTreeMap::new();
        for (slot, segment) in self.segments.iter() {
            if segment.is_mounted() {
                lent.entry(segment.client).or_default().push(slot);
            }
        }
        for (slot, segment) in self.segments.iter() {
            let slots = self.segments.of_client(segment.client);
            ensure(
                "a client's segments are those that it lends",
                slots == lent.get(&segment.client).map_or(&[][..], Vec::as_slice),
                || format!("segment slot {slot}: {slots:?}, {lent:?}"),
            )?;
        }
        let takes = |(slot, segment): (u32, &Segment)| segment.takes_puts().then_some(slot);
        let expected: BTreeSet<u32> = self.segments.iter().filter_map(takes).collect();
        let granted = self.segments.grantable();
        ensure(
            "puts go to all segments that take them, and to no other",
            granted.len() == expected.len() && granted.iter().all(|slot| expected.contains(slot)),
            || format!("{granted:?}, {expected:?}"),
        )?;
        let places = granted.iter().map(|&slot| self.segments[slot].place);
        ensure(
            "a segment that takes puts knows its place",
            places.eq(0..granted.len() as u32),
            || format!("{granted:?}"),
        )?;
        let crowded = &self.segments.crowded;
        ensure("only where puts go there are evictions", crowded.is_subset(&expected), || {
            format!("{crowded:?}, {expected:?}")
        })
    }

    pub(crate) fn every_doubt_has_its_timer(&self) -> Check {
        for (slot, segment) in self.segments.iter() {
            let host = segment.client;
            let due = self.clients.get(host).and_then(|client| client.doubted_until);
            ensure(
                "the doubt about a segment's client ends",
                due.is_none_or(|due| self.timers.contains(&(due, Timer::Doubt(host)))),
                || format!("segment slot {slot}: {due:?}"),
            )?;
        }
        for &(due, timer) in &self.timers {
            let Timer::Doubt(id) = timer else { continue };
            let client = self.clients.get(id);
            ensure(
                "who is doubted is a client in sight",
                client.is_some_and(|it| it.in_sight && it.doubted_until == Some(due)),
                || format!("{id}: {client:?}"),
            )?;
        }
        Ok(())
    }
}
