//! A file that the library knows.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use mooncake_memory::RawSlice;

use crate::lane::Direction;
use crate::mount::{LANE_BYTES, Mount};
use crate::registration::Registration;

/// A file on 3FS, read and written by USRBIO.
#[derive(Debug)]
pub struct RegisteredFile {
    // Before the file, whose descriptor it names.
    _registration: Registration,
    file: File,
    mount: Arc<Mount>,
}

impl RegisteredFile {
    /// Takes a file of this mount, open for what is to be done with it.
    ///
    /// # Errors
    /// The library does not take it.
    pub fn new(file: File, mount: &Arc<Mount>) -> io::Result<RegisteredFile> {
        let registration = Registration::new(mount.functions, file.as_raw_fd())?;
        Ok(RegisteredFile { _registration: registration, file, mount: Arc::clone(mount) })
    }

    /// Fills slices one behind the other from an offset on.
    ///
    /// # Errors
    /// Those of 3FS, or that the file is too short, or [`io::ErrorKind::TimedOut`]. Some bytes may have been read.
    pub fn read(&self, slices: &[RawSlice], at: u64) -> io::Result<()> {
        self.transfer(Direction::Read, slices, at)
    }

    /// Writes slices one behind the other from an offset on.
    ///
    /// # Errors
    /// Those of 3FS, or [`io::ErrorKind::TimedOut`]. Any part may have been written, or may be later.
    pub fn write(&self, slices: &[RawSlice], at: u64) -> io::Result<()> {
        self.transfer(Direction::Write, slices, at)
    }

    /// Has all lasting that was written, and the length of the file.
    ///
    /// # Errors
    /// Those of the system.
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

/// Gives the parts of slices, from so many bytes in on, each with the part of the buffer that is for it.
fn for_each_part(
    slices: &[RawSlice],
    from: usize,
    buffer: RawSlice,
    mut copy: impl FnMut(RawSlice, RawSlice),
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
