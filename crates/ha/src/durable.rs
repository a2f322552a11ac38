//! Small files that are replaced as a whole, and are either the old or the new one after any crash.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use mooncake_memory::owner_only;

/// Replaces or creates a file, by way of a temporary file in the same folder. Both the bytes and the name are on the
/// disk when this returns.
///
/// # Errors
/// The system's. Then the file is either the old or the new one.
pub(crate) fn replace(path: &Path, by_way_of: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = owner_only().write(true).create(true).truncate(true).open(by_way_of)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(by_way_of, path)?;
    sync_folder(path)
}

/// Makes the names in the file's folder durable.
fn sync_folder(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

/// The bytes of a file; `None` if there is no such file.
///
/// # Errors
/// The system's, and one of kind `FileTooLarge` beyond `limit_bytes`.
pub(crate) fn read(path: &Path, limit_bytes: usize) -> io::Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    file.take(limit_bytes as u64 + 1).read_to_end(&mut bytes)?;
    match bytes.len() <= limit_bytes {
        true => Ok(Some(bytes)),
        false => Err(io::ErrorKind::FileTooLarge.into()),
    }
}
