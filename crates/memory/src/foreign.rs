//! Regions over memory that this process did not make: files, and memory that another process handed over.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{FallocateFlags, FileType, FsWord, Stat, StatFs, fstat, fstatfs, fstatvfs};
use rustix::io::Errno;

use crate::map_error::{refused, size_of};
use crate::region::is_sealed;
use crate::room::change_room;
use crate::{MapError, Private, Region};

/// Filesystem type of a memfd with pages of ordinary size. Memory of large pages is not accepted: the kernel may run
/// out of them at the first touch, and would then kill the process.
const TMPFS_MAGIC: FsWord = 0x0102_1994;

/// Filesystem type of files that consist of large pages.
const HUGETLBFS_MAGIC: FsWord = 0x9584_58f6;

/// Filesystem type of ramfs, which has no size limit.
const RAMFS_MAGIC: FsWord = 0x8584_58f6;

/// Length of a page of this machine, in bytes.
#[must_use]
pub fn page_bytes() -> u64 {
    // Not by rustix, which may have to read a file of /proc for this.
    // SAFETY: reads a constant of the system; no memory is involved.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).expect("every system has pages")
}

impl Region {
    /// Maps `len` bytes of a regular file from `offset` on. Writes to the region go to the file.
    ///
    /// The range belongs to this region alone as long as it lives: no other region of this kind can include a part of
    /// it, in any process. Children of this process do not inherit the mapping.
    ///
    /// Nothing may truncate the file while the region lives: touching missing bytes kills the process. So does a write
    /// for which the filesystem has no space. Therefore this reserves space for all of it now, where the filesystem
    /// supports that.
    ///
    /// # Errors
    /// - `len` is zero.
    /// - `file` is no regular file, or ends before the range does.
    /// - `offset` is not at a page.
    /// - Another region includes a part of the range.
    /// - The filesystem has no space, or a system call fails.
    pub fn of_file(file: OwnedFd, offset: u64, len: u64) -> Result<Region, MapError> {
        let (file, size) = (Private::new(file), size_of(len)?);
        let page_bytes = page_bytes();
        if !offset.is_multiple_of(page_bytes) {
            return Err(MapError::Unaligned { offset, page_bytes });
        }
        check_len(&file, offset, len)?;
        take_range(&file, offset, len)?;
        take_room(&file, offset, len)?;
        Ok(Region::map(file, offset, size)?.not_inherited())
    }

    /// Maps `len` bytes that another process made ([`Region::anonymous`]) and handed over. Both processes then see the
    /// same bytes, and neither can truncate them.
    ///
    /// # Errors
    /// - `len` is zero, or more than the memory has.
    /// - The descriptor is no memfd of ordinary pages, or is not sealed against shrinking.
    /// - A system call fails.
    pub fn received(memory: OwnedFd, len: u64) -> Result<Region, MapError> {
        let size = size_of(len)?;
        check_kind(&memory, len)?;
        check_len(&memory, 0, len)?;
        Ok(Region::map(Private::new(memory), 0, size)?.not_inherited())
    }
}

fn stat_of(file: &OwnedFd, len: u64) -> Result<Stat, MapError> {
    fstat(file).map_err(|errno| refused("fstat", len, errno))
}

pub(crate) fn check_len(file: &OwnedFd, offset: u64, len: u64) -> Result<(), MapError> {
    let stat = stat_of(file, len)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(MapError::WrongKind { wanted: "a plain file" });
    }
    let file_len = u64::try_from(stat.st_size).unwrap_or(0);
    match offset.checked_add(len) {
        Some(end) if end <= file_len => Ok(()),
        _ => Err(MapError::TooShort { offset, len, file_len }),
    }
}

/// Locks a range, to the end of the file if `len` is zero. The lock lasts until [`give_range_back`], or until the open
/// file description closes, which the region keeps.
pub(crate) fn take_range(file: &impl AsFd, start: u64, len: u64) -> Result<(), MapError> {
    set_lock(file, (start, len), libc::F_WRLCK)
}

/// Unlocks a range.
pub(crate) fn give_range_back(file: &impl AsFd, start: u64, len: u64) -> Result<(), MapError> {
    set_lock(file, (start, len), libc::F_UNLCK)
}

