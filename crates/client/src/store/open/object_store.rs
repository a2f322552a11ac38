//! A prefix of an object store, where the master keeps objects that are used again.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use mooncake_node::{DiskKind, DiskSegment, Host};
use mooncake_tier::Cloud;

use super::disk::log;
use super::opening::Opening;
use crate::offload_config::LEAST_BYTES;
use crate::open_error::OpenError;

/// Most processes that keep objects below one prefix.
const MAX_PREFIXES: usize = 4096;

impl Opening {
    /// Lends this process's part of an object store, if the configuration names one. The client id must be settled by
    /// now.
    pub(super) fn lend_object_store(&self, host: &Host) -> Result<(), OpenError> {
        let Some(url) = &self.config.offload.object_store_url else { return Ok(()) };
        if !self.serves() {
            tracing::warn!(
                "no object store is used: what lies there comes from memory, and none is lent"
            );
            return Ok(());
        }
        let failed = |reason: String| OpenError::ObjectStore { url: url.clone(), reason };
        let capacity = self.config.offload.object_store_bytes;
        if capacity < LEAST_BYTES {
            return Err(failed(format!("{capacity} bytes are less than {LEAST_BYTES}")));
        }
        let cloud = Cloud::open(url).map_err(|error| failed(error.to_string()))?;
        let of_cluster = cloud.below(&self.config.cluster_id);
        for number in 0..MAX_PREFIXES {
            let begun = Instant::now();
            let part = format!("node-{number}");
            let bucket = Arc::new(of_cluster.below(&part));
            let options = self.disk_options(DiskKind::Packs, capacity, true)?;
            match DiskSegment::open_bucket(bucket, options) {
                Err(error) if error.is_in_use() => {}
                Err(error) => return Err(failed(format!("{part}: {error}"))),
                Ok(disk) => {
                    log(&Path::new(url).join(&self.config.cluster_id).join(&part), &disk, begun);
                    host.lend_disk(disk);
                    return Ok(());
                }
            }
        }
        Err(failed(format!("{MAX_PREFIXES} processes keep objects there")))
    }
}
