//! Copy and move tasks, which clients carry out in the background.
//!
//! Whoever wants replicas made (a caller, a drain, repair, replication) [submits](create) a task with its [`Origin`]. The client
//! of the source [fetches](fetch) it, copies, and says how that [ended](end); the origin is told. [`target`] chooses where the
//! master's own copies go. An offload, or a promotion, is a task with an origin of its own.
//!
//! Invariants (`check`): a task is pending, processing or ended, and listed so. An object has at most one task that has not
//! ended. New replicas differ from the old ones in number and segment. While a task runs they belong to a record of their own.

mod check;
mod create;
mod end;
mod fetch;
mod lookup;
mod target;
mod task;

pub(crate) use self::task::{Ending, NewTask, Origin, Tasks};
use self::task::{Load, Task};
