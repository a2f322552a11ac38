use mooncake_ops::PrefixLenOp;

use crate::key::{KEYS, some_keys};
use crate::run_state::RunState;
use crate::task::{Task, leak};

/// Asks how many of some keys have objects, counted from the first until one has none.
pub(super) fn count(run_state: &mut RunState) -> Task {
    let keys = some_keys(&mut run_state.chance, run_state.keys);
    let names = leak(keys.iter().map(|&key| KEYS[key]).collect());
    Task::new(PrefixLenOp::new(names, 0), keys, run_state, |counted, after| {
        let (began, run_state) = (after.began, after.run_state);
        let count = match counted {
            Ok(count) => count as usize,
            Err(code) => {
                run_state.count_failed_get(code);
                if run_state.judges_failures {
                    run_state
                        .blame("nothing fails", format!("a prefix of {:?}: {code:?}", after.keys));
                }
                return None;
            }
        };
        run_state.meet("keys of a prefix", count as u64);
        for &key in &after.keys[..count] {
            let verdict = run_state.history.check_presence(key, began, run_state.has_recovered);
            run_state.judge("what counts is there", verdict);
        }
        if let Some(&key) = after.keys.get(count).filter(|_| run_state.judges_misses) {
            let verdict = run_state.history.check_miss(key, began);
            run_state.judge("what is there is found", verdict);
        }
        None
    })
}