fn set_lock(file: &impl AsFd, (start, len): (u64, u64), kind: i32) -> Result<(), MapError> {
    let file_offset = |at| libc::off_t::try_from(at).map_err(|_| MapError::TooLarge { len: at });
    // SAFETY: a `flock` is plain numbers; zero is a valid value of each.
    let mut range: libc::flock = unsafe { std::mem::zeroed() };
    range.l_type = kind as _;
    range.l_whence = libc::SEEK_SET as _;
    range.l_start = file_offset(start)?;
    range.l_len = file_offset(len)?;
    // SAFETY: `fcntl` reads one `flock`, which lives through the call.
    if unsafe { libc::fcntl(file.as_fd().as_raw_fd(), libc::F_OFD_SETLK, &raw const range) } == 0 {
        return Ok(());
    }
    match Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO) {
        Errno::AGAIN | Errno::ACCESS => Err(MapError::Taken),
        errno => Err(refused("F_OFD_SETLK", len, errno)),
    }
}

/// Makes the filesystem reserve the space of the range. A file can otherwise be longer than the space it has.
pub(crate) fn take_room(file: &OwnedFd, start: u64, len: u64) -> Result<(), MapError> {
    // A failing attempt would first fill the filesystem.
    if room_for(file, len)? < len {
        return Err(refused("fallocate", len, Errno::NOSPC));
    }
    match change_room(file, FallocateFlags::KEEP_SIZE, start, len) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        Err(errno) => Err(refused("fallocate", len, errno)),
    }
}

/// Bytes that the file has, or can still get from its filesystem.
fn room_for(file: &OwnedFd, len: u64) -> Result<u64, MapError> {
    let stat = fstatvfs(file).map_err(|errno| refused("fstatvfs", len, errno))?;
    if stat.f_blocks == 0 {
        // The filesystem has no size limit.
        return Ok(u64::MAX);
    }
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    let taken = u64::try_from(stat_of(file, len)?.st_blocks).unwrap_or(0).saturating_mul(512);
    Ok(free.saturating_add(taken))
}

/// Checks for memory with ordinary pages that no process can shrink. Files of mounted filesystems cannot be sealed
/// like that.
pub(crate) fn check_kind(memory: &OwnedFd, len: u64) -> Result<(), MapError> {
    let stat = filesystem_of(memory, len)?;
    if stat.f_type != TMPFS_MAGIC {
        return Err(MapError::WrongKind { wanted: "memory without a name, of ordinary pages," });
    }
    if is_sealed(memory) { Ok(()) } else { Err(MapError::Unsealed) }
}

fn filesystem_of(file: &OwnedFd, len: u64) -> Result<StatFs, MapError> {
    fstatfs(file).map_err(|errno| refused("fstatfs", len, errno))
}

/// Length of the file's pages if its filesystem consists of large pages.
pub(crate) fn large_page_bytes(file: &OwnedFd, len: u64) -> Result<Option<u64>, MapError> {
    let stat = filesystem_of(file, len)?;
    let is_large = stat.f_type == HUGETLBFS_MAGIC;
    Ok(is_large.then_some(stat.f_bsize as u64))
}

