use crate::{Handle, growth};

/// The bit of an entry that says that its handle is not in use. The other bits are then the next unused handle.
const UNUSED: u64 = 1 << 63;

/// Maps each handle to the offset of its range, in eight bytes per handle.
#[derive(Clone, Debug)]
pub(crate) struct HandleTable {
    /// No handle has number 0, so entry 0 is never used.
    entries: Vec<u64>,
    unused: u32,
    live: u32,
}

impl HandleTable {
    pub(crate) fn new() -> HandleTable {
        HandleTable { entries: vec![UNUSED], unused: 0, live: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.live as usize
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<u64>()
    }

    /// Whether [`insert`](Self::insert) would succeed.
    pub(crate) fn has_room(&self) -> bool {
        self.unused != 0 || self.entries.len() <= u32::MAX as usize
    }

    pub(crate) fn insert(&mut self, offset: u64) -> Handle {
        assert!(offset < UNUSED && self.has_room(), "no handle is left for offset {offset}");
        self.live += 1;
        let number = self.unused;
        if number == 0 {
            growth::push(&mut self.entries, offset);
            return Handle::new((self.entries.len() - 1) as u32);
        }
        self.unused = self.entries[number as usize] as u32;
        self.entries[number as usize] = offset;
        Handle::new(number)
    }

    /// The offset of a live handle.
    pub(crate) fn offset(&self, handle: Handle) -> u64 {
        let number = handle.index();
        let offset = self.entries.get(number as usize).copied().unwrap_or(UNUSED);
        assert!(
            offset & UNUSED == 0,
            "handle {number} names no live range: it was freed before, or another allocator returned it"
        );
        offset
    }

    pub(crate) fn remove(&mut self, handle: Handle) -> u64 {
        let offset = self.offset(handle);
        self.entries[handle.index() as usize] = UNUSED | u64::from(self.unused);
        self.unused = handle.index();
        self.live -= 1;
        offset
    }

    /// The offsets of all live handles.
    pub(crate) fn offsets(&self) -> impl Iterator<Item = u64> {
        self.entries.iter().copied().filter(|entry| entry & UNUSED == 0)
    }
}
