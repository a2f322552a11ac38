use mooncake_memory::{Buffer, RawSlice, SliceList};
use mooncake_ops::RangeToRead;
use mooncake_transfer::View;

use super::item::{GetTarget, PutSource};
use crate::drive::Memory;

/// The memory of operations that move no bytes.
pub(super) struct NoMemory;

impl Memory for NoMemory {
    fn part(&mut self, _: usize, _: u64, _: u64, _: u64) -> Option<SliceList> {
        None
    }
}

impl Memory for &[PutSource<'_>] {
    fn part(&mut self, position: usize, at: u64, len: u64, _: u64) -> Option<SliceList> {
        Some(self[position].src.part(at, len))
    }
}

impl Memory for &[GetTarget<'_>] {
    fn part(&mut self, position: usize, at: u64, len: u64, _: u64) -> Option<SliceList> {
        Some(self[position].dst.part(at, len))
    }
}

/// Buffers that are allocated once the lengths of their objects are known.
pub(super) struct Buffers(pub(super) Vec<Option<Buffer>>);

impl Memory for Buffers {
    fn part(&mut self, position: usize, at: u64, len: u64, object_len: u64) -> Option<SliceList> {
        let buffer = &mut self.0[position];
        // After a fresh look-up the object may have another length.
        if buffer.as_ref().is_none_or(|buffer| buffer.len() as u64 != object_len) {
            *buffer = usize::try_from(object_len).ok().and_then(Buffer::try_zeroed);
        }
        let whole = SliceList::from(buffer.as_ref()?.raw());
        Some(whole.part(at, len))
    }
}

/// Makes room for objects, each given by its position among the keys and its length in bytes. Returns `None` where
/// there is no room. The memory must stay valid until the call has returned. Called again for an object whose length
/// has changed.
pub type MakeRoom<'m> = dyn FnMut(&[(usize, u64)]) -> Vec<Option<RawSlice>> + 'm;

/// Memory that the caller provides once the lengths of the objects are known.
pub(super) struct CallerBuffers<'m> {
    make: &'m mut MakeRoom<'m>,
    /// By position: the length that the room was made for, and the room.
    rooms: Vec<(u64, Option<RawSlice>)>,
}

impl<'m> CallerBuffers<'m> {
    pub(super) fn new(count: usize, make: &'m mut MakeRoom<'m>) -> Self {
        Self { make, rooms: vec![(0, None); count] }
    }
}

impl Memory for CallerBuffers<'_> {
    fn make_room(&mut self, fetches: &[RangeToRead]) {
        let mut wanted = Vec::new();
        for fetch in fetches {
            let room = &mut self.rooms[fetch.position];
            if room.0 != fetch.object_len {
                *room = (fetch.object_len, None);
                wanted.push((fetch.position, fetch.object_len));
            }
        }
        if wanted.is_empty() {
            return;
        }
        for ((position, len), room) in wanted.iter().zip((self.make)(&wanted)) {
            self.rooms[*position].1 = room.filter(|room| room.len() as u64 == *len);
        }
    }

    fn part(&mut self, position: usize, at: u64, len: u64, object_len: u64) -> Option<SliceList> {
        let (made_for, room) = self.rooms[position];
        let room = room.filter(|_| made_for == object_len)?;
        Some(SliceList::from(room).part(at, len))
    }
}

/// Objects shown in place, or copied into buffers.
pub(super) struct ViewsOrBuffers {
    pub(super) buffers: Buffers,
    pub(super) views: Vec<Option<View>>,
}

impl Memory for ViewsOrBuffers {
    fn part(&mut self, position: usize, at: u64, len: u64, object_len: u64) -> Option<SliceList> {
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
        assert!(buffers.part(0, 0, 10, u64::MAX).is_none());
        assert!(buffers.part(0, 2, 8, 10).is_some_and(|part| part.total_len() == 8));
        assert!(buffers.part(0, 0, 20, 20).is_some_and(|part| part.total_len() == 20));
    }
}
