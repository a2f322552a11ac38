use super::slots::Slots;
use crate::{Handle, growth};

/// Ends a list of slabs.
pub(crate) const NIL: u32 = u32::MAX;

/// The use of a slab.
#[derive(Clone, Debug, Default)]
pub(crate) enum Use {
    /// The slab is free, or is in a run but not its first slab.
    #[default]
    Empty,
    /// The slab is the first of a run of slabs that holds one range.
    Run {
        /// The run in the pool of slabs.
        pool: Handle,
    },
    /// The slab is cut into slots of one class.
    Slots {
        /// The slab in the pool of slabs.
        pool: Handle,
        class: u8,
        slots: Slots,
    },
}

#[derive(Clone, Debug)]
struct Slab {
    usage: Use,
    /// Neighbours in the list of the slabs of its class that have a free slot.
    prev: u32,
    next: u32,
}

/// All slabs up to the last one that was ever used, and for each class a list of the slabs with a free slot.
#[derive(Clone, Debug)]
pub(crate) struct SlabTable {
    slabs: Vec<Slab>,
    open: Box<[u32]>,
}

impl SlabTable {
    /// Empty slabs only; `classes` is the number of classes.
    pub(crate) fn new(classes: usize) -> SlabTable {
        SlabTable { slabs: Vec::new(), open: vec![NIL; classes].into() }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let slots = self.slabs.iter().map(|slab| match &slab.usage {
            Use::Slots { slots, .. } => slots.heap_bytes(),
            _ => 0,
        });
        self.slabs.capacity() * size_of::<Slab>() + size_of_val(&*self.open) + slots.sum::<usize>()
    }

    /// Number of slabs up to the last one that was ever used.
    pub(crate) fn len(&self) -> u32 {
        self.slabs.len() as u32
    }

    pub(crate) fn usage(&self, at: u32) -> &Use {
        self.slabs.get(at as usize).map_or(&Use::Empty, |slab| &slab.usage)
    }

    pub(crate) fn set_usage(&mut self, at: u32, usage: Use) {
        while self.slabs.len() <= at as usize {
            growth::push(&mut self.slabs, Slab { usage: Use::Empty, prev: NIL, next: NIL });
        }
        self.slabs[at as usize].usage = usage;
    }

    /// The slots of a slab. Panics if the slab is not cut into slots.
    pub(crate) fn slots_mut(&mut self, at: u32) -> &mut Slots {
        match &mut self.slabs[at as usize].usage {
            Use::Slots { slots, .. } => slots,
            other => unreachable!("slab {at} has no slots: {other:?}"),
        }
    }

    /// A slab of this class that has a free slot, or `NIL`.
    pub(crate) fn open(&self, class: u8) -> u32 {
        self.open[usize::from(class)]
    }

    /// Inserts a slab at the front of its class's list.
    pub(crate) fn link(&mut self, class: u8, at: u32) {
        let head = std::mem::replace(&mut self.open[usize::from(class)], at);
        let slab = &mut self.slabs[at as usize];
        (slab.prev, slab.next) = (NIL, head);
        if head != NIL {
            self.slabs[head as usize].prev = at;
        }
    }

    pub(crate) fn unlink(&mut self, class: u8, at: u32) {
        let Slab { prev, next, .. } = self.slabs[at as usize];
        if next != NIL {
            self.slabs[next as usize].prev = prev;
        }
        if prev == NIL {
            self.open[usize::from(class)] = next;
        } else {
            self.slabs[prev as usize].next = next;
        }
    }

    /// Number of slabs in the lists, or an error if a slab is in a list to which it does not belong.
    pub(crate) fn check_lists(&self) -> Result<usize, String> {
        let mut count = 0;
        for (class, &head) in self.open.iter().enumerate() {
            let (mut prev, mut at) = (NIL, head);
            while at != NIL {
                let slab = self.slabs.get(at as usize).filter(|slab| slab.prev == prev);
                let open = slab.is_some_and(|slab| match &slab.usage {
                    Use::Slots { class: own, slots, .. } => {
                        usize::from(*own) == class && !slots.is_full()
                    }
                    _ => false,
                });
                if !open || count > self.slabs.len() {
                    return Err(format!("the list of class {class} is broken at slab {at}"));
                }
                count += 1;
                (prev, at) = (at, self.slabs[at as usize].next);
            }
        }
        Ok(count)
    }
}
