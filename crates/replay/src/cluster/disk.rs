//! The folder in which the nodes of a cluster lend their disks.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A folder that is removed on drop.
pub(super) struct DiskFolder(PathBuf);

impl DiskFolder {
    /// Makes the folder inside an existing one.
    pub(super) fn new(parent: &Path) -> io::Result<DiskFolder> {
        let path = parent.join(format!("mooncake-replay-{}", std::process::id()));
        fs::create_dir(&path)?;
        Ok(DiskFolder(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for DiskFolder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            let path = self.0.display();
            crate::output::complain(format_args!("mooncake replay: {path} stays: {error}\n"));
        }
    }
}
