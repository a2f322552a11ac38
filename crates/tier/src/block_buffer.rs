use std::io;

use mooncake_memory::{Buffer, RawSlice};

use crate::layout::BLOCK;

/// Zeroed memory aligned to [`BLOCK`]. Direct I/O can read and write it without a bounce buffer of the kernel.
pub(crate) struct BlockBuffer {
    memory: Buffer,
    start: usize,
    len: usize,
}

impl BlockBuffer {
    /// Allocates `len` bytes.
    ///
    /// # Errors
    /// There is not enough memory.
    pub(crate) fn zeroed(len: usize) -> io::Result<BlockBuffer> {
        let block = BLOCK as usize;
        let memory = len.checked_add(block).and_then(Buffer::try_zeroed);
        let memory = memory.ok_or(io::ErrorKind::OutOfMemory)?;
        let address = memory.raw().as_ptr().addr();
        Ok(BlockBuffer { start: address.next_multiple_of(block) - address, memory, len })
    }

    /// The bytes. They may be read and written as long as this buffer lives.
    pub(crate) fn raw(&self) -> RawSlice<'_> {
        self.memory.raw().sub(self.start, self.len)
    }
}
