//! Look-ups of tasks by client and by object.

use std::collections::BTreeSet;

use mooncake_types::{ClientId, ErrorCode, TaskId, TaskReport};

use super::task::{Ending, NUMBER_BITS, Origin, Tasks};
use crate::Meta;

impl Meta {
    /// Takes the clients that have got tasks to fetch since the last call.
    pub fn take_clients_with_new_tasks(&mut self) -> BTreeSet<ClientId> {
        std::mem::take(&mut self.tasks.new_for)
    }

    /// Draws the id of a new task.
    pub(super) fn next_task_id(&mut self) -> TaskId {
        self.tasks.created += 1;
        let number = Tasks::number(TaskId(self.tasks.created.into()));
        TaskId(self.draw_id(number, NUMBER_BITS))
    }

    pub(crate) fn query_task(&self, id: TaskId) -> Option<TaskReport> {
        let task = self.tasks.get(id)?;
        Some(TaskReport {
            id,
            kind: task.kind,
            status: task.status,
            created_ms_ago: self.now.since_ms(task.created),
            updated_ms_ago: self.now.since_ms(task.updated),
            assigned: task.assigned,
            message: task.message.clone(),
        })
    }

    /// The number and origin of an object's task.
    fn task_of(&self, object: u32) -> Option<(u64, Origin)> {
        let number = *self.tasks.by_object.get(&object)?;
        Some((number, self.tasks.known[&number].origin))
    }

    /// Refuses a change of an object that has a task of a caller. Tasks of the master itself are no reason to refuse.
    pub(crate) fn ensure_no_callers_task(&self, object: u32) -> Result<(), ErrorCode> {
        match self.task_of(object) {
            Some((_, Origin::Caller)) => Err(ErrorCode::ObjectHasReplicationTask),
            _ => Ok(()),
        }
    }

    /// The origin of an object's task, if it has one.
    pub(crate) fn task_origin(&self, object: u32) -> Option<Origin> {
        self.task_of(object).map(|(_, origin)| origin)
    }

    /// Whether an object has a task of any origin.
    pub(crate) fn has_task(&self, object: u32) -> bool {
        self.tasks.by_object.contains_key(&object)
    }

    /// As [`Meta::ensure_no_callers_task`], but also ends a task of the master itself. Refuses if nodes may have
    /// dropped the source of that task.
    pub(crate) fn give_way(&mut self, object: u32) -> Result<(), ErrorCode> {
        self.ensure_no_callers_task(object)?;
        if let Some((number, _)) = self.task_of(object) {
            if self.may_lack_source(number) {
                return Err(ErrorCode::ObjectHasReplicationTask);
            }
            self.fail_task(number, Ending::Refused(ErrorCode::ObjectHasReplicationTask));
        }
        Ok(())
    }
}
