//! Files in a directory that hosts share, where the master keeps a copy of each object.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mooncake_memory::make_owner_folder;
use mooncake_node::{DiskKind, DiskSegment, Host};
use mooncake_types::{ErrorCode, Medium, SharedDirectory};

use super::disk::{log, share_of};
use super::opening::Opening;
use crate::heartbeat::MasterSession;
use crate::membership::Lent;
use crate::offload_config::LEAST_BYTES;
use crate::open_error::OpenError;

/// Most processes that keep files in one directory.
const MAX_FOLDERS: usize = 4096;

/// Most unusable folders that a node skips before it gives up. One damaged folder must not keep all later processes
/// out.
const MOST_UNUSABLE: usize = 3;
/// The part of a filesystem that a process uses if the master names no number of bytes.
const USUAL_SHARE: f64 = 0.9;

/// How long the master may take to notice that the process died which had these files.
const PATIENCE: Duration = Duration::from_secs(2);
const REST: Duration = Duration::from_millis(50);

impl Opening {
    /// Lends files in the directory that the master named, if it named one and memory is lent. If that fails, the
    /// node goes on without files, since its host may not share the directory.
    pub(super) fn lend_shared_disk(&self, host: &Host) {
        let Some(directory) = self.masters.shared_directory().filter(|_| self.serves()) else {
            return;
        };
        match self.open_shared_disk(&directory) {
            Ok(disk) => {
                host.lend_disk(disk);
                // Note the epoch that the folder kept, unless no leader can have it. The node obeys no older leader
                // anyway.
                let _ = self.masters.believe(host.epoch());
            }
            Err(error) => {
                let path = &directory.path;
                tracing::error!(path, %error, "this node keeps no files in the shared directory");
            }
        }
    }

    /// Opens the folder that this process had before, or else the first that no other process uses.
    fn open_shared_disk(&self, directory: &SharedDirectory) -> Result<DiskSegment, OpenError> {
        let root = Path::new(&directory.path);
        let failed = |reason: String| OpenError::Disk { path: directory.path.clone(), reason };
        // If its parent is missing, the directory is not mounted on this host: files would fill another filesystem.
        if !root.parent().is_some_and(Path::is_dir) {
            return Err(failed("it is no directory on this host".to_owned()));
        }
        make_owner_folder(root).map_err(|error| failed(error.to_string()))?;
        let share = share_of(root, USUAL_SHARE).map_err(|error| failed(error.to_string()))?;
        let most = if directory.most_bytes == 0 { share } else { directory.most_bytes };
        if most < LEAST_BYTES {
            return Err(failed(format!("{most} bytes are less than {LEAST_BYTES}")));
        }
        let folders = || (0..MAX_FOLDERS).map(|number| root.join(format!("files-{number}")));
        let is_own = |folder: &PathBuf| DiskSegment::client_in(folder) == Some(self.client);
        let own = folders().take_while(|folder| folder.exists()).find(is_own);
        let mut unusable = Vec::new();
        for path in own.into_iter().chain(folders()) {
            if unusable.contains(&path) {
                continue;
            }
            let begun = Instant::now();
            let kind = DiskKind::Files { evicts: directory.evicts };
            match DiskSegment::open(&path, self.disk_options(kind, most, true)?) {
                Err(error) if error.is_in_use() => {}
                Err(error) => {
                    tracing::error!(path = %path.display(), %error, "a folder of the shared directory cannot be used");
                    if unusable.len() == MOST_UNUSABLE {
                        let (path, reason) = (path.display().to_string(), error.to_string());
                        return Err(OpenError::Disk { path, reason });
                    }
                    unusable.push(path);
                }
                Ok(disk) => {
                    log(&path, &disk, begun);
                    return Ok(disk);
                }
            }
        }
        Err(failed(format!("{MAX_FOLDERS} processes keep files there")))
    }

    /// Mounts again if the master refused files or a part of an object store. It may not have noticed yet that the
    /// process died which had them. After a while the node goes on without them.
    pub(super) fn mount_again_if_refused(
        &self,
        master: &mut MasterSession,
        host: &Host,
        all: &[Lent],
    ) -> Result<(), OpenError> {
        let begun = Instant::now();
        loop {
            let refused = master.membership.mount_refusal();
            let passes_on = |medium| matches!(medium, Medium::SharedDisk | Medium::ObjectStore);
            let of_files = refused.filter(|(lent, _)| passes_on(lent.medium));
            let Some((id, code)) = of_files.map(|(lent, code)| (lent.id, code)) else {
                return Ok(());
            };
            if code != ErrorCode::SegmentAlreadyExists || begun.elapsed() >= PATIENCE {
                tracing::error!(%code, "this node keeps no files, or nothing in its object store: the master refused to take that");
                host.take_back(id);
                master.membership.take_back(id);
                return Ok(());
            }
            std::thread::sleep(REST);
            master.membership.lend(all.to_vec());
            self.mount(master)?;
        }
    }
}
