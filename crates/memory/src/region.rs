use std::ffi::CStr;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, ftruncate,
    memfd_create,
};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use thiserror::Error;

use crate::map_error::{refused, size_of};
use crate::room::change_room;
use crate::{MapError, Private, RawSlice, process_id};

/// Memory of a segment: mapped when made, unmapped when dropped ([`Region::anonymous`], [`Region::of_file`] and
/// [`Region::received`]; pages are populated when first touched), or somebody else's ([`Region::lent`]).
///
/// Share it as `Arc<Region>`, and keep the `Arc` beside every slice that is handed on.
#[derive(Debug)]
pub struct Region {
    ptr: NonNull<u8>,
    len: usize,
    memory: Memory,
    emptied_at_end: bool,
    /// The only process that has the mapping; none if children have it too.
    process: Option<u32>,
    attachment: OnceLock<Attachment>,
}

/// What goes with a region.
type Attachment = Box<dyn fmt::Debug + Send + Sync>;

/// What keeps the bytes where they are.
#[derive(Debug)]
enum Memory {
    /// A mapping of our own, and the descriptor behind it if it was kept.
    Mapped(Option<Private<OwnedFd>>),
    /// Whatever the lender gave along.
    Lent(#[expect(dead_code, reason = "held for its drop")] Box<dyn fmt::Debug + Send + Sync>),
}

// SAFETY: the mapping belongs to the process, not to a thread; all access goes through raw slices.
unsafe impl Send for Region {}
// SAFETY: as for Send.
unsafe impl Sync for Region {}

/// Bytes were asked for that do not lie within the region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{len} bytes from {offset} do not lie within a region of {region_len} bytes")]
pub struct OutOfBounds {
    /// First byte wanted.
    pub offset: u64,
    /// Bytes wanted.
    pub len: u64,
    /// Length of the region in bytes.
    pub region_len: u64,
}

impl Region {
    /// Maps `len` zero bytes that have a file descriptor and no name, so that they can be handed to other processes:
    /// sealed, so that nobody can make them fewer or more.
    ///
    /// # Errors
    /// If `len` is zero or too large, or the system has not the address space or the descriptor.
    pub fn anonymous(len: u64) -> Result<Region, MapError> {
        Region::anonymous_as(c"mooncake-segment", len)
    }

    /// As [`Region::anonymous`], with this name in `/proc`.
    pub(crate) fn anonymous_as(name: &CStr, len: u64) -> Result<Region, MapError> {
        let (memory, size) = Region::create(name, len)?;
        seal(&memory, SealFlags::SHRINK | SealFlags::GROW, len)?;
        Region::map(memory, 0, size)
    }

    /// As [`Region::anonymous`], but only this mapping can ever be written, and pages are of the ordinary size: most of
    /// them are never touched.
    pub(crate) fn readable_by_others(len: u64) -> Result<Region, MapError> {
        let (memory, size) = Region::create(c"mooncake-slots", len)?;
        let ptr = map_shared(&memory, 0, size, ProtFlags::READ | ProtFlags::WRITE)?;
        let region = Region::of_mapping(ptr, size, Some(memory));
        let memory = region.descriptor().expect("it was given one");
        seal(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::FUTURE_WRITE, len)?;
        Ok(region)
    }

    /// Maps memory that another process made, to be read only. Nobody may be given a slice of it.
    pub(crate) fn read_only(memory: &OwnedFd, size: usize) -> Result<Region, MapError> {
        let ptr = map_shared(memory, 0, size, ProtFlags::READ)?;
        Ok(Region::of_mapping(ptr, size, None).not_inherited())
    }

    /// Children of this process do not get the mapping: they have no use for it, and would keep the memory from being
    /// freed.
    pub(crate) fn not_inherited(mut self) -> Region {
        // SAFETY: exactly the mapping of this region; the advice changes nothing here.
        let advised = unsafe { madvise(self.ptr.as_ptr().cast(), self.len, Advice::LinuxDontFork) };
        // If the system refuses, children have it.
        self.process = advised.is_ok().then(std::process::id);
        self
    }

