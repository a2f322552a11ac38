use std::fmt;

use crate::{ClientId, Placement, SegmentAddress, Version};

/// A task that the master has a client carry out in the background: drawn at random.
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
    /// Makes further replicas.
    #[default]
    Copy = 0,
    /// Makes a further replica and then drops the one it was made from.
    Move = 1,
}

/// The life of a task. The numbers never change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum TaskStatus {
    /// No client has fetched it.
    #[default]
    Pending = 0,
    /// A client works on it.
    Processing = 1,
    /// It ended without its replicas.
    Failed = 2,
    /// Its replicas are there.
    Success = 3,
}

/// How far a task is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskReport {
    /// The task.
    pub id: TaskId,
    /// What it does.
    pub kind: TaskKind,
    /// How far it is.
    pub status: TaskStatus,
    /// Time since it was created, in milliseconds.
    pub created_ms_ago: u64,
    /// Time since its status last changed, in milliseconds.
    pub updated_ms_ago: u64,
    /// The client that carries it out.
    pub assigned: ClientId,
    /// Why it failed, or empty.
    pub message: String,
}

/// A task with all that its client needs to carry it out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskOrder {
    /// The task.
    pub id: TaskId,
    /// The object's key.
    pub key: String,
    /// The version to be copied.
    pub version: Version,
    /// Its length in bytes.
    pub len: u64,
    /// The grant that the writes to the targets are made under; see [`crate::RangeWrite::grant`].
    pub grant: Version,
    /// The replica to be read.
    pub source: Vec<Placement>,
    /// The replicas to be written.
    pub targets: Vec<Placement>,
    /// What goes with the writes to the targets; see [`crate::Grant::attributes`].
    pub attributes: Vec<u8>,
}

/// The answer to [`crate::Request::FetchTasks`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskOrders {
    /// The tasks.
    pub orders: Vec<TaskOrder>,
    /// The segments that their placements point into.
    pub segments: Vec<SegmentAddress>,
}
