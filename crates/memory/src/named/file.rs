//! Opens the file of a named segment.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mooncake_types::{ClientId, SegmentId};
use rustix::fs::OFlags;

use super::error::NamedSegmentError;
use super::header::{BEING_MADE, Fixed, HEADER_BYTES, HEADER_WORDS, count_run, seal};
use super::record::Record;
use super::rows::SLOT_BYTES;
use super::words::MappedWords;
use crate::foreign::{large_page_bytes, lies_in_memory, take_range, take_room};
use crate::map_error::size_of;
use crate::peer::own_uid;
use crate::{MapError, Private, Region};

/// Alignment of both parts of the file, in bytes, unless the filesystem's pages are larger. Large pages of this size
/// fit into it.
const ALIGNMENT: u64 = 2 << 20;

/// Bytes of a segment for each slot of the row table: enough slots for ranges of 16 KiB. Unused slots take no memory.
const BYTES_PER_SLOT: u64 = 16 << 10;

/// Time between two attempts to lock a file that another process uses.
const LOOK: Duration = Duration::from_millis(10);

/// The segment that [`NamedSegment::open`] should open or create.
#[derive(Clone, Debug)]
pub struct NamedSegmentOptions {
    /// Path of the file.
    pub path: PathBuf,
    /// Length of the segment's memory, in bytes.
    pub len: u64,
    /// The cluster to which the segment belongs.
    pub cluster_id: String,
    /// The id of the segment if it is created.
    pub segment: SegmentId,
    /// The client id of its node if the segment is created.
    pub client: ClientId,
    /// Whether to replace an existing segment by an empty one. A file that is no segment is never replaced.
    pub reset: bool,
    /// How long to wait for another process that uses the file.
    pub patience: Duration,
}

/// A segment whose memory, with the record of its contents, outlives the process.
#[derive(Debug)]
pub struct NamedSegment {
    /// The memory of the segment.
    pub memory: Region,
    /// The file's first part, which contains the record.
    pub words: MappedWords,
    /// The client id of the node.
    pub client: ClientId,
    /// What the file was before it was opened.
    pub past: SegmentOrigin,
    /// How many processes have opened the segment, including this one.
    pub run: u64,
    /// Whether the filesystem keeps the file in memory only. Any other filesystem repeatedly writes its pages to a
    /// disk.
    pub is_in_memory: bool,
}

/// What the file of a named segment was before it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentOrigin {
    /// The file did not exist, was incomplete, or was reset. The segment is new.
    None,
    /// The file is from an earlier boot of the machine, so its bytes may be inconsistent. The segment is new.
    EarlierRun,
    /// The segment and its contents are valid.
    Kept,
}

impl NamedSegment {
    /// Opens the file, or creates it, and locks it as long as the segment lives. Nothing may truncate it: touching
    /// missing bytes kills the process. Creating it reserves space for all of the memory.
    ///
    /// # Errors
    /// Why the file cannot be this segment. The file is unchanged then.
    pub fn open(wish: &NamedSegmentOptions) -> Result<Self, NamedSegmentError> {
        let file = take(&wish.path, wish.patience)?;
        let len = check(&file)?;
        if len == 0 {
            return make(file, wish, SegmentOrigin::None);
        }
        let header = read_header(&file, len);
        if wish.reset && header.as_ref().map_or_else(NamedSegmentError::ends_with_a_reset, |_| true)
        {
            return make(replace(&file, wish)?, wish, SegmentOrigin::None);
        }
        match header? {
            None => make(replace(&file, wish)?, wish, SegmentOrigin::None),
            Some(fixed) => match check_fixed(&fixed, wish, len)? {
                SegmentOrigin::Kept => adopt(file, &fixed),
                past => make(replace(&file, wish)?, wish, past),
            },
        }
    }

    /// Whether the segment is empty: it has no rows, and no valid bytes.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.past != SegmentOrigin::Kept
    }
}