    fn of_mapping(ptr: NonNull<u8>, len: usize, memory: Option<Private<OwnedFd>>) -> Region {
        let memory = Memory::Mapped(memory);
        Region {
            ptr,
            len,
            memory,
            emptied_at_end: false,
            process: None,
            attachment: OnceLock::new(),
        }
    }

    /// A descriptor of `len` zero bytes, and that length.
    fn create(name: &CStr, len: u64) -> Result<(Private<OwnedFd>, usize), MapError> {
        let size = size_of(len)?;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let create =
            || memfd_create(name, flags).map_err(|errno| refused("memfd_create", len, errno));
        let memory = Private::open(create)?;
        ftruncate(&memory, len).map_err(|errno| refused("ftruncate", len, errno))?;
        Ok((memory, size))
    }

    /// Maps `size` bytes of a file from `offset` on, as [`Region::anonymous`] does with its own.
    pub(crate) fn map(
        memory: Private<OwnedFd>,
        offset: u64,
        size: usize,
    ) -> Result<Region, MapError> {
        let ptr = map_shared(&memory, offset, size, ProtFlags::READ | ProtFlags::WRITE)?;
        advise_large_pages(ptr, size);
        Ok(Region::of_mapping(ptr, size, Some(memory)))
    }

    /// Gives the pages back to the system when the region is dropped, even if other processes still have them mapped:
    /// they find zeros there then. For memory that others do not trust once they are told that it is no longer lent.
    /// Changes nothing for memory without a descriptor, and must not be asked for a file's.
    #[must_use]
    pub fn emptied_at_end(mut self) -> Region {
        self.emptied_at_end = true;
        self
    }

    /// Memory that is somebody else's. Nothing is unmapped at the end; `keeper` is dropped then, and not before the last
    /// holder of the region is gone.
    ///
    /// # Errors
    /// [`MapError::Empty`] if there is none.
    pub fn lent(
        bytes: RawSlice,
        keeper: Box<dyn fmt::Debug + Send + Sync>,
    ) -> Result<Region, MapError> {
        let ptr = NonNull::new(bytes.as_ptr()).filter(|_| !bytes.is_empty());
        let ptr = ptr.ok_or(MapError::Empty)?;
        let memory = Memory::Lent(keeper);
        let (len, attachment) = (bytes.len(), OnceLock::new());
        Ok(Region { ptr, len, memory, emptied_at_end: false, process: None, attachment })
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len as u64
    }

    /// Is there nothing in it? Never: an empty region cannot be made.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The `len` bytes that start at `offset`. The region must outlive every use of them.
    ///
    /// # Errors
    /// If they do not lie within the region.
    pub fn slice(&self, offset: u64, len: u64) -> Result<RawSlice, OutOfBounds> {
        let end = offset.checked_add(len).filter(|&end| end <= self.len());
        if end.is_none() {
            return Err(OutOfBounds { offset, len, region_len: self.len() });
        }
        Ok(self.whole().sub(offset as usize, len as usize))
    }

    /// All of it. The region must outlive every use of it.
    #[must_use]
    pub fn whole(&self) -> RawSlice {
        // SAFETY: mapped readable and writable until drop, or a slice whose maker promised the same (`RawSlice::new`); who
        // takes the slice keeps the region, as the docs demand.
        unsafe { RawSlice::new(self.ptr.as_ptr(), self.len) }
    }

