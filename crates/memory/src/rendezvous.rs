//! Memory that all processes of one user on this host share, as long as one of them lives.
//!
//! The memory has no name, so nothing remains when the last process has ended. A small file lists the processes that
//! have it, in each line a pid and a descriptor number. The next process opens the memory through `/proc`, and adds
//! itself. The line of an ended process does not lead to the memory, and the next process removes it.

use std::ffi::CStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use thiserror::Error;

use crate::foreign::{give_range_back, take_range};
use crate::{MapError, Private, Region, own_uid};

/// Most processes that the list holds. Further processes share the memory without being listed.
const MAX_PROCESSES: usize = 1024;

/// Longest list that is read, in bytes.
const MAX_LIST_BYTES: u64 = 64 << 10;

/// Longest wait for another process that has locked the list.
const PATIENCE: Duration = Duration::from_secs(2);

/// Identifies the shared memory. All processes must use equal values.
#[derive(Clone, Debug)]
pub struct SharedMemoryName<'m> {
    /// The folder of the list. It must be empty after each boot, like `/dev/shm`.
    pub folder: &'m Path,
    /// The name of the list, and of the memory in `/proc`.
    pub name: &'m CStr,
}

/// Why processes cannot share memory.
#[derive(Debug, Error)]
pub enum SharedMemoryError {
    /// The list of processes cannot be used.
    #[error("{path}: {reason}")]
    List {
        /// The path of the list.
        path: String,
        /// What is wrong with the list.
        reason: String,
    },
    /// The memory cannot be created or mapped.
    #[error(transparent)]
    Map(#[from] MapError),
}

impl SharedMemoryName<'_> {
    /// Joins the shared memory, of whatever length, if `is_good` accepts it. Otherwise creates new memory of `len`
    /// zero bytes, which `begin` initialises. If another process is paused while it joins, this process gets memory of
    /// its own.
    ///
    /// # Errors
    /// See [`SharedMemoryError`].
    pub fn join(
        &self,
        len: u64,
        begin: impl Fn(&Region),
        is_good: impl Fn(&Region) -> bool,
    ) -> Result<Region, SharedMemoryError> {
        let path = self.list_path();
        let wrong =
            |reason: String| SharedMemoryError::List { path: path.display().to_string(), reason };
        // No other process finds the memory before the list names it.
        let begun = || self.own_memory(len).inspect(|region| begin(region));
        let list = match open_list(&path) {
            Ok(list) => list,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return begun(),
            Err(error) => return Err(wrong(error.to_string())),
        };
        let mut lines = read_lines(&list).map_err(|error| wrong(error.to_string()))?;
        lines.retain(|&(pid, fd)| self.leads_to_memory(pid, fd));
        let known = lines.iter().find_map(|&(pid, fd)| {
            let region = self.open_memory(pid, fd).ok()?;
            is_good(&region).then_some(region)
        });
        let region = match known {
            Some(region) => region,
            None => begun()?,
        };
        let descriptor = region.descriptor().expect("such a region has one").as_raw_fd();
        if lines.len() < MAX_PROCESSES {
            lines.push((std::process::id(), descriptor));
        }
        write_lines(&list, &lines).map_err(|error| wrong(error.to_string()))?;
        Ok(region)
    }

    fn own_memory(&self, len: u64) -> Result<Region, SharedMemoryError> {
        Ok(Region::anonymous_as(self.name, len)?.not_inherited())
    }

    /// The path of the list. It includes the pid namespace, within which pids are meaningful.
    fn list_path(&self) -> PathBuf {
        let space = fs::metadata("/proc/self/ns/pid").map_or(0, |space| space.ino());
        let name = self.name.to_string_lossy();
        self.folder.join(format!("{name}-{}-{space}", own_uid()))
    }

    fn leads_to_memory(&self, pid: u32, fd: i32) -> bool {
        // Checked before it is opened: the number may by now belong to any file, and opening some files has side
        // effects.
        let target = fs::read_link(format!("/proc/{pid}/fd/{fd}"));
        let wanted = format!("/memfd:{} (deleted)", self.name.to_string_lossy());
        target.is_ok_and(|target| target.as_os_str() == wanted.as_str())
    }

    fn open_memory(&self, pid: u32, fd: i32) -> Result<Region, SharedMemoryError> {
        let path = format!("/proc/{pid}/fd/{fd}");
        let wrong = |error: io::Error| SharedMemoryError::List {
            path: path.clone(),
            reason: error.to_string(),
        };
        let file = OpenOptions::new().read(true).write(true).open(&path).map_err(wrong)?;
        let len = file.metadata().map_err(wrong)?.len();
        Ok(Region::received(OwnedFd::from(file), len)?)
    }
}