/// Whether the file lies in a filesystem without a disk.
///
/// # Errors
/// The kernel does not tell the type of the filesystem.
pub fn lies_in_memory(file: &OwnedFd) -> Result<bool, MapError> {
    let kind = filesystem_of(file, 0)?.f_type;
    Ok([TMPFS_MAGIC, RAMFS_MAGIC, HUGETLBFS_MAGIC].contains(&kind))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::os::fd::AsFd;

    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    use super::*;

    fn file(bytes: &[u8]) -> File {
        let name = format!("mooncake-memory-{}-{:p}", std::process::id(), bytes);
        let path = std::env::temp_dir().join(name);
        let mut file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn memory_with(flags: MemfdFlags, len: u64) -> OwnedFd {
        let memory = memfd_create(c"test", flags | MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&memory, len).unwrap();
        memory
    }

    fn refusal(mapped: Result<Region, MapError>) -> MapError {
        mapped.expect_err("it is not to be mapped")
    }

    #[test]
    fn a_part_of_a_file_is_mapped_and_written_through() {
        let page = page_bytes();
        let bytes: Vec<u8> = (0..2 * page + 10).map(|at| at as u8 ^ 0x5a).collect();
        let file = file(&bytes);
        let region = Region::of_file(file.try_clone().unwrap().into(), page, page + 10).unwrap();
        assert_eq!(region.whole().to_vec(), bytes[page as usize..]);
        region.slice(page, 10).unwrap().write_from(b"0123456789");
        let mut end = [0; 10];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut end, 2 * page).unwrap();
        assert_eq!(&end, b"0123456789");
    }

    #[test]
    fn files_that_do_not_have_the_bytes_are_refused() {
        let page = page_bytes();
        let of = |offset, len| refusal(Region::of_file(file(&[7; 100]).into(), offset, len));
        let short = |offset, len| MapError::TooShort { offset, len, file_len: 100 };
        assert_eq!(of(0, 0), MapError::Empty);
        assert_eq!(of(0, 101), short(0, 101));
        assert_eq!(of(page, 1), short(page, 1));
        assert_eq!(of(0, i64::MAX as u64), short(0, i64::MAX as u64));
        assert_eq!(of(0, u64::MAX), MapError::TooLarge { len: u64::MAX });
        assert_eq!(of(1, 10), MapError::Unaligned { offset: 1, page_bytes: page });
        let directory = File::open("/").unwrap();
        let wrong = MapError::WrongKind { wanted: "a plain file" };
        assert_eq!(refusal(Region::of_file(directory.into(), 0, 10)), wrong);
    }

    #[test]
    fn a_range_of_a_file_is_mapped_once() {
        let page = page_bytes();
        let path = std::env::temp_dir().join(format!("mooncake-taken-{}", std::process::id()));
        std::fs::write(&path, vec![0; 3 * page as usize]).unwrap();
        let map = |offset, len| {
            let file = File::options().read(true).write(true).open(&path).unwrap();
            Region::of_file(file.into(), offset, len)
        };
        let middle = map(page, page).unwrap();
        assert_eq!(refusal(map(0, 3 * page)), MapError::Taken);
        assert_eq!(refusal(map(page, 1)), MapError::Taken);
        let (first, last) = (map(0, page).unwrap(), map(2 * page, page).unwrap());
        drop((first, middle));
        let again = map(0, 2 * page).unwrap();
        std::fs::remove_file(&path).unwrap();
        drop((again, last));
    }

    #[test]
    fn a_file_that_there_is_no_room_for_is_refused() {
        let (file, len) = (file(b""), 1 << 43);
        file.set_len(len).unwrap();
        let error = refusal(Region::of_file(file.into(), 0, len));
        assert_eq!(error, MapError::System { call: "fallocate", len, errno: libc::ENOSPC });
    }

    #[test]
    fn received_memory_is_the_same_on_both_sides() {
        let made = Region::anonymous(10_000).unwrap();
        let handed = made.descriptor().expect("its own").try_clone_to_owned().unwrap();
        let received = Region::received(handed, 9_000).unwrap();
        made.slice(8_000, 5).unwrap().write_from(b"there");
        assert_eq!(received.slice(8_000, 5).unwrap().to_vec(), b"there");
        received.slice(0, 4).unwrap().write_from(b"back");
        drop(received);
        assert_eq!(made.slice(0, 4).unwrap().to_vec(), b"back");
    }

    #[test]
    fn memory_that_could_be_taken_away_is_refused() {
        let made = Region::anonymous(4096).unwrap();
        let handed = || made.descriptor().expect("its own").try_clone_to_owned().unwrap();
        let short = MapError::TooShort { offset: 0, len: 4097, file_len: 4096 };
        assert_eq!(refusal(Region::received(handed(), 4097)), short);
        assert_eq!(refusal(Region::received(handed(), 0)), MapError::Empty);
        assert_eq!(ftruncate(handed(), 10), Err(Errno::PERM), "it is sealed");

        let unsealed = memory_with(MemfdFlags::ALLOW_SEALING, 4096);
        assert_eq!(refusal(Region::received(unsealed, 4096)), MapError::Unsealed);
        let never = memory_with(MemfdFlags::empty(), 4096);
        assert_eq!(refusal(Region::received(never, 4096)), MapError::Unsealed);
        let pipe = std::io::pipe().unwrap().0.as_fd().try_clone_to_owned().unwrap();
        assert!(matches!(refusal(Region::received(pipe, 1)), MapError::WrongKind { .. }));
        let proc = File::open("/proc/self/status").unwrap();
        assert!(matches!(refusal(Region::received(proc.into(), 1)), MapError::WrongKind { .. }));
    }
}
