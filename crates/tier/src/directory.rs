//! Where a store keeps its files: a folder, or a test double.

use std::io;
use std::sync::Arc;

use mooncake_memory::RawSlice;
use mooncake_usrbio::RegisteredFile;

use crate::block_buffer::BlockBuffer;

/// The files of one log, or of one store of [`FileStore`](crate::FileStore), by number.
pub trait Directory: Notes {
    /// Creates a file with room for `len` bytes. Once this returns, the file's existence is durable.
    ///
    /// # Errors
    /// Any I/O error. The file then does not exist, or it holds no record.
    fn create(&self, number: u64, len: u64) -> io::Result<Arc<dyn BlockFile>>;

    /// Gives a file another number, which no file has. The change is durable once this returns.
    ///
    /// # Errors
    /// Any I/O error. The file then has the old or the new number.
    fn renumber(&self, number: u64, new: u64) -> io::Result<Arc<dyn BlockFile>>;

    /// Opens a file.
    ///
    /// # Errors
    /// Any I/O error.
    fn open(&self, number: u64) -> io::Result<Arc<dyn BlockFile>>;

    /// The numbers of all files, in any order.
    ///
    /// # Errors
    /// Any I/O error.
    fn list(&self) -> io::Result<Vec<u64>>;

    /// Removes a file. After a power cut it may exist again.
    ///
    /// # Errors
    /// Any I/O error.
    fn remove(&self, number: u64) -> io::Result<()>;

    /// Creates a draft: a file that gets its number, and is listed, only once it is [published](Self::publish). It
    /// overwrites a draft that a dead process left.
    ///
    /// # Errors
    /// Any I/O error.
    fn draft(&self, number: u64) -> io::Result<Arc<dyn BlockFile>>;

    /// Publishes a draft: it replaces the file of this number. The replacement is durable once this returns.
    ///
    /// # Errors
    /// Any I/O error. The number may then belong to the draft or to the old file.
    fn publish(&self, number: u64) -> io::Result<()>;

    /// Removes a draft.
    ///
    /// # Errors
    /// Any I/O error.
    fn discard(&self, number: u64) -> io::Result<()>;

    /// Removes files. A file that does not exist is no error. The removal is durable once this returns.
    ///
    /// # Errors
    /// Any I/O error. Some of the files may be removed all the same.
    fn remove_all(&self, numbers: &[u64]) -> io::Result<()>;

    /// Makes all earlier removals durable, including those of a process that died.
    ///
    /// # Errors
    /// Any I/O error.
    fn settle(&self) -> io::Result<()>;
}

/// A note that the owner of a store keeps beside its records.
pub trait Notes: Send + Sync {
    /// The last note, or `None` if the owner never wrote one.
    ///
    /// # Errors
    /// Any I/O error.
    fn note(&self) -> io::Result<Option<Vec<u8>>>;

    /// Replaces the note as a whole. The new note is durable once this returns.
    ///
    /// # Errors
    /// Any I/O error. The old or the new note remains, as a whole.
    fn set_note(&self, note: &[u8]) -> io::Result<()>;
}

/// A file that can be read at any offset.
pub trait ReadAt: Send + Sync {
    /// Fills the slices, one behind the other, from offset `at` on.
    ///
    /// # Errors
    /// Any I/O error, or that the file is too short.
    fn read(&self, slices: &[RawSlice], at: u64) -> io::Result<()>;
}

/// A file that can be read and written at any offset.
pub trait BlockFile: ReadAt {
    /// Writes the slices, one behind the other, from offset `at` on. The bytes are durable only after
    /// [`sync`](Self::sync).
    ///
    /// # Errors
    /// Any I/O error. A part of the bytes may be written.
    fn write(&self, slices: &[RawSlice], at: u64) -> io::Result<()>;

    /// Makes everything durable that was written before this call.
    ///
    /// # Errors
    /// Any I/O error. Which of the writes are durable is then unknown.
    fn sync(&self) -> io::Result<()>;
}

impl dyn BlockFile + '_ {
    /// Writes bytes of a Rust slice, by way of an aligned buffer.
    pub(crate) fn write_bytes(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let buffer = BlockBuffer::zeroed(bytes.len())?;
        buffer.raw().write_from(bytes);
        self.write(&[buffer.raw()], at)
    }

    /// Reads bytes into a new vector, by way of an aligned buffer.
    pub(crate) fn read_bytes(&self, len: usize, at: u64) -> io::Result<Vec<u8>> {
        let buffer = BlockBuffer::zeroed(len)?;
        self.read(&[buffer.raw()], at)?;
        Ok(buffer.raw().to_vec())
    }
}

impl ReadAt for RegisteredFile {
    fn read(&self, slices: &[RawSlice], at: u64) -> io::Result<()> {
        RegisteredFile::read(self, slices, at)
    }
}

impl BlockFile for RegisteredFile {
    fn write(&self, slices: &[RawSlice], at: u64) -> io::Result<()> {
        RegisteredFile::write(self, slices, at)
    }

    fn sync(&self) -> io::Result<()> {
        RegisteredFile::sync(self)
    }
}
