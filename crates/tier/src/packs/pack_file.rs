use std::io;

use mooncake_memory::{Buffer, RawSlice};

use crate::bucket::Bucket;
use crate::directory::ReadAt;

/// A pack that can be read like a file.
pub(super) struct PackFile<'a> {
    pub(super) bucket: &'a dyn Bucket,
    pub(super) name: String,
}

impl ReadAt for PackFile<'_> {
    fn read(&self, slices: &[RawSlice], at: u64) -> io::Result<()> {
        let len: usize = slices.iter().map(RawSlice::len).sum();
        let bytes = self.bucket.get_range(&self.name, at..at + len as u64)?;
        let bytes = Buffer::from_vec(bytes);
        if bytes.raw().len() != len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut from = 0;
        for slice in slices {
            bytes.raw().sub(from, slice.len()).copy_to(*slice);
            from += slice.len();
        }
        Ok(())
    }
}

/// Whether an error says that the pack is missing or too short.
pub(super) fn is_cut_or_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof)
}
