use mooncake_memory::{Buffer, Crc32c, RawSlice};
use mooncake_types::limits::{CHUNK_BYTES, MAX_FRAME_RANGES};
use mooncake_types::{Epoch, RangeRead, SegmentId, Version};
use mooncake_wire::{encode_read, encode_read_reply};

/// Most payload bytes of a frame: a quarter of what a lane has in flight.
const FRAME_BYTES: usize = 2 << 20;

/// Frames that are asked for ahead of the reply that is waited for.
pub(crate) const AHEAD: usize = 4;

/// Most payload bytes taken by one call, so that they are checksummed while they are in the cache.
const WINDOW_BYTES: usize = 1 << 20;

/// Most pieces of one call.
const MAX_PIECES: usize = 128;

/// A reply with no more payload is put together in one buffer.
pub(crate) const SMALL_BYTES: usize = 64 << 10;

/// What one operation reads: some ranges of one length.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) ranges: usize,
    pub(crate) len: usize,
}

/// One request and its reply. Head, payload and trailer lie in an arena, one behind the other.
#[derive(Clone)]
pub(crate) struct Frame {
    /// The bytes of the request.
    pub(crate) request: Vec<u8>,
    at: usize,
    head: usize,
    ranges: usize,
    range_len: usize,
    trailer: usize,
}

impl Frame {
    pub(crate) fn payload(&self) -> usize {
        self.ranges * self.range_len
    }

    fn end(&self) -> usize {
        self.at + self.head + self.payload() + self.trailer
    }
}

/// Where the replies of one operation lie: sent from there, or received to there.
pub(crate) struct Arena {
    memory: Buffer,
    pub(crate) frames: Vec<Frame>,
}

impl Arena {
    /// The replies as a node has them.
    pub(crate) fn filled(shape: Shape) -> Arena {
        let arena = Arena::empty(shape);
        let bytes: Vec<u8> = (0..arena.memory.len()).map(|at| (at * 31 + at / 251) as u8).collect();
        arena.memory.raw().write_from(&bytes);
        arena
    }

    /// Room for the replies.
    pub(crate) fn empty(shape: Shape) -> Arena {
        let per_frame = (FRAME_BYTES / shape.len).clamp(1, MAX_FRAME_RANGES);
        let mut frames = Vec::new();
        let (mut at, mut left) = (0, shape.ranges);
        while left > 0 {
            let frame = frame(at, left.min(per_frame), shape.len);
            at = frame.end();
            left -= frame.ranges;
            frames.push(frame);
        }
        Arena { memory: Buffer::zeroed(at), frames }
    }

    /// All of it.
    pub(crate) fn memory(&self) -> RawSlice {
        self.memory.raw()
    }

    /// Head and payload of a frame.
    pub(crate) fn body(&self, frame: &Frame) -> RawSlice {
        self.memory.raw().sub(frame.at, frame.head + frame.payload())
    }

    /// The trailer of a frame.
    pub(crate) fn trailer(&self, frame: &Frame) -> RawSlice {
        self.memory.raw().sub(frame.at + frame.head + frame.payload(), frame.trailer)
    }

    /// Head and payload, each range a piece of its own.
    pub(crate) fn pieces<'a>(&'a self, frame: &'a Frame) -> impl Iterator<Item = RawSlice> + 'a {
        let memory = self.memory.raw();
        let ranges = (0..frame.ranges).map(move |range| {
            memory.sub(frame.at + frame.head + range * frame.range_len, frame.range_len)
        });
        std::iter::once(memory.sub(frame.at, frame.head)).chain(ranges)
    }
}

/// A frame with the lengths that the transport's frames have.
fn frame(at: usize, ranges: usize, range_len: usize) -> Frame {
    let (epoch, len) = (Epoch(1), range_len as u64);
    let range = |index: usize| RangeRead {
        segment: SegmentId(1),
        offset: (index * range_len) as u64,
        version: Version { epoch, counter: 1 },
        object_offset: 0,
        from: 0,
        len,
    };
    let asked: Vec<RangeRead> = (0..ranges).map(range).collect();
    let (mut request, mut head) = (Vec::new(), Vec::new());
    encode_read(&mut request, 1, &asked);
    encode_read_reply(&mut head, 1, &vec![Ok(()); ranges]);
    let trailer = ranges * (4 + 4 * len.div_ceil(CHUNK_BYTES) as usize);
    Frame { request, at, head: head.len(), ranges, range_len, trailer }
}

