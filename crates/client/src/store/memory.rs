use mooncake_memory::{Buffer, RawSlice, SliceList};
use mooncake_ops::RangeToRead;
use mooncake_transfer::View;

use super::item::{GetTarget, PutSource};
use crate::drive::Memory;

/// The memory of operations that move no bytes.
pub(super) struct NoMemory;

impl Memory for NoMemory {
    fn part(&self, _: usize, _: u64, _: u64, _: u64) -> Option<SliceList<'_>> {
        None
    }
}

impl Memory for &[PutSource<'_>] {
    fn part(&self, position: usize, at: u64, len: u64, _: u64) -> Option<SliceList<'_>> {
        Some(self[position].src.part(at, len))
    }
}

impl Memory for &[GetTarget<'_>] {
    fn part(&self, position: usize, at: u64, len: u64, _: u64) -> Option<SliceList<'_>> {
        Some(self[position].dst.part(at, len))
    }
}

/// Buffers that are allocated once the lengths of their objects are known.
pub(super) struct Buffers(pub(super) Vec<Option<Buffer>>);

impl Memory for Buffers {
    fn make_room(&mut self, fetches: &[RangeToRead]) {
        for fetch in fetches {
            // After a fresh look-up the object may have another length.
            let room = self.0.room(fetch.position).map(|room| room.len() as u64);
            if room != Some(fetch.object_len) {
                self.0.make(&[(fetch.position, fetch.object_len)]);
            }
        }
    }

    fn part(&self, position: usize, at: u64, len: u64, object_len: u64) -> Option<SliceList<'_>> {
        part_of_room(self.0.room(position)?, (at, len), object_len)
    }
}

/// A part of the room for an object of this length; `None` if the room was made for another.
fn part_of_room(
    room: RawSlice<'_>,
    (at, len): (u64, u64),
    object_len: u64,
) -> Option<SliceList<'_>> {
    (room.len() as u64 == object_len).then(|| SliceList::from(room).part(at, len))
}

/// Makes room for objects once their lengths are known.
pub trait Rooms {
    /// Makes room for objects, each given by its position among the keys and its length in bytes. Called again for an
    /// object whose length has changed.
    fn make(&mut self, wanted: &[(usize, u64)]);

    /// The room of the object at this position; `None` if there is none.
    fn room(&self, position: usize) -> Option<RawSlice<'_>>;
}

impl Rooms for Vec<Option<Buffer>> {
    fn make(&mut self, wanted: &[(usize, u64)]) {
        for &(position, len) in wanted {
            self[position] = usize::try_from(len).ok().and_then(Buffer::try_zeroed);
        }
    }

    fn room(&self, position: usize) -> Option<RawSlice<'_>> {
        self[position].as_ref().map(Buffer::raw)
    }
}

/// Memory that the caller provides once the lengths of the objects are known.
pub(super) struct CallerBuffers<'m> {
    rooms: &'m mut dyn Rooms,
    /// By position: the length that the room was made for.
    made_for: Vec<u64>,
}

impl<'m> CallerBuffers<'m> {
    pub(super) fn new(count: usize, rooms: &'m mut dyn Rooms) -> Self {
        Self { rooms, made_for: vec![0; count] }
    }
}

impl Memory for CallerBuffers<'_> {
    fn make_room(&mut self, fetches: &[RangeToRead]) {
        let mut wanted = Vec::new();
        for fetch in fetches {
            let made_for = &mut self.made_for[fetch.position];
            if *made_for != fetch.object_len {
                *made_for = fetch.object_len;
                wanted.push((fetch.position, fetch.object_len));
            }
        }
        if !wanted.is_empty() {
            self.rooms.make(&wanted);
        }
    }

    fn part(&self, position: usize, at: u64, len: u64, object_len: u64) -> Option<SliceList<'_>> {
        part_of_room(self.rooms.room(position)?, (at, len), object_len)
    }
}

/// Objects shown in place, or copied into buffers.
pub(super) struct ViewsOrBuffers {
    pub(super) buffers: Buffers,
    pub(super) views: Vec<Option<View>>,
}

impl Memory for ViewsOrBuffers {
    fn make_room(&mut self, fetches: &[RangeToRead]) {
        self.buffers.make_room(fetches);
    }

    fn part(&self, position: usize, at: u64, len: u64, object_len: u64) -> Option<SliceList<'_>> {
        self.buffers.part(position, at, len, object_len)
    }

    fn takes_views(&self) -> bool {
        true
    }

    fn take_view(&mut self, position: usize, view: View) {
        self.views[position] = Some(view);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_that_cannot_be_is_an_answer() {
        let mut buffers = Buffers(vec![None]);
        for (len, part, there) in
            [(u64::MAX, (0, 10), false), (10, (2, 8), true), (20, (0, 20), true)]
        {
            buffers.0.make(&[(0, len)]);
            let found = buffers.part(0, part.0, part.1, len).map(|found| found.total_len());
            assert_eq!(found, there.then_some(part.1), "{len}");
        }
        assert!(buffers.part(0, 0, 10, 10).is_none(), "the room is for another length");
    }
}
