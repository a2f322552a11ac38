//! The hits of other caches on the same requests. Hits are blocks of the longest cached prefix of a request. Then all
//! blocks of the request are touched in order, and missing ones are inserted.

use crate::trace::Trace;

const NONE: u32 = u32::MAX;

/// Hits of a cache that never drops a block, over the first `requests` requests.
#[must_use]
pub fn infinite_hits(trace: &Trace, requests: usize) -> u64 {
    lru_hits(trace, requests, trace.hash_ids.len())
}

/// Hits of a cache of `capacity` blocks over the first `requests` requests. It drops the block that was touched
/// longest ago.
#[must_use]
pub fn lru_hits(trace: &Trace, requests: usize, capacity: usize) -> u64 {
    let mut cache = Lru::new(trace.hash_ids.len(), capacity);
    let mut hits = 0;
    for blocks in &trace.requests[..requests] {
        hits += blocks.iter().take_while(|&&block| cache.holds(block)).count() as u64;
        for &block in blocks {
            cache.touch(block);
        }
    }
    hits
}

/// A doubly linked list through the blocks, from the oldest touch to the newest.
struct Lru {
    links: Vec<Link>,
    oldest: u32,
    newest: u32,
    len: usize,
    capacity: usize,
}

#[derive(Clone, Copy)]
struct Link {
    held: bool,
    older: u32,
    newer: u32,
}

impl Lru {
    fn new(blocks: usize, capacity: usize) -> Self {
        let links = vec![Link { held: false, older: NONE, newer: NONE }; blocks];
        Self { links, oldest: NONE, newest: NONE, len: 0, capacity }
    }

    fn holds(&self, block: u32) -> bool {
        self.links[block as usize].held
    }

    fn touch(&mut self, block: u32) {
        if self.capacity == 0 {
            return;
        }
        if self.holds(block) {
            self.unlink(block);
        } else if self.len == self.capacity {
            self.unlink(self.oldest);
        }
        self.append(block);
    }

    fn append(&mut self, block: u32) {
        self.links[block as usize] = Link { held: true, older: self.newest, newer: NONE };
        match self.newest {
            NONE => self.oldest = block,
            newest => self.links[newest as usize].newer = block,
        }
        self.newest = block;
        self.len += 1;
    }

    fn unlink(&mut self, block: u32) {
        let Link { older, newer, .. } = self.links[block as usize];
        match older {
            NONE => self.oldest = newer,
            older => self.links[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.links[newer as usize].older = older,
        }
        self.links[block as usize].held = false;
        self.len -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::TraceLimits;

    fn trace(requests: &[&[u32]]) -> Trace {
        let distinct = requests.iter().flat_map(|blocks| blocks.iter()).max().unwrap() + 1;
        Trace {
            requests: requests.iter().map(|&blocks| blocks.into()).collect(),
            arrivals_ms: vec![0; requests.len()],
            hash_ids: (0..u64::from(distinct)).collect(),
        }
    }

    #[test]
    fn hits_are_counted_by_hand() {
        let rows: &[(&[&[u32]], usize, u64)] = &[
            (&[&[0, 1], &[0, 1]], 2, 2),
            (&[&[0, 1], &[0, 1]], 1, 0),
            (&[&[0, 1], &[0, 1]], 0, 0),
            // A gap ends the prefix: block 2 is cached and 3 is not, so 4 is no hit.
            (&[&[2, 4], &[2, 3, 4]], 9, 1),
            // Block 0 is touched again, so block 1 is dropped for block 2.
            (&[&[0], &[1], &[0], &[2], &[0], &[1]], 2, 2),
        ];
        for &(requests, capacity, hits) in rows {
            assert_eq!(
                lru_hits(&trace(requests), requests.len(), capacity),
                hits,
                "{requests:?} {capacity}"
            );
        }
    }

    /// The expected figures were computed separately, with an ordered dictionary.
    #[test]
    fn the_shipped_trace_reaches_the_known_ratios() {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/conversation_trace.jsonl.gz");
        let trace = Trace::read(&path, TraceLimits::NONE).unwrap();
        let tenths_of_percent =
            |hits: u64| (hits as f64 * 1000.0 / trace.blocks() as f64).round() as u64;
        for (percent, expected) in [(1, 52), (5, 195), (10, 278), (20, 345), (40, 360)] {
            let hits = lru_hits(&trace, trace.requests.len(), trace.hash_ids.len() * percent / 100);
            assert_eq!(tenths_of_percent(hits), expected, "{percent} %");
        }
        assert_eq!(tenths_of_percent(infinite_hits(&trace, trace.requests.len())), 366);
    }
}
