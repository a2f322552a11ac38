use std::mem;

use bytes::Bytes;
use mooncake_wire::{HEADER_LEN, Header};

use crate::codec::{Arrival, Awaited, BadFrame};

/// Size of the buffer while no longer frame arrives.
const CAPACITY: usize = 64 << 10;

/// A longer frame gets this much at first. Beyond, the buffer at most doubles as bytes arrive, whatever length the
/// header announces.
const FIRST_GROWTH: usize = 1 << 20;

/// The bytes of a stream that arrived and were not taken yet, in one piece. Receiving itself is the caller's.
#[derive(Debug)]
pub struct Inbox {
    bytes: Vec<u8>,
    /// The buffer of usual size, while a longer one is in use.
    usual: Vec<u8>,
    start: usize,
    end: usize,
    ahead: usize,
}

impl Default for Inbox {
    /// An inbox that receives as much ahead as it has room for.
    fn default() -> Self {
        Self::reading_ahead(CAPACITY)
    }
}

impl Inbox {
    /// An inbox that receives up to `ahead` bytes at once if less is wanted.
    #[must_use]
    pub fn reading_ahead(ahead: usize) -> Self {
        let ahead = ahead.min(CAPACITY);
        Self { bytes: vec![0; CAPACITY], usual: Vec::new(), start: 0, end: 0, ahead }
    }

