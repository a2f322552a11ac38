use mooncake_ops::{RemoveOp, TaskOp};
use mooncake_types::{ErrorCode, TaskId, TaskReport};

use super::Store;
use super::closed::CLOSED;
use super::memory::NoMemory;

impl Store {
    /// Drops replicas of objects that this store put: those in segments named `segment`, or all of them if it is
    /// empty. An object without replicas is gone.
    ///
    /// Besides the codes of all calls:
    ///
    /// - [`ErrorCode::ObjectNotFound`], [`ErrorCode::ReplicaIsNotReady`], [`ErrorCode::ObjectHasReplicationTask`];
    /// - [`ErrorCode::IllegalClient`] for an object that another client put;
    /// - [`ErrorCode::ObjectHasLease`], also for an object that was put less than a lease ago;
    /// - [`ErrorCode::ReplicaNotFound`] if no replica lies in a segment of that name.
    pub fn clear_replicas(&self, keys: &[&str], segment: &str) -> Vec<Result<(), ErrorCode>> {
        let Some(session) = self.session() else { return vec![Err(CLOSED); keys.len()] };
        let _call = session.begin("clear_replicas", keys.len());
        let stored = self.stored(keys.iter().copied());
        let keys = &*stored.all(keys);
        session.driver().drive(RemoveOp::replicas(keys, segment), NoMemory)
    }

    /// Has an object copied to the segments of these names, in the background.
    ///
    /// # Errors
    /// Besides the codes of all calls: [`ErrorCode::ObjectNotFound`], [`ErrorCode::ReplicaIsNotReady`],
    /// [`ErrorCode::ObjectHasReplicationTask`], [`ErrorCode::TaskPendingLimitExceeded`], and
    /// [`ErrorCode::InvalidParams`] for no target, more than 32, or a name that no segment has.
    pub fn create_copy_task(&self, key: &str, targets: &[&str]) -> Result<TaskId, ErrorCode> {
        let session = self.session().ok_or(CLOSED)?;
        let _call = session.begin("create_copy_task", 1);
        let key = &*self.tenant.key(key);
        session.driver().drive(TaskOp::copy(key, targets), NoMemory)
    }

    /// Has the replica of an object in the segment named `source` moved to the one named `target`, in the background.
    ///
    /// # Errors
    /// As [`Store::create_copy_task`], [`ErrorCode::ReplicaNotFound`] if the source holds no replica, and
    /// [`ErrorCode::ReplicaAlreadyExists`] if the target does.
    pub fn create_move_task(
        &self,
        key: &str,
        source: &str,
        target: &str,
    ) -> Result<TaskId, ErrorCode> {
        let session = self.session().ok_or(CLOSED)?;
        let _call = session.begin("create_move_task", 1);
        let key = &*self.tenant.key(key);
        session.driver().drive(TaskOp::relocate(key, source, target), NoMemory)
    }

    /// The progress of a task.
    ///
    /// # Errors
    /// [`ErrorCode::TaskNotFound`], or the codes of all calls.
    pub fn query_task(&self, id: TaskId) -> Result<TaskReport, ErrorCode> {
        let session = self.session().ok_or(CLOSED)?;
        let _call = session.begin("query_task", 1);
        session.driver().drive(TaskOp::query(id), NoMemory)
    }
}
