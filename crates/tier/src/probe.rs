//! What a folder or an object store can do, tried with a few bytes: for programs that tell people.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mooncake_memory::{RawSlice, Region};
use mooncake_usrbio::{Mount, RegisteredFile};

use crate::bucket::Bucket;
use crate::direct::DirectFile;
use crate::directory::BlockFile;

/// Most bytes that are written to a folder.
const MOST_BYTES: u64 = 64 << 20;
/// Of a filesystem that is nearly full no more than this part of what is free.
const MOST_OF_FREE: u64 = 16;
const PIECE_BYTES: u64 = 4 << 20;
/// Length of the object that is put into an object store.
const OBJECT_BYTES: usize = 1 << 20;

/// How bytes go to and from files of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileAccess {
    /// Past the system's cache.
    Direct,
    /// By way of the system's cache.
    Cached,
    /// By the rings of 3FS.
    Usrbio,
    /// The folder is on 3FS, but its rings cannot be used, for this reason.
    WithoutUsrbio(String),
}

/// What was found out about a folder.
#[derive(Clone, Debug, PartialEq)]
pub struct FolderProbe {
    /// Bytes of its filesystem.
    pub total_bytes: u64,
    /// Those that are free to this user.
    pub free_bytes: u64,
    /// How files are read and written there.
    pub access: FileAccess,
    /// Bytes a second that were written, with the sync at the end.
    pub written: f64,
    /// Bytes a second that were read.
    pub read: f64,
    /// How long the sync took.
    pub sync: Duration,
}

/// What was found out about an object store, with an object of 1 MiB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketProbe {
    /// How long it took to put it.
    pub put: Duration,
    /// How long it took to get it.
    pub get: Duration,
}

/// A file that is removed at the end.
struct ProbeFile(PathBuf);

impl Drop for ProbeFile {
    fn drop(&mut self) {
        // It may not have been made.
        let _ = fs::remove_file(&self.0);
    }
}

/// Writes, syncs and reads a file in a folder, and removes it. Takes little longer than `limit` unless a call of the system does.
/// Where hosts share the folder, 3FS is used by its rings if it is on 3FS.
///
/// # Errors
/// Those of the system, or that other bytes were read than were written.
pub fn probe_folder(folder: &Path, is_shared: bool, limit: Duration) -> io::Result<FolderProbe> {
    let filesystem = rustix::fs::statvfs(folder)?;
    let bytes_of = |blocks: u64| blocks.saturating_mul(filesystem.f_frsize);
    let (total_bytes, free_bytes) = (bytes_of(filesystem.f_blocks), bytes_of(filesystem.f_bavail));
    let path = folder.join(format!("mooncake-probe-{}", std::process::id()));
    let file = ProbeFile(path);
    let opened = File::options().read(true).write(true).create_new(true).open(&file.0)?;
    let (access, opened) = open(opened, &file.0, is_shared)?;
    let memory = Region::anonymous(2 * PIECE_BYTES).map_err(io::Error::other)?;
    let piece = PIECE_BYTES as usize;
    let (source, target) = (memory.whole().sub(0, piece), memory.whole().sub(piece, piece));
    let pattern: Vec<u8> = (0..PIECE_BYTES).map(|at| ((at * 2_654_435_761) >> 13) as u8).collect();
    source.write_from(&pattern);
    let most = MOST_BYTES.min(free_bytes / MOST_OF_FREE).max(PIECE_BYTES);

    let begun = Instant::now();
    let len = each_piece(most, limit / 2, |at| opened.write(&[source], at))?;
    let written_at = Instant::now();
    opened.sync()?;
    let (sync, wrote) = (written_at.elapsed(), begun.elapsed());
    let begun = Instant::now();
    let read = each_piece(len, limit / 2, |at| {
        opened.read(&[target], at)?;
        if is_same(source, target) {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, "other bytes are read than were written"))
    })?;
    let read = speed(read, begun.elapsed());
    Ok(FolderProbe { total_bytes, free_bytes, access, written: speed(len, wrote), read, sync })
}

fn is_same(one: RawSlice, other: RawSlice) -> bool {
    one.chunk_crcs() == other.chunk_crcs()
}

fn speed(bytes: u64, took: Duration) -> f64 {
    bytes as f64 / took.as_secs_f64().max(1e-9)
}

