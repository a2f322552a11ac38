use std::os::fd::BorrowedFd;

use mooncake_memory::{RawSlice, SendBatch, SliceList, Wait};

use crate::sums::ChunkSums;
use mooncake_connection::Fault;

/// Most payload bytes handed over by one call: what was sent is checksummed while it is in the cache.
const WINDOW_BYTES: usize = 1 << 20;

/// About how many bytes are gathered for one call.
pub(super) const GATHER_BYTES: usize = 256 << 10;

/// What a lane is about to send: bytes, and then payload straight from the caller's memory.
#[derive(Default)]
pub(crate) struct Outbound {
    bytes: Vec<u8>,
    bytes_sent: usize,
    pieces: Vec<RawSlice>,
    piece: usize,
    piece_sent: usize,
    sums: ChunkSums,
}

impl Outbound {
    /// Has all been handed to the kernel?
    pub(super) fn is_empty(&self) -> bool {
        self.bytes_sent == self.bytes.len() && self.piece == self.pieces.len()
    }

    /// Whether bytes may be added, and are few enough to be sent with further ones by one call.
    pub(super) fn takes_more(&self) -> bool {
        let are_few = self.is_empty() || self.bytes.len() < GATHER_BYTES;
        are_few && self.piece == self.pieces.len()
    }

    /// Where bytes are added. All payload must have been sent.
    pub(super) fn bytes(&mut self) -> &mut Vec<u8> {
        assert_eq!(self.piece, self.pieces.len(), "payload comes behind the bytes");
        if self.bytes_sent == self.bytes.len() {
            self.bytes.clear();
            self.bytes_sent = 0;
        }
        &mut self.bytes
    }

    /// Adds the payload of one range behind all bytes.
    pub(super) fn put_payload(&mut self, src: &SliceList) {
        assert_eq!(self.piece, self.pieces.len(), "one payload at a time");
        self.pieces.clear();
        self.pieces.extend(src.slices().iter().filter(|slice| !slice.is_empty()));
        (self.piece, self.piece_sent) = (0, 0);
        self.sums.restart([src.total_len()]);
    }

    /// The checksums of the payload that was sent last.
    pub(super) fn payload_sums(&self) -> &[u32] {
        self.sums.sums()
    }

    /// Hands some of it to the kernel. Payload is checksummed after that: the kernel finds out first whether the
    /// memory is there.
    pub(super) fn send(&mut self, socket: BorrowedFd<'_>, wait: Wait) -> Result<(), Fault> {
        let mut batch = SendBatch::new();
        let mut fits = batch.push_bytes(&self.bytes[self.bytes_sent..]);
        let mut room = WINDOW_BYTES;
        let mut skip = self.piece_sent;
        for piece in &self.pieces[self.piece..] {
            let len = room.min(piece.len() - skip);
            fits = fits && batch.push(piece.sub(skip, len));
            room -= len;
            if !fits || room == 0 {
                break;
            }
            skip = 0;
        }
        // Behind payload there always come its checksums.
        let more = self.piece < self.pieces.len();
        let sent = batch.send(socket, wait, more)?;
        let of_bytes = sent.min(self.bytes.len() - self.bytes_sent);
        self.bytes_sent += of_bytes;
        self.pass_pieces(sent - of_bytes);
        Ok(())
    }

    fn pass_pieces(&mut self, mut count: usize) {
        while count > 0 {
            let piece = self.pieces[self.piece];
            let len = count.min(piece.len() - self.piece_sent);
            self.sums.feed(piece.sub(self.piece_sent, len));
            self.piece_sent += len;
            count -= len;
            if self.piece_sent == piece.len() {
                (self.piece, self.piece_sent) = (self.piece + 1, 0);
            }
        }
    }
}
