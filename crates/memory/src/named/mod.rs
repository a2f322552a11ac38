//! Named segments: memory, and the record of its contents, in one file that outlives the process.
//!
//! # The file
//!
//! ```text
//! header        4 KiB   fixed part: layout, lengths, cluster, client, boot of the machine, their checksum;
//!                       changing part: the segment's id, the highest epoch, the highest grant, how many slots have
//!                       space, how many processes have opened the segment
//! slots         256 B each; only used slots take memory; a row takes one slot, or several that are chained
//! memory        from a multiple of 2 MiB on
//! ```
//!
//! # Why the file is consistent at every moment
//!
//! The file lies in memory. What a process stored there remains when it is killed, and the next process maps it again.
//! Nothing is ever written back. So only the order of stores matters. All stores to the header and the slots are of
//! single words, in program order ([`WordMemory`]). Each change takes effect by one store:
//!
//! - A row exists once its mark is stored, after all its bytes, and until its mark is set to zero.
//! - A value of two words has two copies, and the invalid copy is changed ([`latest`]).
//! - A file is complete once its first word says so.
//!
//! The owner of the rows adds one rule. It adds a row that describes bytes only after the bytes are in place. It
//! withdraws the row, with a barrier, before the first of them changes. A test stops random histories after every
//! prefix of their stores (`mooncake-node`, `mapped/rows/tests`).
//!
//! A file from an earlier boot is not trusted: on a disk, its pages may have been written back in any order, or not at
//! all.

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
pub use file::{NamedSegment, NamedSegmentOptions, SegmentOrigin};
pub use record::Record;
pub use rows::{MAX_ROW_BYTES, RowId};
pub use words::{MappedWords, WordMemory};
