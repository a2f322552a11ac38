//! Joins stored blocks into requests.
//!
//! An event names stored blocks and the block before them. If those blocks were seen too, the whole prompt is known.
//! An engine stores the blocks of one request step by step. Blocks that follow a request's last block soon belong to
//! the same request. Later ones belong to another request, such as the next turn of a conversation.

use std::collections::HashMap;

use super::batch::{EventBatch, StoredBlocks};
use crate::Trace;
use crate::trace_error::MAX_REQUEST_BLOCKS;

/// How events are joined into requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventTraceConfig {
    /// Blocks that follow within this many milliseconds belong to the same request.
    pub same_request_ms: u64,
    /// The medium whose events count. Events that name no medium count too.
    pub medium: String,
}

impl Default for EventTraceConfig {
    fn default() -> Self {
        Self { same_request_ms: 2_000, medium: "GPU".to_owned() }
    }
}

/// Counts of what was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Batches that were read.
    pub batches: usize,
    /// Events that stored blocks and count.
    pub stored: usize,
    /// Events of other types or media, or without blocks.
    pub passed_over: usize,
    /// Requests so far.
    pub requests: usize,
    /// Events whose parent block is unknown: their prompt began before the first event.
    pub without_start: usize,
    /// Blocks that were left out, because their request is too long or has them already.
    pub too_long: usize,
    /// How many tokens a block has, as the last event said.
    pub block_tokens: Option<u32>,
}

/// Builds a trace from batches of events.
#[derive(Debug, Default)]
pub struct EventTrace {
    config: EventTraceConfig,
    /// The number of each block, by its hash.
    numbers: HashMap<Box<[u8]>, u32>,
    /// The block before each block, by numbers.
    parents: Vec<Option<u32>>,
    requests: Vec<Request>,
    /// Requests that may continue, by the number of their last block.
    open: HashMap<u32, usize>,
    seen: Seen,
}

#[derive(Debug)]
struct Request {
    begun_ms: u64,
    last_ms: u64,
    blocks: Vec<u32>,
}

impl EventTrace {
    /// A trace without requests.
    #[must_use]
    pub fn new(config: EventTraceConfig) -> Self {
        Self { config, ..Self::default() }
    }

    /// The counts so far.
    #[must_use]
    pub fn seen(&self) -> Seen {
        Seen { requests: self.requests.len(), ..self.seen }
    }

    /// Adds the events of a batch.
    pub fn take(&mut self, batch: &EventBatch) {
        self.seen.batches += 1;
        self.seen.passed_over += batch.others;
        for stored in &batch.stored {
            let is_elsewhere = stored.medium.as_ref().is_some_and(|it| *it != self.config.medium);
            if is_elsewhere || stored.hashes.is_empty() {
                self.seen.passed_over += 1;
                continue;
            }
            self.seen.stored += 1;
            self.seen.block_tokens = stored.block_tokens.or(self.seen.block_tokens);
            self.store(stored, batch.time_ms);
        }
    }

    /// The trace, with requests in the order of arrival.
    #[must_use]
    pub fn finish(mut self) -> Trace {
        self.requests.sort_by_key(|request| request.begun_ms);
        let start = self.requests.first().map_or(0, |request| request.begun_ms);
        let mut trace = Trace::default();
        let mut ids: HashMap<u32, u32> = HashMap::new();
        for request in self.requests {
            let name = |block: &u32| {
                let next = u32::try_from(trace.hash_ids.len()).expect("there are no more blocks");
                *ids.entry(*block).or_insert_with(|| {
                    trace.hash_ids.push(next.into());
                    next
                })
            };
            let named = request.blocks.iter().map(name).collect();
            trace.requests.push(named);
            trace.arrivals_ms.push(request.begun_ms - start);
        }
        trace
    }

    fn store(&mut self, stored: &StoredBlocks, now_ms: u64) {
        let parent = stored.parent.as_ref().map(|hash| {
            if !self.numbers.contains_key(hash) {
                self.seen.without_start += 1;
            }
            self.number(hash).0
        });
        let goes_on = parent.and_then(|parent| self.open.remove(&parent)).filter(|&request| {
            now_ms.saturating_sub(self.requests[request].last_ms) <= self.config.same_request_ms
        });
        let request = goes_on.unwrap_or_else(|| {
            let blocks = parent.map_or_else(Vec::new, |parent| self.prompt(parent));
            self.requests.push(Request { begun_ms: now_ms, last_ms: now_ms, blocks });
            self.requests.len() - 1
        });
        let mut before = parent;
        for hash in &stored.hashes {
            let (block, is_new) = self.number(hash);
            self.follow((block, is_new), before);
            let blocks = &mut self.requests[request].blocks;
            if blocks.len() < MAX_REQUEST_BLOCKS && (is_new || !blocks.contains(&block)) {
                blocks.push(block);
            } else {
                self.seen.too_long += 1;
            }
            before = Some(block);
        }
        self.requests[request].last_ms = now_ms;
        self.open.extend(before.map(|last| (last, request)));
    }

