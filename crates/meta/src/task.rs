//! Tasks: copies and moves of replicas that clients carry out in the background. This file keeps them; they are
//! created in `task_create`, handed out in `task_fetch` and ended in `task_end`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use mooncake_types::{ClientId, ErrorCode, TaskId, TaskKind, TaskReport, TaskStatus, Tick};

use crate::Meta;
use crate::slab::NONE;
use crate::timeout::Timer;

/// The low bits of a task's id are its number; those above it are drawn at random, and the upper half is the epoch.
const NUMBER_BITS: u32 = 40;

/// One task. While it is pending or processing, its object lives and knows it.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) id: TaskId,
    pub(crate) kind: TaskKind,
    pub(crate) status: TaskStatus,
    /// The object; [`NONE`] once the task has ended.
    pub(crate) object: u32,
    /// The name of the segment to move from; empty for a copy.
    pub(crate) source: Box<str>,
    /// Names of the segments to hold a replica.
    pub(crate) targets: Vec<Box<str>>,
    pub(crate) assigned: ClientId,
    pub(crate) created: Tick,
    pub(crate) updated: Tick,
    /// Times that there was no room for the targets.
    pub(crate) attempts: u32,
    /// Not before this moment is it tried again.
    pub(crate) retry_at: Tick,
    /// While it is processing: the record that holds the new replicas, and the replica to be dropped by a move.
    pub(crate) copy: u32,
    pub(crate) moved: Option<u8>,
    pub(crate) message: String,
}

/// All tasks, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    pub(crate) known: BTreeMap<u64, Task>,
    /// Not fetched, oldest first for each client.
    pub(crate) pending: BTreeSet<(ClientId, u64)>,
    /// Fetched, not ended.
    pub(crate) processing: BTreeSet<(ClientId, u64)>,
    /// Ended, oldest first.
    pub(crate) finished: VecDeque<u64>,
    /// The tasks of objects that have one.
    pub(crate) by_object: HashMap<u32, u64, FixedState>,
    /// Clients that died and may have left tasks.
    pub(crate) bereaved: BTreeSet<ClientId>,
    created: u64,
}

impl Tasks {
    /// The number that an id would have.
    pub(crate) fn number(id: TaskId) -> u64 {
        id.0 as u64 & ((1 << NUMBER_BITS) - 1)
    }

    pub(crate) fn get(&self, id: TaskId) -> Option<&Task> {
        self.known.get(&Self::number(id)).filter(|task| task.id == id)
    }

    /// The oldest pending task of a client with a number of at least `from`.
    pub(crate) fn next_pending(&self, client: ClientId, from: u64) -> Option<u64> {
        self.pending.range((client, from)..=(client, u64::MAX)).next().map(|&(_, number)| number)
    }
}

impl Meta {
    /// A new task's id: drawn at random, but never twice under an epoch.
    pub(crate) fn next_task_id(&mut self) -> TaskId {
        self.tasks.created += 1;
        let low =
            self.rng.next_u64() << NUMBER_BITS | Tasks::number(TaskId(self.tasks.created.into()));
        TaskId(u128::from(self.epoch.0) << 64 | u128::from(low))
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

    /// Refuses what must not be done to an object while a task reads it.
    pub(crate) fn ensure_no_task(&self, object: u32) -> Result<(), ErrorCode> {
        match self.tasks.by_object.contains_key(&object) {
            true => Err(ErrorCode::ObjectHasReplicationTask),
            false => Ok(()),
        }
    }

    /// The timer of a task that is pending or processing; none if it may take forever.
    pub(crate) fn task_timer(&self, task: &Task) -> Option<(Tick, u64)> {
        let (since, ms) = match task.status {
            TaskStatus::Pending => (task.created, self.config.pending_task_ms),
            TaskStatus::Processing => (task.updated, self.config.processing_task_ms),
            TaskStatus::Failed | TaskStatus::Success => return None,
        };
        (ms > 0).then(|| (since.after_ms(ms), Tasks::number(task.id)))
    }

    pub(crate) fn set_task_timer(&mut self, number: u64) {
        if let Some((due, number)) = self.task_timer(&self.tasks.known[&number]) {
            self.timers.insert((due, Timer::Task(number)));
        }
    }

    pub(crate) fn clear_task_timer(&mut self, number: u64) {
        if let Some((due, number)) = self.task_timer(&self.tasks.known[&number]) {
            self.timers.remove(&(due, Timer::Task(number)));
        }
    }

    /// Ends a task. Its copy must be gone already.
    pub(crate) fn finish_task(&mut self, number: u64, status: TaskStatus, message: String) {
        self.clear_task_timer(number);
        let tasks = &mut self.tasks;
        let task = tasks.known.get_mut(&number).expect("the task is known");
        assert_eq!(task.copy, NONE, "the new replicas of a finished task have gone their way");
        tasks.pending.remove(&(task.assigned, number));
        tasks.processing.remove(&(task.assigned, number));
        tasks.by_object.remove(&task.object);
        (task.object, task.status, task.updated, task.message) = (NONE, status, self.now, message);
        task.targets = Vec::new();
        match status {
            TaskStatus::Success => self.counters.tasks_succeeded += 1,
            _ => self.counters.tasks_failed += 1,
        }
        tasks.finished.push_back(number);
        while tasks.finished.len() > self.config.max_finished_tasks {
            let oldest = tasks.finished.pop_front().expect("there are some");
            tasks.known.remove(&oldest);
        }
    }
}