/// Opens the list, and locks it until it is closed.
fn open_list(path: &Path) -> io::Result<Private<File>> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    // Private, because a child that inherits the descriptor would keep the list locked.
    let list = Private::open(|| options.open(path))?;
    let metadata = list.metadata()?;
    if !metadata.is_file() || metadata.uid() != own_uid() {
        return Err(io::Error::other("it is not a file of this user"));
    }
    let deadline = Instant::now() + PATIENCE;
    loop {
        match flock(&list, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(list),
            Err(Errno::WOULDBLOCK | Errno::INTR) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// The valid lines of the list.
fn read_lines(list: &File) -> io::Result<Vec<(u32, i32)>> {
    let mut text = Vec::new();
    list.take(MAX_LIST_BYTES).read_to_end(&mut text)?;
    let line = |line: &str| {
        let (pid, fd) = line.split_once(' ')?;
        Some((pid.parse().ok()?, fd.parse().ok().filter(|&fd| fd >= 0)?))
    };
    Ok(String::from_utf8_lossy(&text).lines().filter_map(line).collect())
}

fn write_lines(mut list: &File, lines: &[(u32, i32)]) -> io::Result<()> {
    let text: String = lines.iter().map(|(pid, fd)| format!("{pid} {fd}\n")).collect();
    list.rewind()?;
    list.set_len(0)?;
    list.write_all(text.as_bytes())
}

/// The exclusive right to change shared memory, among all processes and all mappings of this one. The kernel releases
/// it when the process dies.
#[derive(Debug)]
pub struct RegionLock<'r>(&'r Region);

impl Region {
    /// Locks shared memory. `None` if another holder has locked it.
    ///
    /// # Errors
    /// The memory has no descriptor, or a system call fails.
    pub fn try_lock(&self) -> Result<Option<RegionLock<'_>>, MapError> {
        let descriptor = self.descriptor();
        let descriptor =
            descriptor.ok_or(MapError::WrongKind { wanted: "memory without a name" })?;
        match take_range(&descriptor, 0, 0) {
            Ok(()) => Ok(Some(RegionLock(self))),
            Err(MapError::Taken) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Drop for RegionLock<'_> {
    fn drop(&mut self) {
        let descriptor = self.0.descriptor().expect("it was locked by its descriptor");
        let given_back = give_range_back(&descriptor, 0, 0);
        given_back.expect("a process gives back what it locked");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("mooncake-meet-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn name_in(folder: &Path) -> SharedMemoryName<'_> {
        SharedMemoryName { folder, name: c"mooncake-test" }
    }

    #[test]
    fn those_who_meet_have_the_same_memory_and_the_last_takes_it_along() {
        let folder = folder("same");
        let name = name_in(&folder);
        let first = name.join(1 << 20, |_| {}, |_| true).unwrap();
        first.word(7).store(99, Ordering::Relaxed);
        let second = name.join(2 << 20, |_| {}, |_| true).unwrap();
        assert_eq!((second.len(), second.word(7).load(Ordering::Relaxed)), (1 << 20, 99));
        drop(first);
        let third = name.join(2 << 20, |_| {}, |_| true).unwrap();
        assert_eq!(third.word(7).load(Ordering::Relaxed), 99, "the second still has it");
        drop((second, third));
        let last = name.join(2 << 20, |_| {}, |_| true).unwrap();
        assert_eq!((last.len(), last.word(7).load(Ordering::Relaxed)), (2 << 20, 0));
        let refused = name.join(1 << 20, |_| {}, |_| false).unwrap();
        assert_eq!(refused.len(), 1 << 20, "what is not wanted is not taken");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn nobody_finds_memory_before_it_was_begun() {
        let folder = folder("begun");
        let name = name_in(&folder);
        let begin = |region: &Region| region.word(5).store(7, Ordering::Relaxed);
        let is_begun = |region: &Region| region.word(5).load(Ordering::Relaxed) == 7;
        let all = std::sync::Barrier::new(8);
        let join = || {
            all.wait();
            name.join(1 << 16, begin, is_begun).unwrap()
        };
        let met: Vec<Region> = std::thread::scope(|scope| {
            let joined: Vec<_> = (0..8).map(|_| scope.spawn(join)).collect();
            joined.into_iter().map(|it| it.join().unwrap()).collect()
        });
        met[0].word(9).store(1, Ordering::Relaxed);
        assert!(met.iter().all(|region| region.word(9).load(Ordering::Relaxed) == 1));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_list_that_makes_no_sense_is_no_reason_to_fail() {
        let folder = folder("nonsense");
        let name = name_in(&folder);
        for text in ["", "x", "1\n", "1 -1\n", "1 0\n4294967295 3\n", "\u{0}\u{1} 7", "9 9 9\n"] {
            fs::write(name.list_path(), text).unwrap();
            let region = name.join(4096, |_| {}, |_| true).unwrap();
            assert_eq!(region.len(), 4096, "{text:?}");
        }
        fs::write(name.list_path(), "1 1\n".repeat(100_000)).unwrap();
        name.join(4096, |_| {}, |_| true).unwrap();
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_list_that_cannot_be_used_is_an_error() {
        let folder = folder("error");
        let name = name_in(&folder);
        std::os::unix::fs::symlink("/dev/null", name.list_path()).unwrap();
        assert!(matches!(name.join(4096, |_| {}, |_| true), Err(SharedMemoryError::List { .. })));
        let nowhere = SharedMemoryName { folder: Path::new("/nowhere"), ..name };
        assert!(matches!(
            nowhere.join(4096, |_| {}, |_| true),
            Err(SharedMemoryError::List { .. })
        ));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_process_that_is_paused_while_it_joins_keeps_nobody_out() {
        let folder = folder("paused");
        let name = name_in(&folder);
        let first = name.join(4096, |_| {}, |_| true).unwrap();
        first.word(3).store(5, Ordering::Relaxed);
        let list = open_list(&name.list_path()).unwrap();
        let alone = name.join(4096, |_| {}, |_| true).unwrap();
        assert_eq!(alone.word(3).load(Ordering::Relaxed), 0);
        drop(list);
        let together = name.join(4096, |_| {}, |_| true).unwrap();
        assert_eq!(together.word(3).load(Ordering::Relaxed), 5);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn one_of_all_has_the_lock() {
        let folder = folder("lock");
        let name = name_in(&folder);
        let first = name.join(4096, |_| {}, |_| true).unwrap();
        let second = name.join(4096, |_| {}, |_| true).unwrap();
        let lock = first.try_lock().unwrap().unwrap();
        assert!(second.try_lock().unwrap().is_none());
        drop(lock);
        assert!(second.try_lock().unwrap().is_some());
        fs::remove_dir_all(&folder).unwrap();
    }
}