    /// Has the system provide the pages of `len` bytes from `offset` now, so that the first writer need not wait for them.
    /// What is in them stays as it is.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if the bytes do not lie within the region or the kernel is older than Linux 5.14,
    /// and whatever the system says where it has no memory.
    pub fn populate(&self, offset: u64, len: u64) -> io::Result<()> {
        let part = self
            .slice(offset, len)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))?;
        self.provide(offset, len)?;
        // SAFETY: the pages lie within the mapping, as `slice` has checked; populating changes no byte.
        unsafe { madvise(part.as_ptr().cast(), part.len(), Advice::LinuxPopulateWrite) }?;
        Ok(())
    }

    /// Has the system find pages for a part of a memory file. That takes most of the time, and unlike mapping them it does
    /// not hold a lock that keeps other threads from mapping memory or starting threads.
    fn provide(&self, offset: u64, len: u64) -> io::Result<()> {
        let Some(memory) = self.sealed_descriptor() else { return Ok(()) };
        // Bytes that are there stay as they are.
        change_room(memory, FallocateFlags::KEEP_SIZE, offset, len)?;
        Ok(())
    }

    /// Has something dropped before the memory goes, in whatever process drops the region. A region keeps the first that it is
    /// given.
    pub fn attach(&self, make: impl FnOnce() -> Box<dyn fmt::Debug + Send + Sync>) {
        self.attachment.get_or_init(make);
    }

    /// The word at this place, counted in words of eight bytes. Whoever has the memory mapped goes through atomics, or copies
    /// nothing of this word.
    ///
    /// # Panics
    /// If it does not lie within the region, or the region is lent memory that begins between two words.
    #[must_use]
    pub fn word(&self, index: usize) -> &AtomicU64 {
        let words = self.ptr.as_ptr().cast::<u64>();
        assert!(words.is_aligned() && index < self.len / 8, "word {index} of {} bytes", self.len);
        // SAFETY: within the memory, which `self` keeps, and aligned, as was just checked.
        unsafe { AtomicU64::from_ptr(words.add(index)) }
    }

    /// The descriptor behind the memory: another process that maps it sees the same bytes. Lent memory has none.
    #[must_use]
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.memory {
            Memory::Mapped(memory) => memory.as_ref().map(AsFd::as_fd),
            Memory::Lent(_) => None,
        }
    }
}

impl Region {
    /// As [`Region::descriptor`], if nobody can make the memory shorter: what [`Region::received`] takes.
    #[must_use]
    pub fn sealed_descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.descriptor().filter(is_sealed)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        drop(self.attachment.take());
        // In a child a mapping that it did not get is not there, and something else may be.
        let is_elsewhere = self.process.is_some_and(|process| process != process_id());
        if is_elsewhere || matches!(self.memory, Memory::Lent(_)) {
            return;
        }
        if let (true, Some(memory)) = (self.emptied_at_end, self.descriptor()) {
            let holes = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            // Nobody here uses slices of these pages any more, as the docs demand. If the system refuses, they are freed with
            // the last mapping.
            let _ = change_room(memory, holes, 0, self.len());
        }
        // First: descriptors are closed under a lock that every connection of the process needs, and the last that holds the
        // memory frees it, which takes long. That is the mapping then.
        if let Memory::Mapped(descriptor) = &mut self.memory {
            drop(descriptor.take());
        }
        // SAFETY: exactly the mapping made in `map_shared`; nobody uses its slices any more, as the docs demand.
        let result = unsafe { munmap(self.ptr.as_ptr().cast(), self.len) };
        result.expect("the whole of a mapping can always be unmapped");
    }
}

/// Whether nobody can make the memory shorter.
pub(crate) fn is_sealed(memory: &impl AsFd) -> bool {
    fcntl_get_seals(memory).is_ok_and(|seals| seals.contains(SealFlags::SHRINK))
}

/// Seals memory against this, and against other seals.
fn seal(memory: &impl AsFd, seals: SealFlags, len: u64) -> Result<(), MapError> {
    let sealed = fcntl_add_seals(memory, seals | SealFlags::SEAL);
    sealed.map_err(|errno| refused("F_ADD_SEALS", len, errno))
}

fn map_shared(
    memory: &OwnedFd,
    offset: u64,
    size: usize,
    protection: ProtFlags,
) -> Result<NonNull<u8>, MapError> {
    map(memory, offset, size, protection, MapFlags::SHARED)
}

