//! Copy and move tasks, which clients carry out in the background.
//!
//! A task is pending, processing or ended. An object has at most one task that has not ended. Whoever wants copies made
//! (a caller, a drain, repair, replication) submits a task with its [`Origin`], and is told how it ended.

mod create;
mod end;
mod fetch;
mod target;
mod task;

pub(crate) use self::create::NewTask;
pub(crate) use self::task::{Ending, Load, Origin, Task, Tasks};
