//! Where files of records are: a folder, or what a test puts in its place.

use std::io;
use std::sync::Arc;

use mooncake_memory::RawSlice;
use mooncake_usrbio::RegisteredFile;

use crate::block_buffer::BlockBuffer;

/// The files of one log, or of one store of [`Files`](crate::Files), by number.
pub trait Directory: Notes {
    /// Makes a file with room for this many bytes. That it is there lasts, once this returns.
    ///
    /// # Errors
    /// Those of the system; nothing is there then, or a file that holds nothing.
    fn create(&self, number: u64, len: u64) -> io::Result<Arc<dyn BlockFile>>;

    /// Opens a file.
    ///
    /// # Errors
    /// Those of the system.
    fn open(&self, number: u64) -> io::Result<Arc<dyn BlockFile>>;

    /// The numbers of all files, in any order.
    ///
    /// # Errors
    /// Those of the system.
    fn list(&self) -> io::Result<Vec<u64>>;

    /// Removes a file. It may be there again after a power cut.
    ///
    /// # Errors
    /// Those of the system.
    fn remove(&self, number: u64) -> io::Result<()>;

    /// Makes a file that has its number only once it is [published](Self::publish), and is not listed before. One that was left
    /// by a process that died is overwritten.
    ///
    /// # Errors
    /// Those of the system.
    fn draft(&self, number: u64) -> io::Result<Arc<dyn BlockFile>>;

    /// Gives a draft its number, in the place of the file that has it. That lasts once this returns.
    ///
    /// # Errors
    /// Those of the system: either of the two may be there then.
    fn publish(&self, number: u64) -> io::Result<()>;

    /// Removes a draft.
    ///
    /// # Errors
    /// Those of the system.
    fn discard(&self, number: u64) -> io::Result<()>;

    /// Removes files; those that are not there are no error. They are gone for good once this returns.
    ///
    /// # Errors
    /// Those of the system: some may be gone then.
    fn remove_all(&self, numbers: &[u64]) -> io::Result<()>;

    /// What a process that died had removed is gone for good once this returns.
    ///
    /// # Errors
    /// Those of the system.
    fn settle(&self) -> io::Result<()>;
}

/// What the owner of a store keeps beside its records.
pub trait Notes: Send + Sync {
    /// What the owner noted last; nothing if it never did.
    ///
    /// # Errors
    /// Those of the system.
    fn note(&self) -> io::Result<Option<Vec<u8>>>;

    /// Puts a note in the place of the last, as a whole. It lasts once this returns.
    ///
    /// # Errors
    /// Those of the system; either of the two is there then.
    fn set_note(&self, note: &[u8]) -> io::Result<()>;
}

/// A file that is read in places.
pub trait ReadAt: Send + Sync {
    /// Fills slices one behind the other from an offset on.
    ///
    /// # Errors
    /// Those of the system, or that the file is too short.
    fn read(&self, slices: &[RawSlice], at: u64) -> io::Result<()>;
}

/// A file that is read and written in places.
pub trait BlockFile: ReadAt {
    /// Writes slices one behind the other from an offset on. It lasts only after a [`sync`](Self::sync).
    ///
    /// # Errors
    /// Those of the system; any part may have been written.
    fn write(&self, slices: &[RawSlice], at: u64) -> io::Result<()>;

    /// Has all lasting that was written before this call.
    ///
    /// # Errors
    /// Those of the system: nobody knows what lasts then.
    fn sync(&self) -> io::Result<()>;
}

impl dyn BlockFile + '_ {
    /// Writes private bytes.
    pub(crate) fn write_bytes(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let buffer = BlockBuffer::zeroed(bytes.len())?;
        buffer.raw().write_from(bytes);
        self.write(&[buffer.raw()], at)
    }

    /// Reads private bytes.
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