/// Opens or creates a file, and locks all of it. The lock lasts as long as the open file description, which also
/// descriptors that other processes received keep open.
fn take(path: &Path, patience: Duration) -> Result<Private<OwnedFd>, NamedSegmentError> {
    let begun = Instant::now();
    loop {
        let file = open(path, false)?;
        match take_range(&file, 0, 0) {
            Ok(()) if is_still_at(&file, path) => return Ok(file),
            // Another process has replaced the file in the meantime.
            Ok(()) => {}
            Err(MapError::Taken) => {
                let waited = begun.elapsed();
                if waited >= patience {
                    let waited_ms = waited.as_millis() as u64;
                    return Err(NamedSegmentError::InUse { waited_ms });
                }
                std::thread::sleep(LOOK);
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Opens a file without blocking, in case the path is a pipe or a device. With `anew`, the file must not exist yet.
fn open(path: &Path, anew: bool) -> Result<Private<OwnedFd>, NamedSegmentError> {
    let mut options = File::options();
    // A link that another user puts there after the look is not followed either.
    let link = if is_own_link(path)? { OFlags::empty() } else { OFlags::NOFOLLOW };
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY | link;
    options.read(true).write(true).mode(0o600).custom_flags(flags.bits().cast_signed());
    let options = if anew { options.create_new(true) } else { options.create(true) };
    let opened = Private::open_file(options, path);
    opened.map(Private::convert).map_err(|error| system("open", &error))
}

/// Whether a link of this user or of root lies there, which may be followed.
fn is_own_link(path: &Path) -> Result<bool, NamedSegmentError> {
    let Ok(found) = std::fs::symlink_metadata(path) else { return Ok(false) };
    may_follow(&found, own_uid())
}

fn may_follow(found: &std::fs::Metadata, user: u32) -> Result<bool, NamedSegmentError> {
    const ROOT: u32 = 0;
    match (found.is_symlink(), found.uid()) {
        (false, _) => Ok(false),
        (true, owner) if owner == user || owner == ROOT => Ok(true),
        (true, owner) => Err(NamedSegmentError::LinkOfOther { owner, user }),
    }
}

fn is_still_at(file: &Private<OwnedFd>, path: &Path) -> bool {
    let at = std::fs::metadata(path).map(|found| (found.dev(), found.ino()));
    let ours = metadata(file).map(|found| (found.dev(), found.ino()));
    matches!((at, ours), (Ok(at), Ok(ours)) if at == ours)
}

/// Duplicates the descriptor, for reads and writes by system calls.
fn plain(file: &Private<OwnedFd>) -> Result<Private<File>, NamedSegmentError> {
    Ok(file.try_clone().map_err(|error| system("dup", &error))?.convert())
}

/// Length of the file. Refuses anything but a regular file of this user.
fn check(file: &Private<OwnedFd>) -> Result<u64, NamedSegmentError> {
    let found = metadata(file)?;
    if !found.is_file() {
        return Err(NamedSegmentError::WrongKind);
    }
    if found.uid() != own_uid() {
        return Err(NamedSegmentError::NotOurs { owner: found.uid(), user: own_uid() });
    }
    Ok(found.len())
}

fn metadata(file: &Private<OwnedFd>) -> Result<std::fs::Metadata, NamedSegmentError> {
    plain(file)?.metadata().map_err(|error| system("fstat", &error))
}

/// Puts an empty file in the place of an old one. The old file is not truncated, since another process may still have
/// it mapped.
fn replace(
    old: &Private<OwnedFd>,
    wish: &NamedSegmentOptions,
) -> Result<Private<OwnedFd>, NamedSegmentError> {
    if is_still_at(old, &wish.path) {
        std::fs::remove_file(&wish.path).map_err(|error| system("unlink", &error))?;
    }
    let file = open(&wish.path, true)?;
    take_range(&file, 0, 0)?;
    Ok(file)
}

/// Creates the segment in an empty, locked file. Removes the file if that fails.
fn make(
    file: Private<OwnedFd>,
    wish: &NamedSegmentOptions,
    past: SegmentOrigin,
) -> Result<NamedSegment, NamedSegmentError> {
    fill(file, wish, past).inspect_err(|_| {
        // If the removal fails, the incomplete file still does not count as a segment.
        let _ = std::fs::remove_file(&wish.path);
    })
}

fn fill(
    file: Private<OwnedFd>,
    wish: &NamedSegmentOptions,
    past: SegmentOrigin,
) -> Result<NamedSegment, NamedSegmentError> {
    size_of(wish.len)?;
    let alignment = match large_page_bytes(&file, wish.len)? {
        Some(page_bytes) if !wish.len.is_multiple_of(page_bytes) => {
            return Err(NamedSegmentError::Pages { wanted: wish.len, page_bytes });
        }
        Some(page_bytes) => page_bytes.max(ALIGNMENT),
        None => ALIGNMENT,
    };
    let slots = wish.len.div_ceil(BYTES_PER_SLOT).min(u64::from(u32::MAX));
    let fixed = Fixed {
        memory_len: wish.len,
        memory_offset: (HEADER_BYTES + slots * SLOT_BYTES).next_multiple_of(alignment),
        boot: boot(),
        client: wish.client,
        cluster_id: wish.cluster_id.clone(),
    };
    let file_len = fixed.file_len().ok_or(MapError::TooLarge { len: wish.len })?;
    let plain = plain(&file)?;
    // Marks an incomplete file as ours, in case the process dies from here on. Filesystems of large pages refuse this
    // write.
    let _ = plain.write_at(&BEING_MADE.to_ne_bytes(), 0);
    plain.set_len(file_len).map_err(|error| system("ftruncate", &error))?;
    take_room(&file, 0, alignment.min(fixed.memory_offset))?;
    let words = map_words(&file, &fixed)?;
    fixed.write(&words);
    take_room(&file, fixed.memory_offset, fixed.memory_len)?;
    let words = Record::empty(words, wish.segment).into_words();
    seal(&words);
    map(file, words, &fixed, past)
}

/// Reads the header. `None` if the file is incomplete.
fn read_header(file: &Private<OwnedFd>, len: u64) -> Result<Option<Fixed>, NamedSegmentError> {
    let plain = plain(file)?;
    let mut bytes = [0; HEADER_BYTES as usize];
    let held = (len.min(HEADER_BYTES)) as usize;
    plain.read_exact_at(&mut bytes[..held], 0).map_err(|error| system("read", &error))?;
    let mut header = [0; HEADER_WORDS];
    for (word, piece) in header.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_ne_bytes(piece.try_into().expect("eight bytes"));
    }
    Fixed::read(&header)
}

/// Checks whether a file of this length is the wanted segment.
fn check_fixed(
    fixed: &Fixed,
    wish: &NamedSegmentOptions,
    len: u64,
) -> Result<SegmentOrigin, NamedSegmentError> {
    let wanted = fixed.file_len().ok_or("its parts are out of bounds")?;
    if fixed.cluster_id != wish.cluster_id {
        return Err(NamedSegmentError::Cluster { found: fixed.cluster_id.clone() });
    }
    if fixed.memory_len != wish.len {
        return Err(NamedSegmentError::Size { found: fixed.memory_len, wanted: wish.len });
    }
    if len < wanted {
        return Err(NamedSegmentError::Truncated { found: len, wanted });
    }
    Ok(past_of(fixed.boot, boot()))
}

fn adopt(file: Private<OwnedFd>, fixed: &Fixed) -> Result<NamedSegment, NamedSegmentError> {
    let words = map_words(&file, fixed)?;
    map(file, words, fixed, SegmentOrigin::Kept)
}

fn map_words(file: &Private<OwnedFd>, fixed: &Fixed) -> Result<MappedWords, NamedSegmentError> {
    let clone = || file.try_clone().map_err(|error| system("dup", &error));
    let region = Region::map(clone()?, 0, size_of(fixed.memory_offset)?)?.not_inherited();
    Ok(MappedWords::new(region, clone()?))
}

fn map(
    file: Private<OwnedFd>,
    words: MappedWords,
    fixed: &Fixed,
    past: SegmentOrigin,
) -> Result<NamedSegment, NamedSegmentError> {
    let size = size_of(fixed.memory_len)?;
    let is_in_memory = lies_in_memory(&file)?;
    let memory = Region::map(file, fixed.memory_offset, size)?.not_inherited();
    let run = count_run(&words);
    Ok(NamedSegment { memory, words, client: fixed.client, past, run, is_in_memory })
}

/// The id of this boot: memory outlives a process, but not a boot. Zero if the kernel does not tell.
fn boot() -> u128 {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    u128::from_str_radix(&digits, 16).unwrap_or(0)
}

/// Whether a file from boot `made_in` is valid in boot `now`. If either is unknown, it is not.
fn past_of(made_in: u128, now: u128) -> SegmentOrigin {
    if made_in == now && now != 0 { SegmentOrigin::Kept } else { SegmentOrigin::EarlierRun }
}

fn system(call: &'static str, error: &io::Error) -> NamedSegmentError {
    NamedSegmentError::System { call, reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{lchown, symlink};

    use super::*;

    #[test]
    fn a_link_of_another_user_is_not_followed() {
        let place =
            |what| PathBuf::from(format!("/dev/shm/mooncake-{what}-{}", std::process::id()));
        let (target, link) = (place("linked"), place("link"));
        symlink(&target, &link).expect("a new name");
        assert_eq!(is_own_link(&link), Ok(true));
        assert_eq!(is_own_link(&target), Ok(false), "nothing lies there");
        let found = std::fs::symlink_metadata(&link).expect("it is there");
        let (owner, user) = (own_uid(), own_uid() + 1);
        if owner != 0 {
            let refused = Err(NamedSegmentError::LinkOfOther { owner, user });
            assert_eq!(may_follow(&found, user), refused);
        } else if lchown(&link, Some(12_345), None).is_ok() {
            let refused = NamedSegmentError::LinkOfOther { owner: 12_345, user: owner };
            assert_eq!(open(&link, false).expect_err("it is foreign"), refused);
            assert!(!target.exists(), "nothing is made where it leads");
        }
        std::fs::remove_file(&link).expect("our own folder");
    }

    #[test]
    fn a_file_is_of_this_run_only_if_the_system_says_so() {
        let cases = [(7, 7, true), (7, 8, false), (0, 7, false), (7, 0, false), (0, 0, false)];
        for (made_in, now, is_kept) in cases {
            let past = past_of(made_in, now);
            assert_eq!(
                matches!(past, SegmentOrigin::Kept),
                is_kept,
                "made in {made_in}, now {now}"
            );
        }
    }
}
