use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mooncake_types::{ErrorCode, FailureDomains, SegmentId};

use crate::StoreConfig;
use crate::membership::Lent;

/// A segment of [`crate::Store::allocate_and_mount_segment`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocatedSegment {
    /// Its id, for [`crate::Store::unmount_and_free_segment`].
    pub id: SegmentId,
    /// Its length in bytes.
    pub len_bytes: u64,
}

/// Where the memory of a segment comes from, which decides which call takes it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    File,
    Allocation,
    /// The disk that was lent when the store was opened.
    Disk,
}

/// The segments that calls can take back: those that were lent since the store was opened, and disks.
pub(super) struct Mounts {
    pub(super) hostname: String,
    pub(super) endpoint: String,
    pub(super) domains: FailureDomains,
    /// Whether what is lent has checksums from the start; see [`crate::StoreConfig::verify_reads`].
    pub(super) verifies: bool,
    lent: Mutex<BTreeMap<SegmentId, (Origin, Lent)>>,
}

impl Mounts {
    pub(super) fn new(hostname: String, endpoint: String, config: &StoreConfig) -> Self {
        let (domains, verifies) = (config.domains.clone(), config.verify_reads);
        Self { hostname, endpoint, domains, verifies, lent: Mutex::default() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, BTreeMap<SegmentId, (Origin, Lent)>> {
        // A panic leaves the map whole, since every change of it is a single step.
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the disks that were lent when the store was opened.
    pub(super) fn add_disks(&self, disks: Vec<Lent>) {
        self.lock().extend(disks.into_iter().map(|lent| (lent.id, (Origin::Disk, lent))));
    }

    pub(super) fn count_lent_at_run_time(&self) -> usize {
        self.lock().values().filter(|(origin, _)| *origin != Origin::Disk).count()
    }

    pub(super) fn ids(&self, origin: Origin) -> Vec<SegmentId> {
        let lent = self.lock();
        lent.iter().filter(|(_, (of, _))| *of == origin).map(|(&id, _)| id).collect()
    }

    /// Takes all of these segments out, or none if one does not have this origin. Repeated ids count once.
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
