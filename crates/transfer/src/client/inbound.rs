use std::os::fd::BorrowedFd;

use mooncake_memory::{RawSlice, RecvBatch, SliceList, Wait};
use mooncake_types::{ErrorCode, limits::MAX_FRAME_RANGES};
use mooncake_wire::{Kind, encode_results};

use super::outbound::emptied;
use crate::sums::{ChunkSums, decode_sums, sums_len};
use mooncake_connection::Fault;

/// Most payload bytes that one call receives, so that they are still in the CPU cache when they are checksummed.
const WINDOW_BYTES: usize = 1 << 20;

/// The status that a node gives for each range.
pub(super) type Statuses = Vec<Result<(), ErrorCode>>;

/// Whether payload and a trailer follow the results in a reply of this kind.
pub(super) fn has_payload(reply: Kind) -> bool {
    reply == Kind::ReadReply
}

/// The outcome of one range, once the whole reply has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The node did what was asked, and the checksums match.
    Done,
    /// The node refused, or lost the entry while it copied the bytes.
    Failed(ErrorCode),
    /// The checksums do not match.
    Corrupt,
}

/// The reply that a lane waits for. Nearly always all ranges succeed, so head and length are known beforehand: one
/// call receives head, payload and trailer, each to its place. If another head arrives, the received bytes are
/// collected and read step by step (see `stepwise`).
pub(super) struct Inbound<'m> {
    /// The kind of the reply.
    pub(super) awaited: Kind,
    pub(super) request_id: u64,
    pub(super) ranges: Vec<Range>,
    /// The head of a reply in which all ranges succeed.
    predicted: Vec<u8>,
    /// Whether the head has arrived and was decoded.
    pub(super) head_known: bool,
    /// One for each range; empty if all succeeded.
    pub(super) statuses: Statuses,
    /// Head and trailer, one behind the other.
    pub(super) bytes: Vec<u8>,
    pub(super) head_len: usize,
    trailer_len: usize,
    /// Bytes of head and trailer that have arrived.
    pub(super) received: usize,
    /// Where the payload goes. The next two fields say how far it has arrived.
    pub(super) pieces: Vec<RawSlice<'m>>,
    piece: usize,
    piece_filled: usize,
    sums: ChunkSums,
    /// Bytes that arrived and are not decoded yet. If there are any before the head is known, the head is read step
    /// by step.
    pub(super) unread: Vec<u8>,
    pub(super) stepwise: bool,
}

/// One range that was asked for.
#[derive(Clone, Copy)]
pub(super) struct Range {
    pub(super) len: u64,
    /// How many pieces belong to it.
    pub(super) pieces: usize,
}

impl Default for Inbound<'_> {
    fn default() -> Self {
        Self {
            awaited: Kind::ReadReply,
            request_id: 0,
            ranges: Vec::new(),
            predicted: Vec::new(),
            head_known: false,
            statuses: Vec::new(),
            bytes: Vec::new(),
            head_len: 0,
            trailer_len: 0,
            received: 0,
            pieces: Vec::new(),
            piece: 0,
            piece_filled: 0,
            sums: ChunkSums::default(),
            unread: Vec::new(),
            stepwise: false,
        }
    }
}

