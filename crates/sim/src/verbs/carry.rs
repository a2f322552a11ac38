use mooncake_ops::{CarryOp, TaskOp};
use mooncake_types::{SegmentAddress, TaskOrder};

use crate::key::{KEYS, number_of};
use crate::run_state::RunState;
use crate::task::{Task, leak};

/// Asks for a copy or a move of a random key to a random segment.
pub(super) fn create(names: &[&'static str], run_state: &mut RunState) -> Task {
    let key = run_state.any_key();
    let mut any = || names[run_state.chance.below(names.len() as u64) as usize];
    let (source, target) = (any(), any());
    let op = match run_state.chance.below(2) {
        0 => TaskOp::copy(KEYS[key], leak(vec![target])),
        _ => TaskOp::relocate(KEYS[key], source, target),
    };
    Task::new(op, vec![key], run_state, |_, _| None)
}

/// Fetches and runs a task of the master. The carrier thread of a node runs this.
pub(crate) fn fetch(run_state: &RunState) -> Task {
    Task::new(TaskOp::fetch(1, 0), vec![0], run_state, |fetched, after| {
        let fetched = fetched.ok()?;
        let order = fetched.orders.into_iter().next()?;
        Some(carry(order, fetched.segments, after.run_state))
    })
}

fn carry(order: TaskOrder, segments: Vec<SegmentAddress>, run_state: &mut RunState) -> Task {
    let key = number_of(&order.key);
    let order: &'static TaskOrder = Box::leak(Box::new(order));
    // Short, so that most objects are copied in several windows.
    let op = CarryOp::new(order, segments, run_state.most_len / 3 + 1);
    Task::new(op, vec![key], run_state, |carried, after| {
        after.run_state.tally.carried += u64::from(carried.is_ok());
        // The master may have more tasks.
        Some(fetch(after.run_state))
    })
}
