/// The size classes of a slab allocator: the lengths of slots into which a slab can be cut.
///
/// Lengths are multiples of 8 and grow by about an eighth. They are chosen so that a whole number of slots fills the
/// slab. The last eight are the slab's length over 8, 7, 6, ... 1.
#[derive(Clone, Debug)]
pub(crate) struct Classes {
    slot_lens: Box<[u32]>,
}

/// Shortest slot, in bytes.
const MIN_SLOT: u32 = 64;

impl Classes {
    /// Classes for slabs of `slab_bytes`, which is a multiple of 64.
    pub(crate) fn new(slab_bytes: u32) -> Classes {
        let mut slot_lens = vec![MIN_SLOT];
        let mut len = MIN_SLOT;
        while len < slab_bytes {
            let grown = (len + (len / 8).max(8)).min(slab_bytes);
            let stretch = |slots: u32| (slab_bytes / slots) & !7;
            let tight = stretch(slab_bytes.div_ceil(grown));
            len = if tight > len { tight } else { stretch(slab_bytes / grown) };
            slot_lens.push(len);
        }
        Classes { slot_lens: slot_lens.into_boxed_slice() }
    }

    pub(crate) fn len(&self) -> usize {
        self.slot_lens.len()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.slot_lens)
    }

    /// The class with the shortest slots that hold `len` bytes; `len` must not exceed a slab.
    pub(crate) fn of(&self, len: u64) -> u8 {
        self.slot_lens.partition_point(|&slot| u64::from(slot) < len) as u8
    }

    /// Length of a class's slots, in bytes.
    pub(crate) fn slot_len(&self, class: u8) -> u64 {
        u64::from(self.slot_lens[usize::from(class)])
    }
}

#[cfg(test)]
mod tests {
    use super::Classes;

    #[test]
    fn classes_of_a_tiny_slab() {
        assert_eq!(*Classes::new(64).slot_lens, [64]);
        assert_eq!(*Classes::new(256).slot_lens, [64, 80, 128, 256]);
    }

    #[test]
    fn classes_grow_by_about_an_eighth_and_fill_their_slab() {
        let slab = 4 << 20;
        let classes = Classes::new(slab);
        assert!(classes.len() <= 128, "{} classes", classes.len());
        for pair in classes.slot_lens.windows(2) {
            let [slot, next] = [pair[0], pair[1]];
            assert!(slot < next && slot.is_multiple_of(8));
            assert!(slab % slot < slab / 64, "slots of {slot}");
            let few = slab / next < 8;
            assert!(few || next <= slot + (slot / 7).max(8), "{slot}, then {next}");
        }
        assert_eq!(classes.slot_lens.last(), Some(&slab));
    }

    #[test]
    fn a_length_gets_the_shortest_slot_that_holds_it() {
        let classes = Classes::new(4 << 20);
        for class in 0..classes.len() as u8 {
            let slot = classes.slot_len(class);
            assert_eq!(classes.of(slot), class);
            if class > 0 {
                assert_eq!(classes.of(classes.slot_len(class - 1) + 1), class);
            }
        }
        assert_eq!(classes.of(1), 0);
    }
}
