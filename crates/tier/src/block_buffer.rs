use std::io;

use mooncake_memory::{Buffer, RawSlice};

use crate::layout::BLOCK;

/// Zero bytes that begin where disks want them: what goes between them and a disk needs no buffer of the system.
pub(crate) struct BlockBuffer {
    memory: Buffer,
    start: usize,
    len: usize,
}

impl BlockBuffer {
    /// Memory for `len` bytes.
    ///
    /// # Errors
    /// The system has none.
    pub(crate) fn zeroed(len: usize) -> io::Result<BlockBuffer> {
        let block = BLOCK as usize;
        let memory = len.checked_add(block).and_then(Buffer::try_zeroed);
        let memory = memory.ok_or(io::ErrorKind::OutOfMemory)?;
        let address = memory.raw().as_ptr().addr();
        Ok(BlockBuffer { start: address.next_multiple_of(block) - address, memory, len })
    }

    /// The bytes, to be read and written while this lives.
    pub(crate) fn raw(&self) -> RawSlice {
        self.memory.raw().sub(self.start, self.len)
    }
}