/// Does something with pieces, at least one, until `len` bytes are through or the time is over. Gives how many were.
fn each_piece(
    len: u64,
    limit: Duration,
    mut work: impl FnMut(u64) -> io::Result<()>,
) -> io::Result<u64> {
    let begun = Instant::now();
    let mut at = 0;
    while at == 0 || (at + PIECE_BYTES <= len && begun.elapsed() < limit) {
        work(at)?;
        at += PIECE_BYTES;
    }
    Ok(at)
}

fn open(file: File, path: &Path, is_shared: bool) -> io::Result<(FileAccess, Box<dyn BlockFile>)> {
    let mount = if is_shared { Mount::find(path) } else { Ok(None) };
    let reason = match mount {
        Ok(Some(mount)) => {
            let registered = RegisteredFile::new(file, &Arc::new(mount))?;
            return Ok((FileAccess::Usrbio, Box::new(registered)));
        }
        Ok(None) => None,
        Err(error) => Some(error.to_string()),
    };
    let file = DirectFile::new(file, path)?;
    let access = match reason {
        Some(reason) => FileAccess::WithoutUsrbio(reason),
        None if file.is_direct() => FileAccess::Direct,
        None => FileAccess::Cached,
    };
    Ok((access, Box::new(file)))
}

/// Puts an object, gets it, and removes it.
///
/// # Errors
/// Those of the store; or it gives other bytes, or makes an object that is there already.
pub fn probe_bucket(bucket: &dyn Bucket) -> io::Result<BucketProbe> {
    let name = format!("mooncake-probe/{}", std::process::id());
    let bytes = vec![7; OBJECT_BYTES];
    let begun = Instant::now();
    bucket.put(&name, bytes.clone())?;
    let put = begun.elapsed();
    let checked = check_object(bucket, &name, bytes);
    let removed = bucket.remove_all(&[name]);
    let get = checked?;
    removed?;
    Ok(BucketProbe { put, get })
}

fn check_object(bucket: &dyn Bucket, name: &str, bytes: Vec<u8>) -> io::Result<Duration> {
    let begun = Instant::now();
    let found = bucket.get(name)?;
    let get = begun.elapsed();
    if found.as_ref() != Some(&bytes) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "it gives other bytes than were put",
        ));
    }
    match bucket.create(name, bytes) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(get),
        Err(error) => Err(error),
        Ok(()) => {
            let reason = "it replaces an object that it was asked to create (If-None-Match)";
            Err(io::Error::new(io::ErrorKind::Unsupported, reason))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::BucketDouble;

    const LIMIT: Duration = Duration::from_secs(2);

    #[test]
    fn a_folder_is_probed_and_left_as_it_was() {
        let folder = std::env::temp_dir().join(format!("mooncake-probe-{}", std::process::id()));
        let missing = probe_folder(&folder, false, LIMIT).expect_err("it is not there");
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        fs::create_dir_all(&folder).expect("it can be made");
        for is_shared in [false, true] {
            let found = probe_folder(&folder, is_shared, LIMIT).expect("it can be written");
            assert!(found.free_bytes > 0 && found.free_bytes <= found.total_bytes, "{found:?}");
            assert!(found.written > 0.0 && found.read > 0.0, "{found:?}");
            let ordinary = [FileAccess::Direct, FileAccess::Cached];
            assert!(ordinary.contains(&found.access), "{found:?}");
        }
        assert_eq!(fs::read_dir(&folder).expect("it is there").count(), 0);
        // What looks like 3FS, on a host without its library.
        fs::create_dir_all(folder.join("3fs-virt")).expect("it can be made");
        let found = probe_folder(&folder, true, LIMIT).expect("it can be written");
        assert!(matches!(found.access, FileAccess::WithoutUsrbio(_)), "{found:?}");
        fs::remove_dir_all(&folder).expect("it is there");
    }

    #[test]
    fn an_object_store_is_probed_and_left_as_it_was() {
        let double = BucketDouble::new(1);
        let bucket = double.bucket();
        probe_bucket(&bucket).expect("it serves");
        assert_eq!(bucket.list("mooncake-probe").expect("it serves"), []);
        double.fail_in(1);
        probe_bucket(&bucket).expect_err("it does not serve");
    }
}
