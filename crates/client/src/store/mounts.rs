use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mooncake_types::{ErrorCode, FailureDomains, SegmentId};

use crate::membership::Lent;

/// A segment that was allocated and lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocatedSegment {
    /// Its name for [`crate::Store::unmount_and_free_segment`].
    pub id: SegmentId,
    /// Its length in bytes.
    pub len_bytes: u64,
}

/// Where a segment's memory came from, which decides by which call it is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    File,
    Allocation,
    /// The disk that was lent when the store was opened.
    Disk,
}

/// What was lent since the store was opened, and is not taken back.
pub(super) struct Mounts {
    pub(super) hostname: String,
    pub(super) endpoint: String,
    pub(super) domains: FailureDomains,
    lent: Mutex<BTreeMap<SegmentId, (Origin, Lent)>>,
}

impl Mounts {
    pub(super) fn new(hostname: String, endpoint: String, domains: FailureDomains) -> Self {
        Self { hostname, endpoint, domains, lent: Mutex::default() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, BTreeMap<SegmentId, (Origin, Lent)>> {
        // Every change of it is a single step.
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Disks were lent when the store was opened.
    pub(super) fn add_disks(&self, disks: Vec<Lent>) {
        self.lock().extend(disks.into_iter().map(|lent| (lent.id, (Origin::Disk, lent))));
    }

    pub(super) fn ids(&self, origin: Origin) -> Vec<SegmentId> {
        let lent = self.lock();
        lent.iter().filter(|(_, (of, _))| *of == origin).map(|(&id, _)| id).collect()
    }

    /// Takes all of these out, or none if one is not of that origin. One that is named twice counts once.
    pub(super) fn withdraw(
        &self,
        ids: &[SegmentId],
        origin: Origin,
    ) -> Result<Vec<Lent>, ErrorCode> {
        let mut lent = self.lock();
        let known = |id| lent.get(id).is_some_and(|&(of, _)| of == origin);
        if !ids.iter().all(known) {
            return Err(ErrorCode::SegmentNotFound);
        }
        Ok(ids.iter().filter_map(|id| lent.remove(id)).map(|(_, lent)| lent).collect())
    }
}