/// How far the reply that is waited for has come.
pub(crate) struct Reply {
    pieces: Vec<RawSlice>,
    piece: usize,
    filled: usize,
    crc: Crc32c,
}

impl Reply {
    pub(crate) fn new() -> Reply {
        Reply { pieces: Vec::new(), piece: 0, filled: 0, crc: Crc32c::new() }
    }

    /// Waits for a frame in pieces, or, if `whole`, as one.
    pub(crate) fn expect(&mut self, arena: &Arena, frame: &Frame, whole: bool) {
        self.pieces.clear();
        if whole {
            self.pieces.push(arena.memory().sub(frame.at, frame.end() - frame.at));
        } else {
            self.pieces.extend(arena.pieces(frame));
            self.pieces.push(arena.trailer(frame));
        }
        (self.piece, self.filled) = (0, 0);
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.piece == self.pieces.len()
    }

    /// Bytes that have not come yet.
    pub(crate) fn missing(&self) -> usize {
        let left: usize =
            self.pieces[self.piece..].iter().map(mooncake_memory::RawSlice::len).sum();
        left - self.filled
    }

    /// What the next call is to fill.
    pub(crate) fn window(&self, out: &mut Vec<RawSlice>) {
        out.clear();
        let (mut room, mut filled) = (WINDOW_BYTES + (4 << 10), self.filled);
        for piece in self.pieces[self.piece..].iter().take(MAX_PIECES) {
            let len = room.min(piece.len() - filled);
            if len > 0 {
                out.push(piece.sub(filled, len));
            }
            room -= len;
            if room == 0 {
                break;
            }
            filled = 0;
        }
    }

    /// Accounts for bytes that were received in place.
    pub(crate) fn take_in(&mut self, mut count: usize) {
        while count > 0 {
            let piece = self.pieces[self.piece];
            let part = piece.sub(self.filled, count.min(piece.len() - self.filled));
            self.crc.update_raw(part);
            count -= part.len();
            self.pass(part.len(), piece.len());
        }
    }

    /// Copies bytes that were received elsewhere to their place, and says how many are this reply's.
    pub(crate) fn copy_in(&mut self, bytes: RawSlice) -> usize {
        let mut from = 0;
        while from < bytes.len() && !self.is_complete() {
            let piece = self.pieces[self.piece];
            let len = (bytes.len() - from).min(piece.len() - self.filled);
            let part = bytes.sub(from, len);
            self.crc.update_raw(part);
            part.copy_to(piece.sub(self.filled, len));
            from += len;
            self.pass(len, piece.len());
        }
        from
    }

    fn pass(&mut self, count: usize, piece_len: usize) {
        self.filled += count;
        if self.filled == piece_len {
            (self.piece, self.filled) = (self.piece + 1, 0);
        }
    }
}

/// What a server has still to send.
#[derive(Default)]
pub(crate) struct Unsent {
    pieces: Vec<RawSlice>,
    piece: usize,
    sent: usize,
}

impl Unsent {
    pub(crate) fn replace(&mut self, pieces: impl Iterator<Item = RawSlice>) {
        self.pieces.clear();
        self.pieces.extend(pieces);
        (self.piece, self.sent) = (0, 0);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.piece == self.pieces.len()
    }

    /// What the next call is to send.
    pub(crate) fn window(&self) -> impl Iterator<Item = RawSlice> + '_ {
        let pieces = self.pieces[self.piece..].iter().take(MAX_PIECES).enumerate();
        pieces.map(|(index, piece)| {
            let skip = if index == 0 { self.sent } else { 0 };
            piece.sub(skip, piece.len() - skip)
        })
    }

    pub(crate) fn pass(&mut self, mut count: usize) {
        while count > 0 {
            let left = self.pieces[self.piece].len() - self.sent;
            let step = count.min(left);
            count -= step;
            self.sent += step;
            if step == left {
                (self.piece, self.sent) = (self.piece + 1, 0);
            }
        }
    }
}
