//! Prompts as ids of blocks: what begins alike has the same ids as far as it is alike.

use std::collections::HashMap;

use crate::trace::BLOCK_TOKENS;

/// Hands out ids: to what follows the same text, for the same text, the same.
#[derive(Default)]
pub(super) struct Blocks {
    /// The first id of a text that many prompts have, behind the block before it.
    shared: HashMap<(u64, Text), u64>,
    next: u64,
}

/// A text that prompts share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Text {
    System(u64),
    Tools(u64),
    Document(u64),
    Record { job: u64, number: u64 },
}

/// The blocks of a prompt that is written.
#[derive(Clone, Debug, Default)]
pub(super) struct Prompt {
    /// Those that are full.
    ids: Vec<u64>,
    /// Tokens of the block after these.
    rest: usize,
}

impl Prompt {
    /// Appends a text that others may have as well: it fills whole blocks.
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

    /// Appends tokens that no other prompt has.
    pub(super) fn append_own(&mut self, blocks: &mut Blocks, tokens: f64) {
        let tokens = self.rest + tokens as usize;
        for _ in 0..tokens / BLOCK_TOKENS {
            self.ids.push(blocks.next);
            blocks.next += 1;
        }
        self.rest = tokens % BLOCK_TOKENS;
    }

    /// The ids of a request with this prompt. A last block that is not full has an id that never comes again.
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
