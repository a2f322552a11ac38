//! Memory of callers: buffers that they register, and ranges of the local buffer that they get.

use mooncake_device::device_region;
use mooncake_memory::{Place, RawSlice};
use mooncake_types::ErrorCode;

use super::Store;
use super::closed::CLOSED;
use crate::registered_buffers::{KnownMemory, RegisteredBuffers};

impl Store {
    /// The length of the local buffer, in bytes.
    #[must_use]
    pub fn local_buffer_bytes(&self) -> u64 {
        self.shared.local_pool.len_bytes()
    }

    /// Hands out memory of the local buffer until [`Store::free_to_mem_pool`] or the drop of this store, and returns
    /// its address. `None` if no free range has `len_bytes`, or the store is closed.
    #[must_use]
    pub fn alloc_from_mem_pool(&self, len_bytes: u64) -> Option<usize> {
        // Hands nothing out in a forked process. That shares the memory with its parent, which would hand out the
        // same range.
        self.session()?;
        self.shared.local_pool.mapped()?.alloc(len_bytes)
    }

    /// Takes back the range that was handed out at this address, even after [`Store::close`]. False if there is none.
    pub fn free_to_mem_pool(&self, address: usize) -> bool {
        self.shared.local_pool.free(address)
    }

    /// Registers `len` bytes of the caller's memory from address `ptr` on; they stay valid until
    /// [`Store::unregister`]. Memory of a device may then be read and written by network cards, where they can, and must
    /// not be freed before.
    ///
    /// # Errors
    /// - [`ErrorCode::InvalidParams`] for a null pointer, no bytes, or an overlap with a registered buffer.
    /// - [`ErrorCode::InvalidParams`] for memory that is neither all of the host nor all of one device. A warning in
    ///   the log says what that memory is.
    /// - [`ErrorCode::UnavailableInCurrentStatus`] in a child of the process that opened the store.
    pub fn register(&self, ptr: usize, len: usize) -> Result<(), ErrorCode> {
        let place = self.buffers()?.register(ptr, len)?;
        if let (Place::Device(ordinal), Some(session)) = (place, self.session()) {
            session.paths.know_device(device_region(ordinal, ptr, len));
        }
        Ok(())
    }

    /// Forgets the buffer that was registered with this start.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidParams`] if there is none; [`ErrorCode::UnavailableInCurrentStatus`] as for
    /// [`Store::register`].
    pub fn unregister(&self, ptr: usize) -> Result<(), ErrorCode> {
        self.buffers()?.unregister(ptr)?;
        if let Some(session) = self.session() {
            session.paths.forget(ptr);
        }
        Ok(())
    }

    /// Lets transfers use registered memory of the host in place, where they would otherwise copy it: it stays mapped until
    /// [`Store::unregister`]. Network cards that want to know their memory register it at its first use, and not again.
    pub fn use_in_place(&self, memory: RawSlice<'static>) {
        if let Some(session) = self.session() {
            session.paths.know(memory);
        }
    }

    /// The known memory around these bytes, if a transfer may use them: memory of the host, or registered buffers of
    /// one device that adjoin.
    ///
    /// # Errors
    /// - As [`RegisteredBuffers::check`].
    /// - [`ErrorCode::UnavailableInCurrentStatus`] as for [`Store::register`].
    pub fn check_registered(&self, ptr: usize, len: usize) -> Result<KnownMemory, ErrorCode> {
        self.buffers()?.check(ptr, len)
    }

    fn buffers(&self) -> Result<&RegisteredBuffers, ErrorCode> {
        // A thread of the parent may have held the lock when this process was forked. No thread of this process
        // releases it.
        if self.is_forked() {
            return Err(CLOSED);
        }
        Ok(&self.shared.buffers)
    }
}
