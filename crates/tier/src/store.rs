//! The interface between a node and its disk, for all ways to arrange records.

use mooncake_memory::{RawSlice, SliceList};

use crate::errors::{Broken, PutError, ReadError};
use crate::record::{Record, RecordId};

/// How much a store holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Number of readable records.
    pub records: usize,
    /// Bytes that the live records take, with their headers.
    pub live_bytes: u64,
    /// Total length of the files or packs, in bytes.
    pub used_bytes: u64,
}

/// A store of records that one process owns. Any thread may make any call. A call that writes returns once its changes
/// are durable.
pub trait RecordStore: Send + Sync {
    /// Writes a record, whose bytes lie in `data`. The record is durable once this returns. If the record exists
    /// already, this writes nothing.
    ///
    /// # Errors
    /// See [`PutError`]. After an error the record may exist when the store is opened again.
    fn put(&self, record: &Record, data: &SliceList) -> Result<(), PutError>;

    /// Reads `dst.len()` bytes of a record, from `from` on. Returns the CRC32C of each chunk if the bytes are whole
    /// chunks of the record. The checksums have been verified.
    ///
    /// # Errors
    /// See [`ReadError`]. The contents of `dst` are then unspecified.
    fn read(
        &self,
        name: RecordId,
        from: u64,
        dst: RawSlice,
    ) -> Result<Option<Box<[u32]>>, ReadError>;

    /// Drops records, and returns how many of them existed. The drop is durable once this returns.
    ///
    /// # Errors
    /// The disk failed or has no space, and the records may return. If the store is not [broken](Self::is_broken), the
    /// caller must repeat the call.
    fn drop_records(&self, names: &[RecordId]) -> Result<usize, Broken>;

    /// Evicts records until there is room for `wanted` more bytes, as far as possible. Returns the names of the
    /// evicted records, and of those that earlier calls lost for want of space.
    ///
    /// # Errors
    /// The disk failed.
    fn make_room(&self, wanted: u64) -> Result<Vec<RecordId>, Broken>;

    /// How much the store holds.
    fn usage(&self) -> Usage;

    /// Whether the store has failed for good: it writes nothing more. Only an error of the disk does that, never one of
    /// space.
    fn is_broken(&self) -> bool;

    /// How often the disk could not read what this store needed to find its records.
    fn unreadable(&self) -> u64 {
        0
    }

    /// Whether the store is reached over a network. Failed calls may then be repeated until it is broken.
    fn is_remote(&self) -> bool {
        false
    }

    /// The longest possible record, with its header, in bytes.
    fn longest_record(&self) -> u64;

    /// Starts a new segment with this nonce. The caller has dropped all records.
    fn start_segment(&self, _nonce: u64) {}
}
