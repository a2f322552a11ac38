use std::io;
use std::path::Path;
use std::time::Instant;

use mooncake_memory::make_owner_folder;
use mooncake_node::{DiskKind, DiskOptions, DiskSegment};
use mooncake_types::SegmentId;

use super::opening::Opening;
use crate::offload_config::LEAST_BYTES;
use crate::open_error::OpenError;
use crate::random::random;

/// Most processes of a host that lend disks in one folder.
const MAX_DISKS: usize = 256;

/// Suffix of the name of a node's disk, after the name of its memory. Names of memory are addresses, which have no
/// slashes.
pub(super) const DISK_SUFFIX: &str = "/disk";
/// Suffix of the name of a node's part of an object store.
pub(super) const OBJECT_STORE_SUFFIX: &str = "/object-store";

impl Opening {
    /// Opens the disk that is lent, if one is. This process takes the client id from the disk, by which the master
    /// knew it before.
    pub(super) fn open_disk(&mut self) -> Result<Option<DiskSegment>, OpenError> {
        if !self.config.offload.is_enabled {
            return Ok(None);
        }
        if !self.serves() {
            tracing::warn!("no disk is lent: what lies there comes from memory, and none is lent");
            return Ok(None);
        }
        let disk = self.first_free_disk(false)?;
        self.client = disk.client();
        Ok(Some(disk))
    }

    /// Opens the disk once more, for the client that a named segment belongs to. A disk of another client starts
    /// empty.
    pub(super) fn hand_disk_over(&self, disk: DiskSegment) -> Result<DiskSegment, OpenError> {
        drop(disk);
        self.first_free_disk(true)
    }

    /// The first disk of the folder that no other process lends.
    fn first_free_disk(&self, is_client_settled: bool) -> Result<DiskSegment, OpenError> {
        let folder = &self.config.offload.path;
        let capacity_bytes = self.capacity(folder).map_err(|error| OpenError::Disk {
            path: folder.display().to_string(),
            reason: error.to_string(),
        })?;
        for number in 0..MAX_DISKS {
            let path = folder.join(format!("disk-{number}"));
            let options = self.disk_options(DiskKind::Log, capacity_bytes, is_client_settled)?;
            let begun = Instant::now();
            match DiskSegment::open(&path, options) {
                Err(error) if error.is_in_use() => {}
                Err(error) => {
                    let (path, reason) = (path.display().to_string(), error.to_string());
                    return Err(OpenError::Disk { path, reason });
                }
                Ok(disk) => {
                    log(&path, &disk, begun);
                    return Ok(disk);
                }
            }
        }
        let reason = format!("{MAX_DISKS} processes lend disks there");
        Err(OpenError::Disk { path: folder.display().to_string(), reason })
    }

    /// Options to open a disk with. With `is_client_settled`, a [`DiskKind::Log`] of another client starts empty.
    pub(super) fn disk_options(
        &self,
        kind: DiskKind,
        capacity_bytes: u64,
        is_client_settled: bool,
    ) -> Result<DiskOptions, OpenError> {
        Ok(DiskOptions {
            kind,
            cluster: self.config.cluster_id.clone(),
            capacity_bytes,
            client: self.client,
            is_client_settled,
            segment: SegmentId(random()?),
            staging_bytes: self.config.offload.buffer_bytes,
            seed: random()? as u64,
        })
    }

    /// Most bytes of a disk's files. It is the same at each start on the same filesystem.
    fn capacity(&self, folder: &Path) -> io::Result<u64> {
        make_owner_folder(folder)?;
        let share = share_of(folder, self.config.offload.most_used)?;
        let capacity = share.min(self.config.offload.most_bytes);
        if capacity < LEAST_BYTES {
            let reason = format!("a disk of {capacity} bytes is less than {LEAST_BYTES}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        Ok(capacity)
    }
}

/// A part of the size of a folder's filesystem, in bytes.
pub(super) fn share_of(folder: &Path, part: f64) -> io::Result<u64> {
    let filesystem = rustix::fs::statvfs(folder)?;
    let total = filesystem.f_blocks.saturating_mul(filesystem.f_frsize);
    Ok((total as f64 * part) as u64)
}

pub(super) fn log(path: &Path, disk: &DiskSegment, begun: Instant) {
    let (len_bytes, capacity_bytes) = (disk.len_bytes(), disk.capacity_bytes());
    tracing::info!(
        path = %path.display(),
        segment = %disk.id(),
        len_bytes,
        capacity_bytes,
        objects = disk.usage().records,
        took_ms = begun.elapsed().as_millis() as u64,
        medium = ?disk.medium(),
        "a disk is lent: len_bytes for objects; the rest of capacity_bytes is for their headers, for the holes that \
         dropped objects leave, and for objects that move"
    );
}