/// A mapping where the system wants it.
pub(crate) fn map(
    memory: impl AsFd,
    offset: u64,
    size: usize,
    protection: ProtFlags,
    flags: MapFlags,
) -> Result<NonNull<u8>, MapError> {
    let flags = flags | MapFlags::NORESERVE;
    // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
    let ptr = unsafe { mmap(std::ptr::null_mut(), size, protection, flags, memory, offset) };
    let ptr = ptr.map_err(|errno| refused("mmap", size as u64, errno))?;
    Ok(NonNull::new(ptr.cast()).expect("the kernel maps nothing at address zero unasked"))
}

/// Large pages make the first touch cheaper; where there are none, nothing is lost.
fn advise_large_pages(ptr: NonNull<u8>, size: usize) {
    // SAFETY: exactly a mapping that was just made; the advice changes no byte.
    let _ = unsafe { madvise(ptr.as_ptr().cast(), size, Advice::LinuxHugepage) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fresh_memory_is_zero_and_keeps_what_is_written() {
        let region = Region::anonymous(10_000).unwrap();
        assert_eq!(region.len(), 10_000);
        assert_eq!(region.whole().to_vec(), vec![0; 10_000]);
        region.slice(9_990, 10).unwrap().write_from(b"0123456789");
        assert_eq!(region.slice(9_995, 3).unwrap().to_vec(), b"567");
    }

    #[test]
    fn bounds_are_checked_without_overflow() {
        let region = Region::anonymous(4096).unwrap();
        let cases = [
            (0, 4096, true),
            (4096, 0, true),
            (4095, 1, true),
            (4095, 2, false),
            (4097, 0, false),
            (1, u64::MAX, false),
            (u64::MAX, 1, false),
        ];
        for (offset, len, inside) in cases {
            let expected = if inside {
                Ok(len as usize)
            } else {
                Err(OutOfBounds { offset, len, region_len: 4096 })
            };
            assert_eq!(region.slice(offset, len).map(|slice| slice.len()), expected);
        }
    }

    #[test]
    fn impossible_lengths_are_refused() {
        assert_eq!(Region::anonymous(0).unwrap_err(), MapError::Empty);
        assert_eq!(Region::anonymous(u64::MAX).unwrap_err(), MapError::TooLarge { len: u64::MAX });
        let len = 1 << 62;
        let error = Region::anonymous(len).unwrap_err();
        assert!(matches!(error, MapError::System { len: l, .. } if l == len), "{error}");
    }

    #[test]
    fn a_large_region_costs_nothing_until_touched() {
        let region = Region::anonymous(1 << 40).unwrap();
        region.slice((1 << 40) - 1, 1).unwrap().write_from(b"x");
        assert_eq!(region.slice((1 << 40) - 2, 2).unwrap().to_vec(), b"\0x");
    }

    #[test]
    fn the_descriptor_gives_the_same_memory_again() {
        let region = Region::anonymous(4096).unwrap();
        region.slice(100, 5).unwrap().write_from(b"shared"[..5].as_ref());
        let descriptor = region.descriptor().expect("the region's own");
        let file = std::fs::File::from(descriptor.try_clone_to_owned().unwrap());
        let mut bytes = [0; 5];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, 100).unwrap();
        assert_eq!(&bytes, b"share");
    }

    #[test]
    fn lent_memory_stays_where_it_is_and_its_keeper_goes_last() {
        let buffer = std::sync::Arc::new(crate::Buffer::from_vec(b"somebody's".to_vec()));
        let region = Region::lent(buffer.raw(), Box::new(std::sync::Arc::clone(&buffer))).unwrap();
        assert_eq!((region.len(), region.slice(4, 4).unwrap().to_vec()), (10, b"body".to_vec()));
        assert!(region.descriptor().is_none());
        assert_eq!(std::sync::Arc::strong_count(&buffer), 2);
        drop(region);
        assert_eq!(
            (std::sync::Arc::strong_count(&buffer), buffer.as_slice()),
            (1, &b"somebody's"[..])
        );
        let nothing = Region::lent(RawSlice::EMPTY, Box::new(())).unwrap_err();
        assert_eq!(nothing, MapError::Empty);
    }
}
