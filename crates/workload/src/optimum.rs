//! The hits of a cache that knows all later requests. With blocks of one size, no policy hits more.

use std::collections::BTreeSet;

use crate::Trace;

const NEVER: u32 = u32::MAX;

/// Hits of a cache of `capacity` blocks that drops the block whose next use is furthest away. It never keeps a block
/// without a next use. Of several blocks that the same request uses next, it drops the last one.
#[must_use]
pub fn best_hits(trace: &Trace, capacity: usize) -> u64 {
    let next_uses = next_uses(trace);
    let mut kept: Vec<Option<(u32, u32)>> = vec![None; trace.hash_ids.len()];
    let mut order = BTreeSet::new();
    let mut hits = 0;
    for (blocks, next_uses) in trace.requests.iter().zip(next_uses) {
        let is_kept = |block: u32| kept[block as usize].is_some();
        hits += blocks.iter().take_while(|&&block| is_kept(block)).count() as u64;
        for ((place, &block), next_use) in (0..).zip(blocks).zip(next_uses) {
            if let Some((next_use, place)) = kept[block as usize].take() {
                order.remove(&(next_use, place, block));
            }
            if next_use != NEVER {
                kept[block as usize] = Some((next_use, place));
                order.insert((next_use, place, block));
            }
            if order.len() > capacity {
                let (_, _, victim) = order.pop_last().expect("more than none is kept");
                kept[victim as usize] = None;
            }
        }
    }
    hits
}

/// For each block of each request, the number of the next request that names the block.
fn next_uses(trace: &Trace) -> Vec<Box<[u32]>> {
    let mut later = vec![NEVER; trace.hash_ids.len()];
    let mut next_uses = Vec::with_capacity(trace.requests.len());
    for (number, blocks) in (0..).zip(&trace.requests).collect::<Vec<(u32, _)>>().into_iter().rev()
    {
        next_uses.push(blocks.iter().map(|&block| later[block as usize]).collect());
        for &block in blocks {
            later[block as usize] = number;
        }
    }
    next_uses.reverse();
    next_uses
}
