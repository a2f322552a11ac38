//! What a node asks of a disk, however the records lie there.

use mooncake_memory::{RawSlice, SliceList};

use crate::errors::{Broken, PutError, ReadError};
use crate::record::{Name, Record};

/// What there is in a folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Records that can be read.
    pub records: usize,
    /// Bytes that they take, with their headers.
    pub live_bytes: u64,
    /// Bytes of the files.
    pub used_bytes: u64,
}

/// Records in a folder that one process owns. Every call may be made from any thread; those that write return when the disk has it.
pub trait RecordStore: Send + Sync {
    /// Writes a record, whose bytes lie in `data`. It lasts once this returns. One that is there already is not written again.
    ///
    /// # Errors
    /// See [`PutError`]. A record that is not acknowledged may be there when the folder is opened again.
    fn put(&self, record: &Record, data: &SliceList) -> Result<(), PutError>;

    /// Reads bytes of a record, from `from` on, as many as `dst` has room for. Gives the CRC32C of each chunk, if these are whole
    /// chunks of it; they were compared.
    ///
    /// # Errors
    /// See [`ReadError`]. `dst` may hold anything then.
    fn read(&self, name: Name, from: u64, dst: RawSlice) -> Result<Option<Box<[u32]>>, ReadError>;

    /// Drops records. Those that were there are gone for good once this returns. Gives how many were.
    ///
    /// # Errors
    /// The disk failed: they may come back. Where it is not broken after that, the call is to be repeated.
    fn drop_records(&self, names: &[Name]) -> Result<usize, Broken>;

    /// Evicts records until there is room for `wanted` bytes more, as far as it can. Gives their names.
    ///
    /// # Errors
    /// The disk failed.
    fn make_room(&self, wanted: u64) -> Result<Vec<Name>, Broken>;

    /// What there is.
    fn usage(&self) -> Usage;

    /// Whether the disk has failed: nothing is written any more.
    fn is_broken(&self) -> bool;

    /// Whether it is reached over a network: what failed may be repeated as long as it is not broken.
    fn is_far(&self) -> bool {
        false
    }

    /// The longest record that there can be, with its header, in bytes.
    fn longest_record(&self) -> u64;

    /// All records are dropped, and those that are put from now on are of another segment, which has this number.
    fn renew(&self, _nonce: u64) {}
}
