use mooncake_ops::PrefixLenOp;

use crate::desk::RunRecord;
use crate::key::{KEYS, some_keys};
use crate::task::{Task, leak};

/// Asks how many of some keys have objects, counted from the first until one has none.
pub(super) fn count(desk: &mut RunRecord) -> Task {
    let keys = some_keys(&mut desk.chance, desk.keys);
    let names = leak(keys.iter().map(|&key| KEYS[key]).collect());
    Task::new(PrefixLenOp::new(names), keys, desk, |counted, after| {
        let (began, desk) = (after.began, after.desk);
        let count = match counted {
            Ok(count) => count as usize,
            Err(code) => {
                desk.count_failed_get(code);
                if desk.judges_failures {
                    desk.blame("nothing fails", format!("a prefix of {:?}: {code:?}", after.keys));
                }
                return None;
            }
        };
        desk.meet("keys of a prefix", count as u64);
        for &key in &after.keys[..count] {
            let verdict = desk.history.check_presence(key, began, desk.has_recovered);
            desk.judge("what counts is there", verdict);
        }
        if let Some(&key) = after.keys.get(count).filter(|_| desk.judges_misses) {
            let verdict = desk.history.check_miss(key, began);
            desk.judge("what is there is found", verdict);
        }
        None
    })
}
