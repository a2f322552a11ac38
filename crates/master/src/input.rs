//! Cuts received bytes into frames.

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use mooncake_wire::{FrameError, HEADER_LEN, Header};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// Least room offered to one read, in bytes.
const READ_BYTES: usize = 64 << 10;

/// A buffer that grew beyond this is given back once it is empty, in bytes.
const KEEP_BYTES: usize = 1 << 20;

/// One frame without its payload, which the master's protocol does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) header: Header,
    pub(crate) body: Bytes,
}

/// Bytes of a connection that arrived and are not handled yet. The buffer grows with what arrived, never with the
/// length that a header announces.
#[derive(Debug, Default)]
pub(crate) struct Input {
    buffer: BytesMut,
}

impl Input {
    /// Waits for bytes, and returns how many came; 0 at the end of the stream.
    pub(crate) async fn fill(&mut self, stream: &mut TcpStream) -> io::Result<usize> {
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

    /// The next frame, if all of it has arrived and its body is no longer than `max_body`.
    pub(crate) fn next_frame(&mut self, max_body: u32) -> Result<Option<Frame>, BadFrame> {
        let Some(head) = self.buffer.first_chunk::<HEADER_LEN>() else { return Ok(None) };
        let header = Header::decode(head).map_err(BadFrame::Header)?;
        if header.body_len > max_body {
            return Err(BadFrame::TooLong { len: header.body_len, max: max_body });
        }
        let len = HEADER_LEN + header.body_len as usize;
        if self.buffer.len() < len {
            return Ok(None);
        }
        let mut body = self.buffer.split_to(len).freeze();
        body.advance(HEADER_LEN);
        Ok(Some(Frame { header, body }))
    }

    /// The bytes that are not handled yet.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.buffer
    }
}

/// Bytes that are no frame of this protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadFrame {
    #[error("{0}")]
    Header(FrameError),
    #[error("a body of {len} bytes is longer than the {max} allowed here")]
    TooLong { len: u32, max: u32 },
}
