use std::io;

use bytes::{Buf, Bytes, BytesMut};
use mooncake_wire::{HEADER_LEN, Header};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::codec::{Arrival, Awaited, BadFrame};

/// Least room offered to one read, in bytes.
const READ_BYTES: usize = 64 << 10;

/// A buffer that grew beyond this is given back once it is empty, in bytes.
const KEEP_BYTES: usize = 1 << 20;

/// Bytes of a connection that arrived and were not taken yet. The buffer grows with what arrived, never with the
/// length that a header announces. Bodies are parts of it that others may keep, which [`crate::Inbox`] does not allow.
#[derive(Debug, Default)]
pub struct AsyncInbox {
    buffer: BytesMut,
}

impl AsyncInbox {
    /// Waits for bytes, and returns how many came; 0 at the end of the stream. Loses nothing if it is cancelled.
    ///
    /// # Errors
    /// The error of the stream.
    pub async fn fill(&mut self, stream: &mut (impl AsyncRead + Unpin)) -> io::Result<usize> {
        if self.buffer.is_empty() && self.buffer.capacity() > KEEP_BYTES {
            self.buffer = BytesMut::new();
        }
        // Doubling bounds both the copies of a growing buffer and the memory that a peer can make this process
        // reserve.
        let room = READ_BYTES.max(self.buffer.len());
        if self.buffer.capacity() - self.buffer.len() < READ_BYTES / 4 {
            self.buffer.reserve(room);
        }
        stream.read_buf(&mut self.buffer).await
    }

    /// Takes the next frame, if all of it has arrived: its header and its body.
    ///
    /// # Errors
    /// Another frame arrives, or none.
    #[inline]
    pub fn next_frame(
        &mut self,
        awaited: &Awaited<'_>,
    ) -> Result<Option<(Header, Bytes)>, BadFrame> {
        let Arrival::Whole(header) = awaited.look_at(&self.buffer)? else { return Ok(None) };
        let mut body = self.buffer.split_to(header.frame_len()).freeze();
        body.advance(HEADER_LEN);
        Ok(Some((header, body)))
    }

    /// The bytes that arrived and were not taken yet.
    #[must_use]
    pub fn held(&self) -> &[u8] {
        &self.buffer
    }
}