    /// The number of a block, and whether the block is new.
    fn number(&mut self, hash: &[u8]) -> (u32, bool) {
        if let Some(&number) = self.numbers.get(hash) {
            return (number, false);
        }
        let number = u32::try_from(self.parents.len()).expect("memory ends before numbers do");
        self.parents.push(None);
        self.numbers.insert(hash.into(), number);
        (number, true)
    }

    /// Records the block before a block, unless that would close a cycle. A new block cannot be in one.
    fn follow(&mut self, (block, is_new): (u32, bool), before: Option<u32>) {
        let Some(before) = before else { return };
        let has_none = self.parents[block as usize].is_none();
        if is_new || has_none && !self.prompt(before).contains(&block) {
            self.parents[block as usize] = Some(before);
        }
    }

    /// The blocks of a prompt, up to this one.
    fn prompt(&self, last: u32) -> Vec<u32> {
        let before = |block: &u32| self.parents[*block as usize];
        let mut blocks: Vec<u32> =
            std::iter::successors(Some(last), before).take(MAX_REQUEST_BLOCKS).collect();
        blocks.reverse();
        blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(name: &str) -> Box<[u8]> {
        name.as_bytes().into()
    }

    /// A batch that stores blocks, named by letters, after `parent`.
    fn stored(time_ms: u64, parent: Option<&str>, blocks: &str) -> EventBatch {
        let hashes = blocks.chars().map(|letter| hash(&letter.to_string())).collect();
        let parent = parent.map(hash);
        let blocks = StoredBlocks { hashes, parent, block_tokens: Some(16), medium: None };
        EventBatch { time_ms, stored: vec![blocks], others: 0 }
    }

    /// Arrivals and blocks of the requests, with the counts.
    fn requests(batches: &[EventBatch]) -> (Vec<(u64, Vec<u64>)>, Seen) {
        let mut events = EventTrace::new(EventTraceConfig::default());
        batches.iter().for_each(|batch| events.take(batch));
        let seen = events.seen();
        let trace = events.finish();
        let named = trace
            .requests
            .iter()
            .map(|blocks| blocks.iter().map(|&block| trace.hash_ids[block as usize]).collect());
        (trace.arrivals_ms.iter().copied().zip(named).collect(), seen)
    }

    #[test]
    fn steps_of_a_request_are_joined_and_later_turns_are_not() {
        let (found, seen) = requests(&[
            stored(1_000, None, "ab"),
            stored(1_100, Some("b"), "c"),
            stored(1_200, Some("b"), "d"),
            stored(1_300, Some("c"), "e"),
            stored(60_000, Some("e"), "f"),
        ]);
        let expected =
            vec![(0, vec![0, 1, 2, 3]), (200, vec![0, 1, 4]), (59_000, vec![0, 1, 2, 3, 5])];
        assert_eq!(found, expected);
        assert_eq!((seen.requests, seen.stored, seen.block_tokens), (3, 5, Some(16)));
    }

    #[test]
    fn what_is_stored_again_is_asked_for_again() {
        let (found, _) = requests(&[stored(0, None, "abc"), stored(90_000, Some("a"), "bc")]);
        assert_eq!(found, vec![(0, vec![0, 1, 2]), (90_000, vec![0, 1, 2])]);
    }

    #[test]
    fn a_prompt_that_began_before_the_events_is_known_in_part() {
        let (found, seen) = requests(&[stored(0, Some("x"), "a"), stored(9_000, Some("a"), "b")]);
        assert_eq!(found, vec![(0, vec![0, 1]), (9_000, vec![0, 1, 2])]);
        assert_eq!(seen.without_start, 1);
    }

    #[test]
    fn hashes_in_a_circle_make_no_endless_prompt() {
        let (found, _) = requests(&[
            stored(0, Some("b"), "a"),
            stored(9_000, Some("a"), "b"),
            stored(18_000, Some("b"), "a"),
            stored(27_000, None, "aa"),
        ]);
        for (_, blocks) in found {
            let mut distinct = blocks.clone();
            distinct.sort_unstable();
            distinct.dedup();
            assert_eq!(distinct.len(), blocks.len(), "{blocks:?}");
        }
    }

    #[test]
    fn other_media_are_passed_over() {
        let mut batch = stored(0, None, "a");
        batch.stored[0].medium = Some("CPU".to_owned());
        let (found, seen) = requests(&[batch]);
        assert_eq!((found.len(), seen.passed_over, seen.stored), (0, 1, 0));
    }
}
