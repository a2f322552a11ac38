use mooncake_ops::{CarryOp, ClearOp, TaskOp};
use mooncake_types::{SegmentAddress, TaskOrder};

use crate::key::{KEYS, any_key};
use crate::pool::Pool;
use crate::task::{Task, leak};

/// Small, so that most objects go in several windows.
const WINDOW_BYTES: u64 = 120;

/// Has a random replica copied or moved to a random node.
pub(crate) fn create(pool: &mut Pool) -> Task {
    let key = any_key(pool);
    let (source, target) = (any_name(pool), any_name(pool));
    let op = match pool.chance.below(2) {
        0 => TaskOp::copy(KEYS[key], &[target]),
        _ => TaskOp::relocate(KEYS[key], source, target),
    };
    Task::new(op, vec![key], pool, |_, _| None)
}

fn any_name(pool: &mut Pool) -> &'static str {
    let node = pool.chance.below(pool.nodes.len() as u64) as usize;
    Box::leak(pool.nodes[node].name().into_boxed_str())
}

/// What the thread for tasks of a node does.
pub(crate) fn carry_out(pool: &mut Pool) -> Task {
    Task::new(TaskOp::fetch(), vec![0], pool, |fetched, after| {
        let fetched = fetched.ok()?;
        let order = fetched.orders.into_iter().next()?;
        Some(carry(order, fetched.segments, after.pool))
    })
}

fn carry(order: TaskOrder, segments: Vec<SegmentAddress>, pool: &mut Pool) -> Task {
    let key = KEYS.iter().position(|key| *key == order.key).expect("a key that was put");
    let order: &'static TaskOrder = Box::leak(Box::new(order));
    let op = CarryOp::new(order, segments, WINDOW_BYTES);
    Task::new(op, vec![key], pool, |carried, after| {
        after.pool.tally.carried += u64::from(carried.is_ok());
        None
    })
}

/// Drops the replicas of an object, or those in one segment.
pub(crate) fn clear(pool: &mut Pool) -> Task {
    let key = any_key(pool);
    let segment = if pool.chance.below(2) == 0 { "" } else { any_name(pool) };
    let op = ClearOp::new(leak(vec![KEYS[key]]), segment);
    Task::new(op, vec![key], pool, |cleared, after| {
        after.pool.acknowledge_removals(after.client, |_| cleared[0].is_ok());
        None
    })
}
