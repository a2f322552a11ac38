//! Opening the file of a named segment.

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

/// Both parts of the file start, and end, at a multiple of this or of a page, if that is larger: large pages fit in.
const ALIGNMENT: u64 = 2 << 20;

/// Bytes of a segment for each slot of a row that there may be: enough for ranges of 16 KiB. Slots that are not used take
/// no memory.
const BYTES_PER_SLOT: u64 = 16 << 10;

/// Time between two looks at whether another process has let go of a file.
const LOOK: Duration = Duration::from_millis(10);

/// Which segment is wanted.
#[derive(Clone, Debug)]
pub struct NamedSegmentWish {
    /// Its file.
    pub path: PathBuf,
    /// Length of its memory in bytes.
    pub len: u64,
    /// The cluster that it is for.
    pub cluster_id: String,
    /// Which segment it is if it is a new one.
    pub segment: SegmentId,
    /// What its node is to the master if it is a new one.
    pub client: ClientId,
    /// Whether it is to be a new one whatever segment the file holds. A file of something else is never replaced.
    pub reset: bool,
    /// How long another process that has the file is waited for.
    pub patience: Duration,
}

/// A segment whose memory, and the record of what lies in it, outlive their process.
#[derive(Debug)]
pub struct NamedSegment {
    /// The memory.
    pub memory: Region,
    /// The file's first part. The record is in it.
    pub words: MappedWords,
    /// What the node is to the master.
    pub client: ClientId,
    /// What the file was before.
    pub past: Past,
    /// How many processes have had it, this one included.
    pub run: u64,
    /// Whether its filesystem keeps it in memory alone. Pages of any other are written to a disk again and again.
    pub is_in_memory: bool,
}

/// What the file of a named segment was before it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Past {
    /// It was not there, or never whole, or was to be given up: the segment is new.
    None,
    /// It was made in an earlier run of the machine. Nobody knows what became of its bytes: the segment is new.
    EarlierRun,
    /// All that it holds counts.
    Kept,
}

impl NamedSegment {
    /// Opens the file, or makes it. Nobody else can have it while this lives. It must not be cut short: touching bytes that
    /// are gone ends the process. Room for all of the memory is taken when it is made.
    ///
    /// # Errors
    /// Why the file cannot be this segment; nothing has changed in it then.
    pub fn open(wish: &NamedSegmentWish) -> Result<Self, NamedSegmentError> {
        let file = take(&wish.path, wish.patience)?;
        let len = check(&file)?;
        if len == 0 {
            return make(file, wish, Past::None);
        }
        let header = read_header(&file, len);
        if wish.reset && header.as_ref().map_or_else(NamedSegmentError::ends_with_a_reset, |_| true)
        {
            return make(replace(&file, wish)?, wish, Past::None);
        }
        match header? {
            None => make(replace(&file, wish)?, wish, Past::None),
            Some(fixed) => match check_fixed(&fixed, wish, len)? {
                Past::Kept => adopt(file, &fixed),
                past => make(replace(&file, wish)?, wish, past),
            },
        }
    }

    /// Whether there is nothing in it: no rows, and no bytes that count.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.past != Past::Kept
    }
}

/// Opens a file, makes it if it is not there, and locks all of it for as long as it is open, here or by whoever got the
/// descriptor from here.
fn take(path: &Path, patience: Duration) -> Result<Private<OwnedFd>, NamedSegmentError> {
    let begun = Instant::now();
    loop {
        let file = open(path, false)?;
        match take_range(&file, 0, 0) {
            Ok(()) if is_still_at(&file, path) => return Ok(file),
            // Somebody has put another file in its place meanwhile.
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

/// A pipe or a device must not keep the caller waiting.
fn open(path: &Path, anew: bool) -> Result<Private<OwnedFd>, NamedSegmentError> {
    let mut options = File::options();
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    options.read(true).write(true).mode(0o600).custom_flags(flags.bits().cast_signed());
    let options = if anew { options.create_new(true) } else { options.create(true) };
    let opened = Private::open(|| options.open(path).map(OwnedFd::from));
    opened.map_err(|error| system("open", &error))
}

fn is_still_at(file: &Private<OwnedFd>, path: &Path) -> bool {
    let at = std::fs::metadata(path).map(|found| (found.dev(), found.ino()));
    let ours = metadata(file).map(|found| (found.dev(), found.ino()));
    matches!((at, ours), (Ok(at), Ok(ours)) if at == ours)
}

/// The same as a file to be read and written by calls.
fn plain(file: &Private<OwnedFd>) -> Result<Private<File>, NamedSegmentError> {
    Ok(file.try_clone().map_err(|error| system("dup", &error))?.convert())
}

/// Length of a file that nobody else can change.
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

/// An empty file in the place of a full one. That one is not cut short: whoever has it mapped goes on with it.
fn replace(
    old: &Private<OwnedFd>,
    wish: &NamedSegmentWish,
) -> Result<Private<OwnedFd>, NamedSegmentError> {
    if is_still_at(old, &wish.path) {
        std::fs::remove_file(&wish.path).map_err(|error| system("unlink", &error))?;
    }
    let file = open(&wish.path, true)?;
    take_range(&file, 0, 0)?;
    Ok(file)
}

/// Makes the segment in an empty file that is locked. If there is no room for it, the file goes again.
fn make(
    file: Private<OwnedFd>,
    wish: &NamedSegmentWish,
    past: Past,
) -> Result<NamedSegment, NamedSegmentError> {
    fill(file, wish, past).inspect_err(|_| {
        // What cannot be removed is not taken for a segment either.
        let _ = std::fs::remove_file(&wish.path);
    })
}

fn fill(
    file: Private<OwnedFd>,
    wish: &NamedSegmentWish,
    past: Past,
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
    // A file that is given up from here on is known to be one of ours. Filesystems of large pages take no such write.
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

/// The header, if the file is whole.
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

/// Whether a file of that length is the segment that is wanted.
fn check_fixed(
    fixed: &Fixed,
    wish: &NamedSegmentWish,
    len: u64,
) -> Result<Past, NamedSegmentError> {
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
    map(file, words, fixed, Past::Kept)
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
    past: Past,
) -> Result<NamedSegment, NamedSegmentError> {
    let size = size_of(fixed.memory_len)?;
    let is_in_memory = lies_in_memory(&file)?;
    let memory = Region::map(file, fixed.memory_offset, size)?.not_inherited();
    let run = count_run(&words);
    Ok(NamedSegment { memory, words, client: fixed.client, past, run, is_in_memory })
}

/// Which run of the machine this is: memory outlives a process, and no run. Zero where the system does not say.
fn boot() -> u128 {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    u128::from_str_radix(&digits, 16).unwrap_or(0)
}

/// What becomes of a file of that run in this one. Where the system names no runs, it may be of any.
fn past_of(made_in: u128, now: u128) -> Past {
    if made_in == now && now != 0 { Past::Kept } else { Past::EarlierRun }
}

fn system(call: &'static str, error: &io::Error) -> NamedSegmentError {
    NamedSegmentError::System { call, reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_of_this_run_only_if_the_system_says_so() {
        let cases = [(7, 7, true), (7, 8, false), (0, 7, false), (7, 0, false), (0, 0, false)];
        for (made_in, now, is_kept) in cases {
            let past = past_of(made_in, now);
            assert_eq!(matches!(past, Past::Kept), is_kept, "made in {made_in}, now {now}");
        }
    }
}
