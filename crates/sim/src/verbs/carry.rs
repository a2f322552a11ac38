use mooncake_ops::{CarryOp, TaskOp};
use mooncake_types::{SegmentAddress, TaskOrder};

use crate::desk::RunRecord;
use crate::key::{KEYS, number_of};
use crate::task::{Task, leak};

/// Asks for a copy or a move of a random key to a random segment.
pub(super) fn create(names: &[&'static str], desk: &mut RunRecord) -> Task {
    let key = desk.any_key();
    let mut any = || names[desk.chance.below(names.len() as u64) as usize];
    let (source, target) = (any(), any());
    let op = match desk.chance.below(2) {
        0 => TaskOp::copy(KEYS[key], leak(vec![target])),
        _ => TaskOp::relocate(KEYS[key], source, target),
    };
    Task::new(op, vec![key], desk, |_, _| None)
}

/// Fetches and runs a task of the master. The carrier thread of a node runs this.
pub(crate) fn fetch(desk: &RunRecord) -> Task {
    Task::new(TaskOp::fetch(1, 0), vec![0], desk, |fetched, after| {
        let fetched = fetched.ok()?;
        let order = fetched.orders.into_iter().next()?;
        Some(carry(order, fetched.segments, after.desk))
    })
}

fn carry(order: TaskOrder, segments: Vec<SegmentAddress>, desk: &mut RunRecord) -> Task {
    let key = number_of(&order.key);
    let order: &'static TaskOrder = Box::leak(Box::new(order));
    // Short, so that most objects are copied in several windows.
    let op = CarryOp::new(order, segments, desk.most_len / 3 + 1);
    Task::new(op, vec![key], desk, |carried, after| {
        after.desk.tally.carried += u64::from(carried.is_ok());
        // The master may have more tasks.
        Some(fetch(after.desk))
    })
}
