use std::collections::BTreeMap;

use crate::Meta;
use crate::check::{Check, ensure};

impl Meta {
    pub(crate) fn every_failure_domain_is_counted(&self) -> Check {
        let mut expected: BTreeMap<u32, (usize, usize)> = BTreeMap::new();
        for (slot, segment) in self.segments.iter() {
            ensure(
                "a mounted segment lies on a host, and an unmounted one nowhere",
                segment.domains.is_empty() != segment.is_mounted(),
                || format!("segment slot {slot}: {:?}", segment.domains),
            )?;
            for &id in &segment.domains {
                let (segments, grantable) = expected.entry(id).or_default();
                *segments += 1;
                *grantable += usize::from(segment.takes_puts());
            }
        }
        let known = &self.segments.domains;
        let is_counted = |(&id, &counts): (&u32, &(usize, usize))| known.counts(id) == counts;
        ensure(
            "a failure domain has the segments that lie in it",
            known.len() == expected.len() && expected.iter().all(is_counted),
            || format!("{expected:?}, {known:?}"),
        )
    }
}
