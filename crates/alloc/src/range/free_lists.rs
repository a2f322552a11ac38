use super::class::{self, SUBDIVISIONS};
use super::nodes::{Hole, NIL, Nodes};

/// The holes by size class: a linked list through the holes of each class, and two levels of bitmaps. The bitmaps find
/// the next class with a hole in constant time.
#[derive(Clone, Debug)]
pub(crate) struct FreeLists {
    /// Bit `l` is set if `subs[l]` is not zero.
    levels: u64,
    /// Bit `s` of `subs[l]` is set if class `l * 32 + s` has a hole.
    subs: Box<[u32]>,
    /// First hole of each class's list, or `NIL`.
    heads: Box<[u32]>,
}

impl FreeLists {
    /// Lists for holes of up to `longest` bytes.
    pub(crate) fn new(longest: u64) -> FreeLists {
        let levels = (class::floor(longest) / SUBDIVISIONS + 1) as usize;
        let heads = vec![NIL; levels * SUBDIVISIONS as usize].into_boxed_slice();
        FreeLists { levels: 0, subs: vec![0; levels].into_boxed_slice(), heads }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.subs) + size_of_val(&*self.heads)
    }

    pub(crate) fn classes(&self) -> u32 {
        self.heads.len() as u32
    }

    /// First hole of a class, or `NIL`.
    pub(crate) fn head(&self, class: u32) -> u32 {
        self.heads.get(class as usize).copied().unwrap_or(NIL)
    }

    /// Whether the bitmaps say that the class has a hole.
    pub(crate) fn is_marked(&self, class: u32) -> bool {
        let (level, sub) = split(class);
        self.levels >> level & 1 == 1 && self.subs[level] >> sub & 1 == 1
    }

    /// The first hole of the lowest class that has one, from `class` up; `NIL` if there is none.
    pub(crate) fn first_from(&self, class: u32) -> u32 {
        let (level, sub) = split(class);
        let Some(&subs) = self.subs.get(level) else { return NIL };
        let here = subs & (u32::MAX << sub);
        if here != 0 {
            return self.heads[join(level, here.trailing_zeros())];
        }
        let above = self.levels & (u64::MAX << (level + 1));
        if above == 0 {
            return NIL;
        }
        let level = above.trailing_zeros() as usize;
        self.heads[join(level, self.subs[level].trailing_zeros())]
    }

    /// The first hole of the highest class that has one, or `NIL`.
    pub(crate) fn last(&self) -> u32 {
        if self.levels == 0 {
            return NIL;
        }
        let level = self.levels.ilog2() as usize;
        self.heads[join(level, self.subs[level].ilog2())]
    }

    /// The highest class that has a hole. Without holes, class 0, which never has one.
    pub(crate) fn last_class(&self) -> u32 {
        if self.levels == 0 {
            return 0;
        }
        let level = self.levels.ilog2() as usize;
        join(level, self.subs[level].ilog2()) as u32
    }

    /// Inserts a hole at the front of the list of its class.
    pub(crate) fn push(&mut self, nodes: &mut Nodes, at: u32) {
        let hole = nodes.hole_mut(at);
        let class = class::floor(hole.range.len);
        let head = std::mem::replace(&mut self.heads[class as usize], at);
        (hole.list_prev, hole.list_next) = (NIL, head);
        if head != NIL {
            nodes.hole_mut(head).list_prev = at;
            return;
        }
        let (level, sub) = split(class);
        self.subs[level] |= 1 << sub;
        self.levels |= 1 << level;
    }

    /// Removes a hole from the list of its class.
    pub(crate) fn remove(&mut self, nodes: &mut Nodes, at: u32) {
        let Hole { range, list_prev, list_next, .. } = *nodes.hole(at);
        if list_next != NIL {
            nodes.hole_mut(list_next).list_prev = list_prev;
        }
        if list_prev != NIL {
            nodes.hole_mut(list_prev).list_next = list_next;
            return;
        }
        let class = class::floor(range.len);
        self.heads[class as usize] = list_next;
        if list_next == NIL {
            let (level, sub) = split(class);
            self.subs[level] &= !(1 << sub);
            if self.subs[level] == 0 {
                self.levels &= !(1 << level);
            }
        }
    }
}

fn split(class: u32) -> (usize, u32) {
    ((class / SUBDIVISIONS) as usize, class % SUBDIVISIONS)
}

fn join(level: usize, sub: u32) -> usize {
    level * SUBDIVISIONS as usize + sub as usize
}
