//! Files and folders that only the user of this process may open, whatever the umask: they hold what callers stored.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Options that create a file with the mode 0600.
#[must_use]
pub fn owner_only() -> OpenOptions {
    let mut options = File::options();
    options.mode(0o600);
    options
}

/// Creates a folder and its missing parents, each with the mode 0700. Folders that exist stay as they are.
///
/// # Errors
/// The error of the system call.
pub fn make_owner_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}
