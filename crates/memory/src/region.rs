use std::ffi::CStr;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, ftruncate,
    memfd_create,
};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use thiserror::Error;

use crate::map_error::{refused, size_of};
use crate::registrations::Registrations;
use crate::room::change_room;
use crate::{Buffer, HeldSlice, MapError, Private, RawSlice, Registration, process_id};

/// Memory of a segment. It is either mapped here and unmapped on drop ([`Region::anonymous`], [`Region::of_file`] and
/// [`Region::received`]), or belongs to another owner ([`Region::lent`]). Pages of mapped memory are allocated at the
/// first touch.
///
/// Its slices borrow it. Where memory outlives a call, share the region as `Arc<Region>`, and pass on a [`HeldSlice`].
#[derive(Debug)]
pub struct Region {
    ptr: NonNull<u8>,
    len: usize,
    memory: Memory,
    emptied_at_end: bool,
    /// The only process that has the mapping; `None` if children inherit it.
    process: Option<u32>,
    /// Dropped before the memory.
    registrations: Registrations,
}

/// The owner of the bytes.
#[derive(Debug)]
enum Memory {
    /// A mapping of this region, and its descriptor if it was kept.
    Mapped(Option<Private<OwnedFd>>),
    /// The value that the lender gave to keep the bytes alive.
    Lent(#[expect(dead_code, reason = "held for its drop")] Box<dyn fmt::Debug + Send + Sync>),
}

// SAFETY: the mapping belongs to the process, not to a thread; all access goes through raw slices.
unsafe impl Send for Region {}
// SAFETY: as for Send.
unsafe impl Sync for Region {}

/// The requested bytes do not lie within the region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{len} bytes from {offset} do not lie within a region of {region_len} bytes")]
pub struct OutOfBounds {
    /// First requested byte.
    pub offset: u64,
    /// Number of requested bytes.
    pub len: u64,
    /// Length of the region in bytes.
    pub region_len: u64,
}

impl Region {
    /// Maps `len` zero bytes of unnamed memory with a descriptor, so that it can be handed to other processes. The
    /// memory is sealed: no process can resize it.
    ///
    /// # Errors
    /// `len` is zero or too large, or there is no address space or descriptor left.
    pub fn anonymous(len: u64) -> Result<Region, MapError> {
        Region::anonymous_as(c"mooncake-segment", len)
    }

    /// As [`Region::anonymous`], with this name in `/proc`.
    pub(crate) fn anonymous_as(name: &CStr, len: u64) -> Result<Region, MapError> {
        let (memory, size) = Region::create(name, len)?;
        seal(&memory, SealFlags::SHRINK | SealFlags::GROW, len)?;
        Region::map(memory, 0, size)
    }

    /// As [`Region::anonymous`], but no later mapping can write the memory. Its pages are of ordinary size, because
    /// most of them are never touched.
    pub(crate) fn readable_by_others(len: u64) -> Result<Region, MapError> {
        let (memory, size) = Region::create(c"mooncake-slots", len)?;
        let ptr = map_shared(&memory, 0, size, ProtFlags::READ | ProtFlags::WRITE)?;
        let region = Region::of_mapping(ptr, size, Some(memory));
        let memory = region.descriptor().expect("it was given one");
        seal(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::FUTURE_WRITE, len)?;
        Ok(region)
    }

    /// Maps memory that another process made, read-only. No slice of it may be given out.
    pub(crate) fn read_only(memory: &OwnedFd, size: usize) -> Result<Region, MapError> {
        let ptr = map_shared(memory, 0, size, ProtFlags::READ)?;
        Ok(Region::of_mapping(ptr, size, None).not_inherited())
    }

    /// Excludes the mapping from children of this process: they do not use it, and would keep the memory from being
    /// freed.
    pub(crate) fn not_inherited(mut self) -> Region {
        // SAFETY: exactly the mapping of this region; the advice changes nothing in this process.
        let advised = unsafe { madvise(self.ptr.as_ptr().cast(), self.len, Advice::LinuxDontFork) };
        // If the kernel refuses, children inherit the mapping.
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
            registrations: Registrations::default(),
        }
    }

    /// Creates a memfd of `len` zero bytes, and converts that length.
    fn create(name: &CStr, len: u64) -> Result<(Private<OwnedFd>, usize), MapError> {
        let size = size_of(len)?;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let create =
            || memfd_create(name, flags).map_err(|errno| refused("memfd_create", len, errno));
        let memory = Private::open(create)?;
        ftruncate(&memory, len).map_err(|errno| refused("ftruncate", len, errno))?;
        Ok((memory, size))
    }

