//! Tells which put of a block a get may return.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The puts of every block of a replay, numbered from 1 for each block.
///
/// If put `n` is known to be the newest when a get begins, the get must return put `n` or a later one. If puts of
/// several clients overlap, the clients do not know which one the store took last. Such puts never raise the lower
/// bound.
pub(crate) struct Generations {
    blocks: Mutex<Vec<Block>>,
}

#[derive(Clone, Copy, Default)]
struct Block {
    /// How many puts have begun.
    begun: u32,
    /// How many puts are in flight.
    open: u32,
    /// The oldest put that gets may return.
    floor: u32,
}

/// A put in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Put {
    pub(crate) block: u32,
    pub(crate) generation: u32,
    /// Whether no other put of the block was in flight when this one began.
    alone: bool,
}

impl Generations {
    pub(crate) fn new(blocks: usize) -> Self {
        Self { blocks: Mutex::new(vec![Block::default(); blocks]) }
    }

    /// Numbers a put that is about to begin.
    pub(crate) fn begin(&self, block: u32) -> Put {
        let mut blocks = self.lock();
        let state = &mut blocks[block as usize];
        state.begun += 1;
        state.open += 1;
        Put { block, generation: state.begun, alone: state.open == 1 }
    }

    /// Notes the end of a put. `stored` is true only if the store certainly took its bytes.
    pub(crate) fn end(&self, put: Put, stored: bool) {
        let mut blocks = self.lock();
        let state = &mut blocks[put.block as usize];
        state.open -= 1;
        if stored && put.alone && state.begun == put.generation {
            state.floor = put.generation;
        }
    }

    /// The oldest put of the block that a get beginning now may return.
    pub(crate) fn oldest(&self, block: u32) -> u32 {
        self.lock()[block as usize].floor.max(1)
    }

    /// The newest put of the block that a get ending now may return.
    pub(crate) fn newest(&self, block: u32) -> u32 {
        self.lock()[block as usize].begun
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Block>> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(generations: &Generations) -> (u32, u32) {
        (generations.oldest(0), generations.newest(0))
    }

    #[test]
    fn a_stored_put_makes_older_ones_stale() {
        let generations = Generations::new(1);
        assert_eq!(window(&generations), (1, 0));
        let first = generations.begin(0);
        assert_eq!(window(&generations), (1, 1));
        generations.end(first, true);
        let second = generations.begin(0);
        assert_eq!(window(&generations), (1, 2));
        generations.end(second, true);
        assert_eq!(window(&generations), (2, 2));
    }

    #[test]
    fn a_put_that_was_not_stored_makes_nothing_stale() {
        let generations = Generations::new(1);
        generations.end(generations.begin(0), true);
        generations.end(generations.begin(0), false);
        assert_eq!(window(&generations), (1, 2));
    }

    #[test]
    fn overlapping_puts_make_nothing_stale_whatever_their_order() {
        for flip in [false, true] {
            let generations = Generations::new(1);
            let mut puts = [generations.begin(0), generations.begin(0)];
            if flip {
                puts.reverse();
            }
            for put in puts {
                generations.end(put, true);
            }
            assert_eq!(window(&generations), (1, 2));
            generations.end(generations.begin(0), true);
            assert_eq!(window(&generations), (3, 3));
        }
    }
}
