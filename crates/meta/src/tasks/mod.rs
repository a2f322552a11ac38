//! Copy and move tasks, which clients carry out in the background.
//!
//! A caller, a drain, repair, replication or a tier [submits](create) a task with its [`Origin`]. The client that
//! hosts the source [fetches](fetch) the task, copies the bytes, and reports the [end](end). The origin is then told.
//! [`target`] chooses the segment for copies of repair and replication.
//!
//! Invariants (`check`): a task is pending, processing or ended, and listed accordingly. An object has at most one
//! task that has not ended. New replicas differ from the old ones in number and segment. While a task runs they belong
//! to a record of their own.

mod check;
mod create;
mod end;
mod fetch;
mod lookup;
mod target;
mod task;

pub(crate) use self::task::{Ending, NewTask, Origin, Tasks};
use self::task::{Load, Task};
