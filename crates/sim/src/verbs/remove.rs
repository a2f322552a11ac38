use mooncake_ops::{RemoveOp, RemoveScanOp};

use crate::desk::RunRecord;
use crate::key::{KEYS, some_keys};
use crate::task::{Task, leak};

pub(crate) fn remove(keys: Vec<usize>, force: bool, desk: &RunRecord) -> Task {
    let names = leak(keys.iter().map(|&key| KEYS[key]).collect());
    Task::new(RemoveOp::new(names, force), keys, desk, |removed, after| {
        let of_key = |key| after.keys.iter().zip(&removed).filter(move |(of, _)| **of == key);
        // If a key is named twice, one of its results is a success and the other a miss.
        let is_done = |key| of_key(key).any(|(_, result)| result.is_ok());
        after.desk.acknowledge_removals(after.client, is_done);
        None
    })
}

/// Removes the keys that a pattern matches.
pub(super) fn some(desk: &mut RunRecord) -> Task {
    let op = RemoveScanOp::new(Some("^[ab]"), desk.chance.below(2) == 0);
    Task::new(op, vec![0], desk, |removed, after| {
        after.desk.acknowledge_removals(after.client, |_| removed.is_ok());
        None
    })
}

/// Drops the replicas of some objects: all of them, or those in one segment.
pub(super) fn clear(segments: &[&'static str], desk: &mut RunRecord) -> Task {
    let keys = some_keys(&mut desk.chance, desk.keys);
    let names = leak(keys.iter().map(|&key| KEYS[key]).collect());
    let segment = match desk.chance.below(2) {
        0 => "",
        _ => segments[desk.chance.below(segments.len() as u64) as usize],
    };
    Task::new(RemoveOp::replicas(names, segment), keys, desk, |cleared, after| {
        let of_key = |key| after.keys.iter().zip(&cleared).filter(move |(of, _)| **of == key);
        let is_done = |key| of_key(key).any(|(_, result)| result.is_ok());
        after.desk.acknowledge_removals(after.client, is_done);
        None
    })
}
