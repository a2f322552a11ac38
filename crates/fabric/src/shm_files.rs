//! Files of the provider `shm`. Each endpoint has one of 16 MB in `/dev/shm`, which a process that is killed leaves there, and
//! which the provider names after the process's number: it takes a killed process's file for that of the new process with
//! that number, and the files of two containers with one `/dev/shm` for each other's. So a domain has a name that no other
//! has, and holds a lock of that name. Opening a domain removes the files whose lock no process holds.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::libfabric::random;

const FOLDER: &str = "/dev/shm";
const PREFIX: &str = "mooncake-fabric-";
const LOCK: &str = ".lock";

/// The name of a domain's files. They are removed with it.
pub(crate) struct ShmFiles {
    folder: PathBuf,
    name: String,
    _lock: File,
}

impl ShmFiles {
    /// Removes what killed processes left, and takes a name.
    pub(crate) fn new() -> io::Result<ShmFiles> {
        ShmFiles::new_in(Path::new(FOLDER))
    }

    fn new_in(folder: &Path) -> io::Result<ShmFiles> {
        remove_left(folder)?;
        loop {
            let name = format!("{PREFIX}{}-{:016x}", std::process::id(), random());
            let path = folder.join(format!("{name}{LOCK}"));
            let lock = File::options().write(true).create_new(true).mode(0o600).open(&path)?;
            lock.lock()?;
            // Another process may have removed it before it was locked.
            if lock.metadata()?.nlink() > 0 {
                return Ok(ShmFiles { folder: folder.to_owned(), name, _lock: lock });
            }
        }
    }

    /// What the provider makes the addresses of.
    pub(crate) fn address(&self) -> String {
        format!("fi_shm://{}", self.name)
    }
}

impl Drop for ShmFiles {
    fn drop(&mut self) {
        // This process still holds the lock, so no other removes the files meanwhile. What it cannot remove, the next one does.
        let _ = remove(&self.folder, &self.name);
    }
}

/// Removes the files of domains whose lock is free. Those of other users cannot be opened, and stay.
fn remove_left(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(name) = name.strip_suffix(LOCK).filter(|name| name.starts_with(PREFIX)) else {
            continue;
        };
        let Ok(lock) = File::options().write(true).custom_flags(libc::O_NOFOLLOW).open(&path)
        else {
            continue;
        };
        if lock.try_lock().is_ok() {
            let _ = remove(folder, name);
        }
    }
    Ok(())
}

/// Removes the files with this name, the lock last.
fn remove(folder: &Path, name: &str) -> io::Result<()> {
    let of_endpoint = format!("{name}:");
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(&of_endpoint) {
            fs::remove_file(entry.path())?;
        }
    }
    fs::remove_file(folder.join(format!("{name}{LOCK}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let name = |entry: io::Result<fs::DirEntry>| {
            entry.unwrap().file_name().to_str().unwrap().to_owned()
        };
        let mut found: Vec<String> = fs::read_dir(folder).unwrap().map(name).collect();
        found.sort();
        found
    }

    #[test]
    fn what_a_killed_process_left_is_removed_and_what_lives_stays() {
        let folder = std::env::temp_dir().join(format!("shm-files-{:x}", random()));
        let folder = folder.as_path();
        fs::create_dir(folder).unwrap();
        let living = ShmFiles::new_in(folder).unwrap();
        let endpoint = format!("{}:0:1", living.name);
        let left =
            ["mooncake-fabric-1-aa.lock", "mooncake-fabric-1-aa:0:0", "mooncake-fabric-1-aa:0:1"];
        for name in
            [&*endpoint, "of another program", "mooncake-fabric-1-b:0:0"].iter().chain(&left)
        {
            fs::write(folder.join(name), "").unwrap();
        }
        let other = ShmFiles::new_in(folder).unwrap();
        let mut expected = vec![
            format!("{}.lock", living.name),
            format!("{}.lock", other.name),
            endpoint,
            "mooncake-fabric-1-b:0:0".to_owned(),
            "of another program".to_owned(),
        ];
        expected.sort();
        assert_eq!(names(folder), expected);
        drop((living, other));
        assert_eq!(names(folder), ["mooncake-fabric-1-b:0:0", "of another program"]);
        fs::remove_dir_all(folder).unwrap();
    }
}
