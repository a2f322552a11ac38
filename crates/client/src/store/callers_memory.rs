//! Memory of callers: what they register, and what the local buffer hands out to them.

use mooncake_types::ErrorCode;

use super::Store;
use super::closed::CLOSED;
use crate::registered_buffers::{KnownMemory, RegisteredBuffers};

impl Store {
    /// The length of the local buffer, in bytes.
    #[must_use]
    pub fn local_buffer_bytes(&self) -> u64 {
        self.local_pool.len_bytes()
    }

    /// Hands out memory of the local buffer until [`Store::free_to_mem_pool`] or the drop of this store; gives its address.
    /// `None` if there are not `len_bytes` together, or the store is closed.
    #[must_use]
    pub fn alloc_from_mem_pool(&self, len_bytes: u64) -> Option<usize> {
        // Also for a forked process: it shares the memory with its parent, which would hand out the same range.
        self.session()?;
        self.local_pool.mapped()?.alloc(len_bytes)
    }

    /// Takes back what was handed out at this address, also after [`Store::close`]; false if nothing was.
    pub fn free_to_mem_pool(&self, address: usize) -> bool {
        self.local_pool.free(address)
    }

    /// Registers `len` bytes of the caller's memory from address `ptr` on; they stay valid until
    /// [`Store::unregister`].
    ///
    /// # Errors
    /// [`ErrorCode::InvalidParams`] for a null pointer, no bytes, an overlap with a registered buffer, or what is neither all
    /// memory of the host nor all memory of one device, as a warning in the log says;
    /// [`ErrorCode::UnavailableInCurrentStatus`] in a child of the process that opened the store.
    pub fn register(&self, ptr: usize, len: usize) -> Result<(), ErrorCode> {
        self.buffers()?.register(ptr, len)
    }

    /// Forgets the buffer that was registered with this start.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidParams`] if there is none; [`ErrorCode::UnavailableInCurrentStatus`] as for
    /// [`Store::register`].
    pub fn unregister(&self, ptr: usize) -> Result<(), ErrorCode> {
        self.buffers()?.unregister(ptr)
    }

    /// What is known of this memory, if a transfer may use it: all of it inside of one registered buffer, or begun outside of all.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidParams`] for a null pointer, no bytes, bytes that run past the end of the registered
    /// buffer that they begin in, or that begin outside of all and not in host memory;
    /// [`ErrorCode::UnavailableInCurrentStatus`] as for [`Store::register`].
    pub fn check_registered(&self, ptr: usize, len: usize) -> Result<KnownMemory, ErrorCode> {
        self.buffers()?.check(ptr, len)
    }

    fn buffers(&self) -> Result<&RegisteredBuffers, ErrorCode> {
        // A thread of the parent may have held the lock when this process was made; no thread of this process gives it back.
        if self.is_forked() {
            return Err(CLOSED);
        }
        Ok(&self.buffers)
    }
}
