//! Prompts as ids of blocks. Prompts that begin with the same text have the same first ids.

use std::collections::HashMap;

use crate::trace::BLOCK_TOKENS;

/// Assigns ids to blocks. The same shared text after the same block always gets the same ids.
#[derive(Default)]
pub(super) struct Blocks {
    /// The first id of a shared text, by the block before it and the text.
    shared: HashMap<(u64, Text), u64>,
    next: u64,
}

/// A text that several prompts contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Text {
    System(u64),
    Tools(u64),
    Document(u64),
    Record { job: u64, number: u64 },
}

/// A prompt, block by block.
#[derive(Clone, Debug, Default)]
pub(super) struct Prompt {
    /// The ids of its full blocks.
    ids: Vec<u64>,
    /// How many tokens the last, incomplete block has.
    rest: usize,
}

impl Prompt {
    /// Appends a shared text, which fills whole blocks.
    pub(super) fn append_shared(&mut self, blocks: &mut Blocks, text: Text, count: u64) {
        let before = self.ids.last().map_or(0, |id| id + 1);
        let next = blocks.next;
        let first = *blocks.shared.entry((before, text)).or_insert(next);
        if first == next {
            blocks.next += count;
        }
        self.ids.extend(first..first + count);
        self.rest = 0;
    }

    /// Appends tokens that no other prompt contains.
    pub(super) fn append_own(&mut self, blocks: &mut Blocks, tokens: f64) {
        let tokens = self.rest + tokens as usize;
        for _ in 0..tokens / BLOCK_TOKENS {
            self.ids.push(blocks.next);
            blocks.next += 1;
        }
        self.rest = tokens % BLOCK_TOKENS;
    }

    /// The ids of a request with this prompt. An incomplete last block gets an id that is never used again.
    pub(super) fn request(&self, blocks: &mut Blocks) -> Vec<u64> {
        let mut ids = self.ids.clone();
        if self.rest > 0 || ids.is_empty() {
            ids.push(blocks.next);
            blocks.next += 1;
        }
        ids
    }

    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }
}
