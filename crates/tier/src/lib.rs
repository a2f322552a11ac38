//! Objects on disks: checksummed records in a folder that one process owns, in a log ([`LogStore`]) or as separate files
//! ([`FileStore`]). [`PackStore`] keep them in an object store.
//!
//! A [`RecordStore`] keeps what the ledger of a node knows about a range: key, version, grant, attributes and bytes.
//! It promises:
//!
//! - A record that [`RecordStore::put`] acknowledged survives any crash or power cut, until it is dropped or evicted.
//! - A record whose drop [`RecordStore::drop_records`] acknowledged never returns.
//! - A read gives exactly the bytes that were put, or an error. Each chunk of a record has its own checksum.
//!
//! The log is a sequence of files of equal length (`layout.rs`). Records are appended, never changed. To drop a
//! record, the log sets one bit in the head of the record's file. A drop therefore needs no record of its own that
//! would have to outlive the dropped record. The log seals a full file with a table of its contents, so opening a log
//! reads only a few KiB of each file. Space is freed a file at a time: records that were read since they were written
//! move to the end of the log, and the others are evicted. The next new file takes the retired one over.
//!
//! A write is acknowledged once it is synced. Callers that wait at the same time share one sync (`commit.rs`). After a
//! disk error the store writes nothing more, because it cannot know which of its writes are durable: see [`Broken`].
//!
//! This crate does not decide which objects go to disk, and knows nothing of masters. It reaches files through
//! [`Directory`], so tests can cut the power at any write. `direct.rs` bypasses the page cache where it can.

#![forbid(unsafe_code)]

mod block_buffer;
mod bucket;
#[cfg(any(test, feature = "testing"))]
mod bucket_double;
mod clean;
mod cloud;
mod commit;
mod contents;
mod direct;
mod directory;
mod erased;
mod errors;
mod files;
mod folder;
mod give_up;
mod index;
mod layout;
mod log_file;
mod log_store;
mod open;
mod packs;
mod probe;
mod read_faults;
mod record;
mod store;
mod stored;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;

pub use bucket::{Bucket, ListedObject};
pub use cloud::{Cloud, CloudError};
pub use directory::{BlockFile, Directory, Notes, ReadAt};
pub use errors::{Broken, OpenError, PutError, ReadError};
pub use files::{FileStore, FilesConfig};
pub use folder::{Folder, file_of_range};
pub use log_store::{DiskConfig, LogStore};
pub use packs::{PackStore, PacksConfig};
pub use probe::{BucketProbe, FileAccess, FolderProbe, probe_bucket, probe_folder};
pub use record::{Record, RecordId};
pub use store::{RecordStore, Usage};
