//! Probes of a folder or an object store with a few bytes, for programs that report to people.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mooncake_memory::{RawSlice, Region, owner_only};
use mooncake_usrbio::{Mount, RegisteredFile};

use crate::bucket::Bucket;
use crate::direct::DirectFile;
use crate::directory::BlockFile;

/// Most bytes that a probe writes to a folder.
const MOST_BYTES: u64 = 64 << 20;
/// A probe writes at most one part in this many of the free space, but at least one piece.
const MOST_OF_FREE: u64 = 16;
const PIECE_BYTES: u64 = 4 << 20;
/// Length of the object that a probe stores.
const OBJECT_BYTES: usize = 1 << 20;

/// How files of a folder are read and written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileAccess {
    /// Direct I/O, which bypasses the page cache.
    Direct,
    /// I/O through the page cache.
    Cached,
    /// I/O through the rings of 3FS.
    Usrbio,
    /// The folder is on 3FS, but its rings are unusable for this reason.
    WithoutUsrbio(String),
}

/// Results of [`probe_folder`].
#[derive(Clone, Debug, PartialEq)]
pub struct FolderProbe {
    /// Size of the filesystem, in bytes.
    pub total_bytes: u64,
    /// Bytes that are free to this user.
    pub free_bytes: u64,
    /// How the probe read and wrote its file.
    pub access: FileAccess,
    /// Write throughput in bytes per second, including the final sync.
    pub written: f64,
    /// Read throughput in bytes per second.
    pub read: f64,
    /// How long the final sync took.
    pub sync: Duration,
}

/// Results of [`probe_bucket`], which stores an object of 1 MiB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketProbe {
    /// How long putting the object took.
    pub put: Duration,
    /// How long getting the object took.
    pub get: Duration,
}

/// A file that is removed when this is dropped.
struct ProbeFile(PathBuf);

impl Drop for ProbeFile {
    fn drop(&mut self) {
        // The file may not exist.
        let _ = fs::remove_file(&self.0);
    }
}

/// Writes, syncs and reads a file in a folder, and removes it. Takes little longer than `limit`, unless a system call
/// blocks for longer. With `is_shared`, the probe uses the rings of 3FS if the folder is on 3FS.
///
/// # Errors
/// Any I/O error, or that the bytes read differ from those written.
pub fn probe_folder(folder: &Path, is_shared: bool, limit: Duration) -> io::Result<FolderProbe> {
    let filesystem = rustix::fs::statvfs(folder)?;
    let bytes_of = |blocks: u64| blocks.saturating_mul(filesystem.f_frsize);
    let (total_bytes, free_bytes) = (bytes_of(filesystem.f_blocks), bytes_of(filesystem.f_bavail));
    let path = folder.join(format!("mooncake-probe-{}", std::process::id()));
    let file = ProbeFile(path);
    let opened = owner_only().read(true).write(true).create_new(true).open(&file.0)?;
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

/// Calls `work` with the offset of one piece after the other: at least once, until `len` bytes or `limit` are used up.
/// Returns the number of bytes.
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
/// Any error of the store. Also if the store returns other bytes, or creates an object that exists already.
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
        // A folder that looks like 3FS, on a host without the library of 3FS.
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
