use mooncake_ops::{RemoveOp, RemoveScanOp};
use mooncake_types::split_tenant;

use crate::key::{KEYS, some_keys};
use crate::run_state::RunState;
use crate::task::{Task, leak};

pub(crate) fn remove(keys: Vec<usize>, force: bool, run_state: &RunState) -> Task {
    let names = leak(keys.iter().map(|&key| KEYS[key]).collect());
    Task::new(RemoveOp::new(names, force), keys, run_state, |removed, after| {
        let of_key = |key| after.keys.iter().zip(&removed).filter(move |(of, _)| **of == key);
        // If a key is named twice, one of its results is a success and the other a miss.
        let is_done = |key| of_key(key).any(|(_, result)| result.is_ok());
        after.run_state.acknowledge_removals(after.client, is_done);
        None
    })
}

/// A pattern, and what it matches.
type Pattern = (&'static str, fn(&str) -> bool);

/// The patterns of removals.
const PATTERNS: [Pattern; 3] = [
    ("^[ab]", |key| key.starts_with(['a', 'b'])),
    ("1", |key| key.contains('1')),
    ("7$", |key| key.ends_with('7')),
];

/// Whether one of these patterns matches a key.
pub(crate) fn is_matched(pattern: &str, key: &str) -> bool {
    let known = PATTERNS.iter().find(|(text, _)| *text == pattern);
    known.expect("a pattern of a removal").1(split_tenant(key).1)
}

/// Removes the keys that a pattern matches, or seldom all of them.
pub(super) fn some(run_state: &mut RunState) -> Task {
    let of_all = run_state.chance.below(8) == 0;
    let pattern = PATTERNS[run_state.chance.place(PATTERNS.len())].0;
    let force = run_state.chance.below(2) == 0;
    let op = RemoveScanOp::new(Some(pattern).filter(|_| !of_all), force);
    Task::new(op, vec![0], run_state, |removed, after| {
        after.run_state.acknowledge_removals(after.client, |_| removed.is_ok());
        None
    })
}

/// Drops the replicas of some objects: all of them, or those in one segment.
pub(super) fn clear(segments: &[&'static str], run_state: &mut RunState) -> Task {
    let keys = some_keys(&mut run_state.chance, run_state.keys);
    let names = leak(keys.iter().map(|&key| KEYS[key]).collect());
    let segment = match run_state.chance.below(2) {
        0 => "",
        _ => segments[run_state.chance.below(segments.len() as u64) as usize],
    };
    Task::new(RemoveOp::replicas(names, segment), keys, run_state, |cleared, after| {
        let of_key = |key| after.keys.iter().zip(&cleared).filter(move |(of, _)| **of == key);
        let is_done = |key| of_key(key).any(|(_, result)| result.is_ok());
        after.run_state.acknowledge_removals(after.client, is_done);
        None
    })
}