    /// Whether it holds no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Bytes held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// The bytes that arrived and were not taken yet.
    #[must_use]
    pub fn held(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// How much of the awaited frame is held.
    ///
    /// # Errors
    /// Another frame is held, or none.
    pub fn look_for(&self, awaited: &Awaited<'_>) -> Result<Arrival, BadFrame> {
        awaited.look_at(self.held())
    }

    /// Where the next bytes go, if fewer than `wanted` are held. It may be shorter than what is wanted, but never
    /// empty. Tell [`Inbox::arrived`] how many came.
    pub fn room(&mut self, wanted: usize) -> &mut [u8] {
        debug_assert!(self.len() < wanted, "{wanted} bytes are held already");
        if self.is_empty() {
            (self.start, self.end) = (0, 0);
        }
        let reach = wanted.max(self.ahead);
        if self.start + reach > self.bytes.len() || self.bytes.len() > FIRST_GROWTH {
            self.make_room(wanted);
        }
        let limit = self.bytes.len().min(self.start + reach);
        &mut self.bytes[self.end..limit]
    }

    /// Moves what is held to the start of the buffer. Makes the buffer longer for a long frame, and shorter behind one.
    #[cold]
    fn make_room(&mut self, wanted: usize) {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == 0 && self.bytes.len() > FIRST_GROWTH {
            self.bytes = mem::take(&mut self.usual);
            self.bytes.resize(CAPACITY, 0);
        }
        if self.end == self.bytes.len() || self.bytes.len() < wanted.min(FIRST_GROWTH) {
            self.grow(wanted);
        }
    }

    /// Makes the buffer longer, which holds bytes from its start.
    fn grow(&mut self, wanted: usize) {
        // Fresh memory is zero already: the system provides it as bytes arrive.
        let mut longer = vec![0; wanted.min(FIRST_GROWTH.max(2 * self.end))];
        longer[..self.end].copy_from_slice(&self.bytes[..self.end]);
        let shorter = mem::replace(&mut self.bytes, longer);
        if shorter.len() == CAPACITY {
            self.usual = shorter;
        }
    }

    /// This many bytes came into [`Inbox::room`].
    pub fn arrived(&mut self, count: usize) {
        assert!(count <= self.bytes.len() - self.end, "no more came than there was room for");
        self.end += count;
    }

    /// Receives by `receive` until `wanted` bytes are held. It fills the beginning of its argument, and says how many
    /// bytes that is.
    ///
    /// # Errors
    /// Those of `receive`.
    pub fn fill<E>(
        &mut self,
        wanted: usize,
        mut receive: impl FnMut(&mut [u8]) -> Result<usize, E>,
    ) -> Result<(), E> {
        while self.len() < wanted {
            let count = receive(self.room(wanted))?;
            self.arrived(count);
        }
        Ok(())
    }

    /// Receives by `receive` until the whole awaited frame is held, and returns its header. Header and body are the
    /// next bytes to be taken. The inner error is that of a frame that is not the awaited one.
    ///
    /// # Errors
    /// Those of `receive`.
    pub fn fill_frame<E>(
        &mut self,
        awaited: &Awaited<'_>,
        mut receive: impl FnMut(&mut [u8]) -> Result<usize, E>,
    ) -> Result<Result<Header, BadFrame>, E> {
        self.fill(HEADER_LEN, &mut receive)?;
        loop {
            match self.look_for(awaited) {
                Ok(Arrival::Part { wanted }) => self.fill(wanted, &mut receive)?,
                Ok(Arrival::Whole(header)) => return Ok(Ok(header)),
                Err(error) => return Ok(Err(error)),
            }
        }
    }

    /// The next `len` bytes.
    ///
    /// # Panics
    /// If fewer are held.
    pub fn take(&mut self, len: usize) -> &[u8] {
        assert!(len <= self.len(), "only what is held can be taken");
        self.start += len;
        self.taken(len)
    }

    /// The `len` bytes that were taken last. No bytes may have been received since.
    pub(crate) fn taken(&self, len: usize) -> &[u8] {
        &self.bytes[self.start - len..self.start]
    }

    /// Like [`Inbox::taken`], in memory of their own. Long ones are not copied.
    pub(crate) fn taken_bytes(&mut self, len: usize) -> Bytes {
        if len <= CAPACITY {
            return Bytes::copy_from_slice(self.taken(len));
        }
        let mut next = mem::take(&mut self.usual);
        next.resize(CAPACITY.max(self.len()), 0);
        next[..self.len()].copy_from_slice(self.held());
        let bytes = Bytes::from(mem::replace(&mut self.bytes, next));
        let taken = bytes.slice(self.start - len..self.start);
        (self.start, self.end) = (0, self.end - self.start);
        taken
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use mooncake_wire::Kind;

    use super::*;

    const REPLY: Awaited<'static> = Awaited::any_of(&[Kind::Reply]);

    fn frame(request_id: u64, body: &[u8]) -> Vec<u8> {
        let header =
            Header { kind: Kind::Reply, flags: 0, body_len: body.len() as u32, request_id };
        [&header.encode()[..], body].concat()
    }

    /// A body that no other id or length has.
    fn body(id: usize, len: usize) -> Vec<u8> {
        (0..len).map(|at| (at * 31 + at / 251 + id) as u8).collect()
    }

    #[test]
    fn frames_arrive_whole_in_whatever_pieces_their_bytes_come() {
        let lens = [0, 7, CAPACITY - HEADER_LEN, CAPACITY, 100_000, 1, 3 << 20, 0, 70_000, 20];
        let stream: Vec<u8> = lens
            .iter()
            .enumerate()
            .flat_map(|(id, &len)| frame(id as u64, &body(id, len)))
            .collect();
        for (piece, ahead) in [(1013, CAPACITY), (64 << 10, CAPACITY), (5 << 20, 16 << 10), (17, 1)]
        {
            let (mut inbox, mut sent) = (Inbox::reading_ahead(ahead), 0);
            let mut receive = |room: &mut [u8]| {
                let count = room.len().min(piece).min(stream.len() - sent);
                assert!(count > 0, "more is wanted than was sent");
                room[..count].copy_from_slice(&stream[sent..sent + count]);
                sent += count;
                Ok::<_, Infallible>(count)
            };
            for (id, &len) in lens.iter().enumerate() {
                let header = inbox.fill_frame(&REPLY, &mut receive).unwrap().unwrap();
                assert_eq!((header.request_id, header.body_len as usize), (id as u64, len));
                assert!(inbox.take(header.frame_len())[HEADER_LEN..] == body(id, len), "{id}");
            }
            assert!(inbox.is_empty());
            assert_eq!(sent, stream.len());
        }
    }

    #[test]
    fn memory_grows_as_bytes_arrive_and_is_given_back() {
        let mut inbox = Inbox::reading_ahead(16 << 10);
        let len = 5 << 20;
        let frame = frame(1, &body(1, len));
        let mut sent = 0;
        let mut most = 0;
        let receive = |room: &mut [u8]| {
            assert!(room.len() <= FIRST_GROWTH.max(sent), "{} for {sent} bytes", room.len());
            let count = room.len().min(100_000).min(frame.len() - sent);
            room[..count].copy_from_slice(&frame[sent..sent + count]);
            sent += count;
            most = most.max(room.len());
            Ok::<_, Infallible>(count)
        };
        let header = inbox.fill_frame(&REPLY, receive).unwrap().unwrap();
        assert!(most >= FIRST_GROWTH / 2, "a long frame is received by few calls");
        inbox.take(header.frame_len());
        assert_eq!(inbox.room(1).len(), 16 << 10);
        assert_eq!(inbox.bytes.len(), CAPACITY);
    }

    #[test]
    fn a_long_body_is_given_away_without_a_copy() {
        for (len, is_copied) in [(100, true), (100_000, false)] {
            let mut inbox = Inbox::default();
            let frame = [frame(1, &body(1, len)), b"next".to_vec()].concat();
            let mut rest = &frame[..];
            let receive = |room: &mut [u8]| std::io::Read::read(&mut rest, room);
            let header = inbox.fill_frame(&REPLY, receive).unwrap().unwrap();
            let held = inbox.len();
            inbox.fill(held.max(frame.len()), |room| std::io::Read::read(&mut rest, room)).unwrap();
            inbox.take(header.frame_len());
            let before = inbox.taken(len).as_ptr();
            let given = inbox.taken_bytes(len);
            assert_eq!(given, body(1, len));
            assert_eq!(given.as_ptr() != before, is_copied);
            assert_eq!(inbox.held(), b"next");
        }
    }
}