    /// Maps `size` bytes of a file from `offset` on, readable and writable.
    pub(crate) fn map(
        memory: Private<OwnedFd>,
        offset: u64,
        size: usize,
    ) -> Result<Region, MapError> {
        let ptr = map_shared(&memory, offset, size, ProtFlags::READ | ProtFlags::WRITE)?;
        advise_large_pages(ptr, size);
        Ok(Region::of_mapping(ptr, size, Some(memory)))
    }

    /// Frees the pages when the region is dropped, even if other processes still have them mapped: they then read
    /// zeros. Use it only if other processes stop trusting the memory once it is no longer lent. It has no effect on
    /// memory without a descriptor, and must not be used for a file.
    #[must_use]
    pub fn emptied_at_end(mut self) -> Region {
        self.emptied_at_end = true;
        self
    }

    /// Wraps memory of another owner. It is not unmapped on drop; instead `keeper` is dropped, after the last holder
    /// of the region is gone.
    ///
    /// # Errors
    /// [`MapError::Empty`] if `bytes` is empty.
    pub fn lent(
        bytes: RawSlice<'static>,
        keeper: Box<dyn fmt::Debug + Send + Sync>,
    ) -> Result<Region, MapError> {
        let ptr = NonNull::new(bytes.as_ptr()).filter(|_| !bytes.is_empty());
        let ptr = ptr.ok_or(MapError::Empty)?;
        let memory = Memory::Lent(keeper);
        let (len, registrations) = (bytes.len(), Registrations::default());
        Ok(Region { ptr, len, memory, emptied_at_end: false, process: None, registrations })
    }

    /// The bytes of a buffer.
    ///
    /// # Errors
    /// [`MapError::Empty`] if it has none.
    pub fn of_buffer(buffer: Buffer) -> Result<Region, MapError> {
        let bytes = buffer.raw();
        // SAFETY: the region keeps the buffer, whose bytes stay where they are, until its last slice is gone.
        let bytes = unsafe { RawSlice::new(bytes.as_ptr(), bytes.len()) };
        Region::lent(bytes, Box::new(buffer))
    }

    /// As [`Region::lent`], for a part of another region.
    ///
    /// # Errors
    /// [`MapError::Empty`] if `bytes` is empty.
    pub fn lent_part(
        bytes: HeldSlice,
        keeper: Box<dyn fmt::Debug + Send + Sync>,
    ) -> Result<Region, MapError> {
        let all = bytes.outliving_keeper();
        Region::lent(all, Box::new((keeper, bytes)))
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len as u64
    }

