//! Named segments: memory, and the record of what lies in it, in one file that outlives its process.
//!
//! # The file
//!
//! ```text
//! header        4 KiB   what never changes: layout, lengths, cluster, client, run of the machine, their checksum;
//!                       what does: the segment's id, the highest epoch, the highest grant, how many slots there are,
//!                       how many processes have had it
//! slots         256 B each, of which those that were used take memory; a row lies in one, or goes on in others
//! memory        from a multiple of 2 MiB on
//! ```
//!
//! # Why it is right at every moment
//!
//! The file lies in memory. What a process has stored there stays when it is killed, and the next one maps it again: nothing
//! is ever written back, and nothing has to be. So only the order of stores counts. All stores to the header and the slots
//! are of single words, in program order ([`WordMemory`]), and each change takes effect by one of them:
//!
//! - a row is there once its mark is stored, after all its bytes, and is not there any more once its mark is zero;
//! - a value of two words stands twice, and the copy that does not count is changed ([`latest`]);
//! - a file is whole once its first word says so.
//!
//! Whoever keeps rows adds the rest: a row that says what bytes lie where is added after the bytes are in place, and
//! withdrawn, with a barrier, before the first of them changes. The test of this is made of all prefixes of the stores of
//! random histories (`mooncake-client`, `node/kept`).
//!
//! A file that was made before the machine started is not believed: on a disk its pages may have been written back in any
//! order, or not at all.

mod error;
mod file;
mod header;
mod latest;
mod record;
mod rows;
mod words;

#[cfg(test)]
mod tests;

pub use error::NamedSegmentError;
pub use file::{NamedSegment, NamedSegmentWish, Past};
pub use record::Record;
pub use rows::{MAX_ROW_BYTES, RowId};
pub use words::{MappedWords, WordMemory};
