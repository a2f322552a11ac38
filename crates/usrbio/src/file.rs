//! A file that is registered with the library of 3FS.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use mooncake_memory::RawSlice;

use crate::lane::Direction;
use crate::mount::{LANE_BYTES, Mount};
use crate::registration::Registration;

/// A file on 3FS that is read and written by USRBIO.
#[derive(Debug)]
pub struct RegisteredFile {
    // Dropped before the file, whose descriptor it registers.
    _registration: Registration,
    file: File,
    mount: Arc<Mount>,
}

impl RegisteredFile {
    /// Registers a file of this mount. The file must be open for the intended accesses.
    ///
    /// # Errors
    /// The library refuses the file.
    pub fn new(file: File, mount: &Arc<Mount>) -> io::Result<RegisteredFile> {
        let registration = Registration::new(mount.functions, file.as_raw_fd())?;
        Ok(RegisteredFile { _registration: registration, file, mount: Arc::clone(mount) })
    }

    /// Fills the slices, one behind the other, from offset `at` on.
    ///
    /// # Errors
    /// An error of 3FS, that the file is too short, or [`io::ErrorKind::TimedOut`]. A part may have been read.
    pub fn read(&self, slices: &[RawSlice], at: u64) -> io::Result<()> {
        self.transfer(Direction::Read, slices, at)
    }

    /// Writes the slices, one behind the other, from offset `at` on.
    ///
    /// # Errors
    /// An error of 3FS, or [`io::ErrorKind::TimedOut`]. A part may have been written, or may be written later.
    pub fn write(&self, slices: &[RawSlice], at: u64) -> io::Result<()> {
        self.transfer(Direction::Write, slices, at)
    }

    /// Makes all written bytes and the file's length durable.
    ///
    /// # Errors
    /// Any I/O error.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    fn transfer(&self, direction: Direction, slices: &[RawSlice], at: u64) -> io::Result<()> {
        let total: usize = slices.iter().map(RawSlice::len).sum();
        if total == 0 {
            return Ok(());
        }
        let mut lent = self.mount.lane()?;
        let lane = lent.get();
        let mut done = 0;
        while done < total {
            let wanted = lane.buffer.sub(0, (total - done).min(LANE_BYTES));
            if direction == Direction::Write {
                for_each_part(slices, done, wanted, RawSlice::copy_to);
            }
            let place = (self.file.as_raw_fd(), at + done as u64);
            let (shared, patience) = (self.mount.buffer(), self.mount.patience());
            let moved = lane.run(shared, direction, place, wanted.len(), patience)?;
            if direction == Direction::Read {
                let read = wanted.sub(0, moved);
                for_each_part(slices, done, read, |part, read| read.copy_to(part));
            }
            done += moved;
        }
        Ok(())
    }
}

/// Calls `copy` for each part of the slices behind offset `from`, with the part of `buffer` that belongs to it.
fn for_each_part<'m>(
    slices: &[RawSlice<'m>],
    from: usize,
    buffer: RawSlice<'m>,
    mut copy: impl FnMut(RawSlice<'m>, RawSlice<'m>),
) {
    let (mut skipped, mut filled) = (from, 0);
    for slice in slices {
        if skipped >= slice.len() {
            skipped -= slice.len();
            continue;
        }
        let len = (slice.len() - skipped).min(buffer.len() - filled);
        copy(slice.sub(skipped, len), buffer.sub(filled, len));
        (skipped, filled) = (0, filled + len);
        if filled == buffer.len() {
            return;
        }
    }
}
