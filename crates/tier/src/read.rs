//! Reading a record of the log.

use std::sync::Arc;

use mooncake_memory::RawSlice;

use crate::disk::Disk;
use crate::errors::ReadError;
use crate::index::Entry;
use crate::log_file::LogFile;
use crate::record::Name;

impl Disk {
    /// Reads bytes of a record, from `from` on, as many as `dst` has room for. Gives the CRC32C of each chunk, if these are whole
    /// chunks of it; they were compared.
    ///
    /// # Errors
    /// See [`ReadError`]. `dst` may hold anything then.
    pub fn read(
        &self,
        name: Name,
        from: u64,
        dst: RawSlice,
    ) -> Result<Option<Box<[u32]>>, ReadError> {
        let (entry, file) = self.find(name).ok_or(ReadError::NotThere)?;
        file.stored(u64::from(entry.block), entry.header_len, entry.len).read(name, from, dst)
    }

    /// The record of an entry, and the file that holds it.
    fn find(&self, name: Name) -> Option<(Entry, Arc<LogFile>)> {
        let mut log = self.lock();
        let entry = log.index.get_mut(&name).filter(|entry| entry.is_readable())?;
        entry.was_read = true;
        let entry = *entry;
        let file = log.files.get(&entry.file).expect("the file of a record is there");
        Some((entry, Arc::clone(&file.file)))
    }
}
