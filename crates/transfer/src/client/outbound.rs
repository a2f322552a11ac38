use std::os::fd::BorrowedFd;

use mooncake_memory::{RawSlice, SendBatch, SliceList, Wait};

use crate::sums::ChunkSums;
use mooncake_connection::Fault;

/// Most payload bytes that one call sends, so that they are still in the CPU cache when they are checksummed.
const WINDOW_BYTES: usize = 1 << 20;

/// Frames are gathered for one call up to about this many bytes.
pub(super) const GATHER_BYTES: usize = 256 << 10;

/// What a lane is about to send: bytes, and then payload straight from the caller's memory.
#[derive(Default)]
pub(crate) struct Outbound<'m> {
    bytes: Vec<u8>,
    bytes_sent: usize,
    pieces: Vec<RawSlice<'m>>,
    piece: usize,
    piece_sent: usize,
    sums: ChunkSums,
}

impl<'m> Outbound<'m> {
    /// The buffers for the next call, without the memory of this one.
    pub(super) fn rest(self) -> Outbound<'static> {
        let Outbound { bytes, bytes_sent, pieces, piece_sent, sums, .. } = self;
        Outbound { bytes, bytes_sent, pieces: emptied(pieces), piece: 0, piece_sent, sums }
    }

    /// Whether the kernel has taken everything.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes_sent == self.bytes.len() && self.piece == self.pieces.len()
    }

    /// Whether more bytes may be added to be sent by the same call.
    pub(super) fn takes_more(&self) -> bool {
        let are_few = self.is_empty() || self.bytes.len() < GATHER_BYTES;
        are_few && self.piece == self.pieces.len()
    }

    /// The buffer that bytes are appended to. All payload must have been sent.
    pub(super) fn bytes(&mut self) -> &mut Vec<u8> {
        assert_eq!(self.piece, self.pieces.len(), "payload comes behind the bytes");
        if self.bytes_sent == self.bytes.len() {
            self.bytes.clear();
            self.bytes_sent = 0;
        }
        &mut self.bytes
    }

    /// Adds the payload of one range behind all bytes.
    pub(super) fn put_payload(&mut self, src: &SliceList<'m>) {
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

    /// Sends some of it. The payload is checksummed after that, when the kernel has found its memory accessible.
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

/// No slices, in the allocation of those that borrowed the memory of a call.
pub(super) fn emptied(mut slices: Vec<RawSlice<'_>>) -> Vec<RawSlice<'static>> {
    slices.clear();
    slices.into_iter().map(|_| RawSlice::EMPTY).collect()
}
