//! Objects on disks: checksummed records in a folder that one process owns, in a log ([`Disk`]) or in files of their own
//! ([`Files`]).
//!
//! A [`RecordStore`] keeps what the ledger of a node keeps of a range: key, version, grant, attributes and bytes. It promises:
//!
//! - A record that [`RecordStore::put`] acknowledged is there after any crash or power cut, until it is dropped or evicted.
//! - A record whose drop [`RecordStore::drop_records`] acknowledged never comes back, whatever happens.
//! - A read gives the very bytes that were put, or an error. Each chunk of a record has its checksum.
//!
//! The log is a sequence of files of one size (`layout.rs`). Records are appended, never changed. A record is dropped by one bit in
//! the head of its file, so a drop needs no record of its own that would have to outlive the one it is about. A full file is sealed
//! with a table of its contents, which makes a start read a few KiB for each file. Space comes back by the file: what was read
//! since it was written moves to the end of the log, the rest is evicted.
//!
//! Acknowledged means synced: callers that wait at the same time share one sync (`commit.rs`). After an error of the disk nothing
//! more is written, since nobody knows what of it lasts: see [`Broken`].
//!
//! There is no policy here of what is to be on disk, and nothing of masters. Files are reached through [`Directory`], so that
//! tests can cut the power at any write. `direct.rs` reads and writes them past the system's cache where that can be.

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
mod disk;
mod erased;
mod errors;
mod files;
mod folder;
mod index;
mod layout;
mod log_file;
mod open;
mod packs;
mod probe;
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
pub use disk::{Disk, DiskConfig};
pub use errors::{Broken, OpenError, PutError, ReadError};
pub use files::{Files, FilesConfig};
pub use folder::{Folder, file_of_range};
pub use packs::{Packs, PacksConfig};
pub use probe::{BucketProbe, FileAccess, FolderProbe, probe_bucket, probe_folder};
pub use record::{Name, Record};
pub use store::{RecordStore, Usage};