    /// Always false: an empty region cannot be made.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The `len` bytes at `offset`, for as long as the region is borrowed. A slice that outlives its region does not
    /// compile:
    ///
    /// ```compile_fail,E0505
    /// let region = mooncake_memory::Region::anonymous(4096).unwrap();
    /// let slice = region.slice(0, 8).unwrap();
    /// drop(region);
    /// slice.write_from(b"unmapped");
    /// ```
    ///
    /// # Errors
    /// The bytes do not lie within the region.
    pub fn slice(&self, offset: u64, len: u64) -> Result<RawSlice<'_>, OutOfBounds> {
        let end = offset.checked_add(len).filter(|&end| end <= self.len());
        if end.is_none() {
            return Err(OutOfBounds { offset, len, region_len: self.len() });
        }
        Ok(self.whole().sub(offset as usize, len as usize))
    }

    /// The `len` bytes at `offset`, with the region that keeps them mapped.
    ///
    /// # Errors
    /// As [`Region::slice`].
    pub fn hold(self: &Arc<Self>, offset: u64, len: u64) -> Result<HeldSlice, OutOfBounds> {
        self.slice(offset, len)?;
        Ok(HeldSlice::new(Arc::clone(self), offset as usize, len as usize))
    }

    /// All bytes of the region, for as long as it is borrowed.
    #[must_use]
    pub fn whole(&self) -> RawSlice<'_> {
        // SAFETY: mapped readable and writable until drop, or a lent slice whose maker promised the same to
        // `RawSlice::new`. The slice borrows the region.
        unsafe { RawSlice::new(self.ptr.as_ptr(), self.len) }
    }

    /// Allocates and maps the pages of `len` bytes from `offset` on now, so that the first writer need not wait for
    /// them. Their contents stay as they are.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if the bytes do not lie within the region or the kernel is older than Linux
    /// 5.14. The kernel's error if there is no memory.
    pub fn populate(&self, offset: u64, len: u64) -> io::Result<()> {
        let part = self
            .slice(offset, len)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))?;
        self.provide(offset, len)?;
        // SAFETY: `slice` has checked that the pages lie within the mapping; populating changes no byte.
        unsafe { madvise(part.as_ptr().cast(), part.len(), Advice::LinuxPopulateWrite) }?;
        Ok(())
    }

    /// Allocates pages for a part of a memfd. That takes most of the time. Unlike mapping them, it does not hold the
    /// lock that other threads need to map memory or to start threads.
    fn provide(&self, offset: u64, len: u64) -> io::Result<()> {
        let Some(memory) = self.sealed_descriptor() else { return Ok(()) };
        // Existing bytes keep their contents.
        change_room(memory, FallocateFlags::KEEP_SIZE, offset, len)?;
        Ok(())
    }

    /// The registration of this memory with a registrar, which makes it at first use. Registrars that make the same
    /// type have different numbers. Of several threads one registers, and the others wait for it. A registration is
    /// dropped before the memory is unmapped or its lender's keeper is dropped, in every process that drops the region.
    ///
    /// # Errors
    /// Those of `make`, which the next call tries again.
    pub fn registered<R: Registration, E>(
        &self,
        number: u32,
        make: impl FnOnce() -> Result<R, E>,
    ) -> Result<&R, E> {
        self.registrations.get_or_make(number, make)
    }

    /// The word at this index, in units of eight bytes. Every process that shares the memory must access this word
    /// atomically, or not at all.
    ///
    /// # Panics
    /// If the word does not lie within the region, or if lent memory is not aligned to words.
    #[must_use]
    pub fn word(&self, index: usize) -> &AtomicU64 {
        let words = self.ptr.as_ptr().cast::<u64>();
        assert!(words.is_aligned() && index < self.len / 8, "word {index} of {} bytes", self.len);
        // SAFETY: the word lies within the memory, which `self` keeps mapped, and is aligned; both were just asserted.
        unsafe { AtomicU64::from_ptr(words.add(index)) }
    }

    /// The descriptor of the memory. Another process that maps it sees the same bytes. Lent memory has none.
    #[must_use]
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.memory {
            Memory::Mapped(memory) => memory.as_ref().map(AsFd::as_fd),
            Memory::Lent(_) => None,
        }
    }
}

impl Region {
    /// As [`Region::descriptor`], if no process can truncate the memory. [`Region::received`] accepts it.
    #[must_use]
    pub fn sealed_descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.descriptor().filter(is_sealed)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        drop(std::mem::take(&mut self.registrations));
        // A child did not inherit this mapping, and may have another one at its address.
        let is_elsewhere = self.process.is_some_and(|process| process != process_id());
        if is_elsewhere || matches!(self.memory, Memory::Lent(_)) {
            return;
        }
        if let (true, Some(memory)) = (self.emptied_at_end, self.descriptor()) {
            let holes = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            // No slice of these pages is left. If the kernel refuses, the pages are
            // freed with the last mapping.
            let _ = change_room(memory, holes, 0, self.len());
        }
        // Closed before `munmap`: descriptors close under a lock that every connection of the process needs. The last
        // reference frees the memory, which takes long. That is now the mapping, outside the lock.
        if let Memory::Mapped(descriptor) = &mut self.memory {
            drop(descriptor.take());
        }
        // SAFETY: exactly the mapping made in `map_shared`; its slices borrow the region, so none is left.
        let result = unsafe { munmap(self.ptr.as_ptr().cast(), self.len) };
        result.expect("the whole of a mapping can always be unmapped");
    }
}

/// Whether no process can truncate the memory.
pub(crate) fn is_sealed(memory: &impl AsFd) -> bool {
    fcntl_get_seals(memory).is_ok_and(|seals| seals.contains(SealFlags::SHRINK))
}

/// Adds these seals, and forbids further ones.
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

/// Makes a mapping at an address of the kernel's choice.
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

/// Asks for large pages, which make the first touch cheaper. Without them nothing is lost.
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
        let held = Arc::new(Region::of_buffer(Buffer::from_vec(b"somebody's".to_vec())).unwrap());
        let all = HeldSlice::whole(Arc::clone(&held));
        let region = Region::lent_part(all, Box::new(())).unwrap();
        assert_eq!((region.len(), region.slice(4, 4).unwrap().to_vec()), (10, b"body".to_vec()));
        assert!(region.descriptor().is_none());
        assert_eq!(Arc::strong_count(&held), 2);
        drop(region);
        assert_eq!((Arc::strong_count(&held), held.whole().to_vec()), (1, b"somebody's".to_vec()));
        let nothing = Region::lent(RawSlice::EMPTY, Box::new(())).unwrap_err();
        assert_eq!(nothing, MapError::Empty);
    }
}
