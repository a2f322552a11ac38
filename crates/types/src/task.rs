use std::fmt;

use crate::{ClientId, Placement, SegmentAddress, Version};

/// The id of a task that a client carries out in the background for the master, drawn at random.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u128);

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// What a task does with a replica. The numbers never change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum TaskKind {
    /// Makes further replicas of the object.
    #[default]
    Copy = 0,
    /// Makes one further replica, then drops its source.
    Move = 1,
}

/// The states of a task. The numbers never change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum TaskStatus {
    /// No client has fetched it.
    #[default]
    Pending = 0,
    /// A client works on it.
    Processing = 1,
    /// It ended, and its replicas were not made.
    Failed = 2,
    /// Its replicas are complete.
    Success = 3,
}

/// The progress of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskReport {
    /// The task.
    pub id: TaskId,
    /// Copy or move.
    pub kind: TaskKind,
    /// Its status.
    pub status: TaskStatus,
    /// Time since it was created, in milliseconds.
    pub created_ms_ago: u64,
    /// Time since its status last changed, in milliseconds.
    pub updated_ms_ago: u64,
    /// The client that carries out the task. Others are [told](ClientId::told) the first digits of its id alone.
    pub assigned: ClientId,
    /// Why the task failed, or empty.
    pub message: String,
}

/// A task, with all that its client needs to carry it out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskOrder {
    /// The task.
    pub id: TaskId,
    /// The object's key.
    pub key: String,
    /// The version to copy.
    pub version: Version,
    /// Its length in bytes.
    pub len: u64,
    /// The grant under which the client writes to the targets; see [`crate::RangeWrite::grant`].
    pub grant: Version,
    /// The replica to read.
    pub source: Vec<Placement>,
    /// The replicas to write.
    pub targets: Vec<Placement>,
    /// The attributes that the client sends with the writes to the targets; see [`crate::Grant::attributes`].
    pub attributes: Vec<u8>,
}

/// The answer to [`crate::Request::FetchTasks`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskOrders {
    /// The tasks.
    pub orders: Vec<TaskOrder>,
    /// The segments to which their placements refer.
    pub segments: Vec<SegmentAddress>,
}
