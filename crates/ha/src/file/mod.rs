//! A folder of this host as the coordinator.
//!
//! Each leadership has a number, its epoch, and two files: `leader.N`, which is made by whoever is first to link it
//! there, and `record.N`, which only that leader writes. The highest number counts.
//!
//! No lock is ever waited for, so a process that is stopped anywhere blocks nobody:
//! - A leader holds a lock on its `leader.N` until it dies, and keeps a time in it until which it leads. It is *done*
//!   when the lock is free, or that time is over.
//! - Who follows makes `leader.M` first, with a higher number, then waits until all with lower numbers are done, and
//!   only then reads the record. A leader renews, or writes its record, first, and only then looks for higher
//!   numbers. So if both happen at once, at least one sees the other: a renewal that counts is waited for, and a
//!   record that was acknowledged is read.
//!
//! Locks and the monotonic clock are those of one host: a folder that is shared between hosts is refused where it
//! is noticed.

mod claim_file;
mod folder;
mod tenure;

pub(crate) use folder::Folder;