impl<'m> Inbound<'m> {
    /// The buffers and the bytes that came early, without the memory of a call.
    pub(super) fn rest(self) -> Inbound<'static> {
        let Inbound { awaited, request_id, ranges, predicted, head_known, statuses, .. } = self;
        let Inbound { bytes, head_len, trailer_len, received, pieces, .. } = self;
        let Inbound { piece_filled, sums, unread, stepwise, .. } = self;
        Inbound {
            awaited,
            request_id,
            ranges,
            predicted,
            head_known,
            statuses,
            bytes,
            head_len,
            trailer_len,
            received,
            pieces: emptied(pieces),
            piece: 0,
            piece_filled,
            sums,
            unread,
            stepwise,
        }
    }

    /// Begins to wait for a reply about ranges whose payload goes to `places`, if it has any.
    pub(super) fn expect<'a>(
        &mut self,
        awaited: Kind,
        request_id: u64,
        places: impl Iterator<Item = &'a SliceList<'m>>,
    ) where
        'm: 'a,
    {
        (self.awaited, self.request_id) = (awaited, request_id);
        self.ranges.clear();
        self.pieces.clear();
        for place in places {
            let before = self.pieces.len();
            self.pieces.extend(place.slices().iter().filter(|slice| !slice.is_empty()));
            let pieces = self.pieces.len() - before;
            self.ranges.push(Range { len: place.total_len(), pieces });
        }
        static FINE: [Result<(), ErrorCode>; MAX_FRAME_RANGES] = [Ok(()); MAX_FRAME_RANGES];
        self.predicted.clear();
        let fine = &FINE[..self.ranges.len()];
        encode_results(&mut self.predicted, awaited, request_id, fine);
        self.statuses.clear();
        self.head_known = false;
        self.stepwise = !self.unread.is_empty();
        self.received = 0;
        self.lay_out(self.predicted.len());
    }

    /// Makes room for a head of this length, and for the trailer of all ranges that succeed.
    pub(super) fn lay_out(&mut self, head_len: usize) {
        let lens = fine_ranges(&self.ranges, &self.statuses).map(|(_, range)| range.len);
        self.head_len = head_len;
        self.trailer_len = match has_payload(self.awaited) {
            true => lens.clone().map(|len| 4 + sums_len(len) as usize).sum(),
            false => 0,
        };
        self.bytes.resize(head_len + self.trailer_len, 0);
        self.sums.restart(lens);
        (self.piece, self.piece_filled) = (0, 0);
    }

    /// Receives some of the reply.
    pub(super) fn recv(&mut self, socket: BorrowedFd<'_>, wait: Wait) -> Result<(), Fault> {
        if self.stepwise {
            return self.recv_stepwise(socket, wait);
        }
        let count = self.recv_in_place(socket, wait)?;
        self.take_in(count);
        if self.stepwise { self.read_head() } else { Ok(()) }
    }

    fn recv_in_place(&mut self, socket: BorrowedFd<'_>, wait: Wait) -> Result<usize, Fault> {
        let mut batch = RecvBatch::new();
        let (head, trailer) = self.bytes.split_at_mut(self.head_len);
        let mut fits = batch.push_bytes(&mut head[self.received.min(self.head_len)..]);
        let mut room = WINDOW_BYTES;
        let mut filled = self.piece_filled;
        for piece in &self.pieces[self.piece..] {
            let len = room.min(piece.len() - filled);
            fits = fits && batch.push(piece.sub(filled, len));
            room -= len;
            if !fits || filled + len < piece.len() {
                fits = false;
                break;
            }
            filled = 0;
        }
        if fits {
            let from = self.received.saturating_sub(self.head_len);
            // A full batch leaves the trailer to the next call.
            let _ = batch.push_bytes(&mut trailer[from..]);
        }
        Ok(batch.recv(socket, wait)?)
    }

    /// Accounts for bytes that were received in place.
    fn take_in(&mut self, count: usize) {
        let of_head = count.min(self.head_len.saturating_sub(self.received));
        let rest = count - of_head;
        self.received += of_head;
        if !self.head_known {
            let head = &self.bytes[..self.received];
            if *head != self.predicted[..self.received] {
                self.gather_up(rest);
                return;
            }
            self.head_known = self.received == self.head_len;
        }
        self.received += self.fill_pieces(rest);
    }

    /// Accounts for payload bytes that were received in place, and says how many of `count` lie behind the payload.
    pub(super) fn fill_pieces(&mut self, mut count: usize) -> usize {
        while count > 0 && self.piece < self.pieces.len() {
            let piece = self.pieces[self.piece];
            let len = count.min(piece.len() - self.piece_filled);
            self.sums.feed(piece.sub(self.piece_filled, len));
            self.piece_filled += len;
            count -= len;
            if self.piece_filled == piece.len() {
                (self.piece, self.piece_filled) = (self.piece + 1, 0);
            }
        }
        count
    }

    /// Whether the whole reply has arrived.
    pub(super) fn is_complete(&self) -> bool {
        self.head_known
            && self.piece == self.pieces.len()
            && self.received == self.head_len + self.trailer_len
    }

    /// Whether bytes arrived behind the complete reply.
    pub(super) fn has_unread(&self) -> bool {
        !self.unread.is_empty()
    }

    /// The outcome of each range. The reply must be complete.
    pub(super) fn outcomes(&self) -> impl Iterator<Item = Outcome> {
        assert!(self.is_complete(), "a reply is judged when all of it has come");
        let mut trailer = &self.bytes[self.head_len..];
        let mut sums = self.sums.sums();
        self.ranges.iter().enumerate().map(move |(index, range)| {
            if let Some(Err(code)) = self.statuses.get(index) {
                return Outcome::Failed(*code);
            }
            if !has_payload(self.awaited) {
                return Outcome::Done;
            }
            let (status, rest) = trailer.split_at(4);
            let (sent, rest) = rest.split_at(sums_len(range.len) as usize);
            let (received, other) = sums.split_at(sent.len() / 4);
            (trailer, sums) = (rest, other);
            judge(status, decode_sums(sent).eq(received.iter().copied()))
        })
    }
}

fn judge(status: &[u8], matches: bool) -> Outcome {
    let number = decode_sums(status).next().map_or(i32::MIN, u32::cast_signed);
    match ErrorCode::from_number(number) {
        Some(ErrorCode::Ok) if matches => Outcome::Done,
        Some(ErrorCode::Ok) => Outcome::Corrupt,
        Some(code) => Outcome::Failed(code),
        None => Outcome::Failed(ErrorCode::InternalError),
    }
}

/// The ranges that succeed, with their indices. No statuses mean that all do.
pub(super) fn fine_ranges<'a>(
    ranges: &'a [Range],
    statuses: &'a [Result<(), ErrorCode>],
) -> impl Iterator<Item = (usize, Range)> + Clone + 'a {
    let is_fine = |index: usize| statuses.get(index).is_none_or(Result::is_ok);
    ranges.iter().copied().enumerate().filter(move |(index, _)| is_fine(*index))
}
