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

/// Ended tasks of the master's own that are remembered, so that a client whose answer was lost may report twice.
const MAX_OWN_FINISHED: usize = 1_024;

/// Who wants a task: told when it has ended, by [`Meta::finish_task`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A client or an operator, who may ask how far it is. Only these count against the limits of the configuration.
    Caller,
    /// The drain of segments, by the number of its job.
    Drain(u32),
    /// The repair of an object that lost replicas.
    Repair,
    /// One more replica of an object that is read often.
    Replication,
    /// A replica on a disk, of what was put.
    Offload,
    /// A replica on a disk, of what eviction chose to go from memory.
    Sink,
    /// A replica in memory of an object that lies on disks alone.
    Promotion,
}

impl Origin {
    /// Whether its replicas lie on disks.
    pub(super) fn is_to_disk(self) -> bool {
        matches!(self, Origin::Offload | Origin::Sink)
    }
}

/// How a task has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Its replicas are there, or none were needed.
    Success,
    /// Its object was removed, replaced or evicted, or is lost.
    ObjectGone,
    /// It could not be begun, or its client reported this.
    Refused(ErrorCode),
    /// No client fetched it in time.
    NeverFetched,
    /// Its client did not report in time.
    NeverReported,
    /// Its client is dead.
    ClientGone,
}

impl Ending {
    pub(crate) fn status(self) -> TaskStatus {
        match self {
            Ending::Success => TaskStatus::Success,
            _ => TaskStatus::Failed,
        }
    }

    /// Why it failed, or empty.
    pub(crate) fn message(self) -> String {
        match self {
            Ending::Success => String::new(),
            Ending::ObjectGone => ErrorCode::ReplicaIsGone.to_string(),
            Ending::Refused(code) => code.to_string(),
            Ending::NeverFetched => "pending timeout".to_owned(),
            Ending::NeverReported => "processing timeout".to_owned(),
            Ending::ClientGone => "its client is gone".to_owned(),
        }
    }
}

/// One task. While it is pending or processing, its object lives and knows it.
#[derive(Debug)]
pub(crate) struct Task {
    pub(super) id: TaskId,
    pub(super) origin: Origin,
    pub(super) kind: TaskKind,
    pub(super) status: TaskStatus,
    /// The object; [`NONE`] once the task has ended.
    pub(super) object: u32,
    /// The name of the segment to move from; empty for a copy.
    pub(super) source: Box<str>,
    /// Names of the segments to hold a replica.
    pub(super) targets: Vec<Box<str>>,
    pub(super) assigned: ClientId,
    pub(super) created: Tick,
    pub(super) updated: Tick,
    /// Times that there was no room for the targets.
    pub(super) attempts: u32,
    /// Not before this moment is it tried again.
    pub(super) retry_at: Tick,
    /// While it is processing: the record that holds the new replicas, and the replica to be dropped by a move.
    pub(super) copy: u32,
    pub(super) moved: Option<u8>,
    pub(super) message: String,
}

/// When a pending task may be handed out, and its number.
pub(super) type Due = (Tick, u64);

/// All tasks, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    pub(super) known: BTreeMap<u64, Task>,
    /// Not fetched: for each client by the moment from which on they may be handed out, and then by age.
    pub(super) pending: BTreeSet<(ClientId, Due)>,
    /// Fetched, not ended.
    pub(super) processing: BTreeSet<(ClientId, u64)>,
    /// Of these, callers'.
    pub(super) of_callers: Load,
    /// Callers' that have ended, oldest first.
    pub(super) finished: VecDeque<u64>,
    /// The master's own that have ended, oldest first.
    pub(super) own_finished: VecDeque<u64>,
    /// The tasks of objects that have one.
    pub(super) by_object: HashMap<u32, u64, FixedState>,
    /// Clients that died and may have left tasks.
    pub(super) bereaved: BTreeSet<ClientId>,
    /// Clients for which tasks became pending: see [`Meta::take_clients_with_new_tasks`].
    new_for: BTreeSet<ClientId>,
    created: u64,
}

/// How many tasks wait, and how many are worked on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    pub(super) pending: usize,
    pub(super) processing: usize,
}

impl Tasks {
    /// Whether there is something to do at once.
    pub(crate) fn has_work(&self) -> bool {
        !self.bereaved.is_empty()
    }

    /// Tasks that no client has fetched.
    pub(crate) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Tasks that clients work on.
    pub(crate) fn processing(&self) -> usize {
        self.processing.len()
    }

    /// Tasks of an origin that have not ended.
    pub(crate) fn of(&self, origin: Origin) -> usize {
        let pending = self.pending.iter().map(|(_, (_, number))| number);
        let under_way = pending.chain(self.processing.iter().map(|(_, number)| number));
        under_way.filter(|number| self.known[number].origin == origin).count()
    }

    /// The records of the replicas that are being made.
    pub(crate) fn copies(&self) -> impl Iterator<Item = u32> {
        let copies = self.processing.iter().map(|(_, number)| self.known[number].copy);
        copies.filter(|&copy| copy != NONE)
    }

    /// Whether a task waits for its client.
    pub(crate) fn is_pending(&self, number: u64) -> bool {
        self.known[&number].status == TaskStatus::Pending
    }

    /// Whether a task that was begun is a move.
    pub(crate) fn is_move(&self, number: u64) -> bool {
        self.known[&number].moved.is_some()
    }

    /// A client died and may have left tasks.
    pub(crate) fn bereave(&mut self, client: ClientId) {
        self.bereaved.insert(client);
    }

    /// A task is pending from now on.
    pub(crate) fn insert(&mut self, task: Task) {
        let number = Self::number(task.id);
        self.by_object.insert(task.object, number);
        self.pending.insert((task.assigned, (task.retry_at, number)));
        self.new_for.insert(task.assigned);
        if task.origin == Origin::Caller {
            self.of_callers.pending += 1;
        }
        self.known.insert(number, task);
    }

    /// A pending task may be fetched again.
    pub(crate) fn note_retry(&mut self, number: u64) {
        let task = self.known.get(&number).filter(|task| task.status == TaskStatus::Pending);
        self.new_for.extend(task.map(|task| task.assigned));
    }

    /// A pending task is processing from now on.
    pub(crate) fn begin(&mut self, number: u64, now: Tick) -> &mut Task {
        let task = self.known.get_mut(&number).expect("the task is known");
        (task.status, task.updated) = (TaskStatus::Processing, now);
        self.pending.remove(&(task.assigned, (task.retry_at, number)));
        self.processing.insert((task.assigned, number));
        if task.origin == Origin::Caller {
            self.of_callers.pending -= 1;
            self.of_callers.processing += 1;
        }
        task
    }

    /// A task is under way no longer.
    fn end(&mut self, number: u64) -> &mut Task {
        let task = self.known.get_mut(&number).expect("the task is known");
        let was_pending = self.pending.remove(&(task.assigned, (task.retry_at, number)));
        let was_processing = self.processing.remove(&(task.assigned, number));
        if task.origin == Origin::Caller {
            self.of_callers.pending -= usize::from(was_pending);
            self.of_callers.processing -= usize::from(was_processing);
        }
        self.by_object.remove(&task.object);
        task
    }

    /// Remembers a task that has ended, and forgets the oldest.
    fn remember(&mut self, number: u64, origin: Origin, max_finished: usize) {
        let (finished, most) = match origin {
            Origin::Caller => (&mut self.finished, max_finished),
            _ => (&mut self.own_finished, MAX_OWN_FINISHED),
        };
        finished.push_back(number);
        while finished.len() > most {
            let oldest = finished.pop_front().expect("there are some");
            self.known.remove(&oldest);
        }
    }

    /// The number that an id would have.
    pub(crate) fn number(id: TaskId) -> u64 {
        id.0 as u64 & ((1 << NUMBER_BITS) - 1)
    }

    pub(crate) fn get(&self, id: TaskId) -> Option<&Task> {
        self.known.get(&Self::number(id)).filter(|task| task.id == id)
    }

    /// A pending task is not handed out before this moment.
    pub(super) fn put_off(&mut self, number: u64, until: Tick) {
        let task = self.known.get_mut(&number).expect("the task is known");
        self.pending.remove(&(task.assigned, (task.retry_at, number)));
        task.retry_at = until;
        self.pending.insert((task.assigned, (until, number)));
    }

    /// The first pending task of a client that comes after this one.
    pub(super) fn next_pending(&self, client: ClientId, after: Option<Due>) -> Option<Due> {
        let from = after.map_or((Tick::ZERO, 0), |(due, number)| (due, number + 1));
        let last = (Tick(u64::MAX), u64::MAX);
        self.pending.range((client, from)..=(client, last)).next().map(|&(_, due)| due)
    }

    /// Whether tasks wait for a client.
    pub(crate) fn has_pending(&self, client: ClientId) -> bool {
        self.next_pending(client, None).is_some()
    }
}

impl Meta {
    /// Whether [`Meta::take_clients_with_new_tasks`] has any.
    #[must_use]
    pub fn has_clients_with_new_tasks(&self) -> bool {
        !self.tasks.new_for.is_empty()
    }

    /// The clients for which tasks became pending since this was last asked.
    pub fn take_clients_with_new_tasks(&mut self) -> BTreeSet<ClientId> {
        std::mem::take(&mut self.tasks.new_for)
    }

    /// A new task's id: drawn at random, but never twice under an epoch.
    pub(super) fn next_task_id(&mut self) -> TaskId {
        self.tasks.created += 1;
        let low =
            self.rng.next_u64() << NUMBER_BITS | Tasks::number(TaskId(self.tasks.created.into()));
        TaskId(u128::from(self.term.epoch().0) << 64 | u128::from(low))
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

    /// Refuses what must not be done to an object while a caller's task reads it. What makes a task of the master's own
    /// pointless is not refused for its sake.
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

    /// As [`Meta::ensure_no_callers_task`], and a task of the master's own ends.
    pub(crate) fn give_way(&mut self, object: u32) -> Result<(), ErrorCode> {
        match self.task_of(object) {
            None => Ok(()),
            Some((_, Origin::Caller)) => Err(ErrorCode::ObjectHasReplicationTask),
            Some((number, _)) => {
                self.fail_task(number, Ending::Refused(ErrorCode::ObjectHasReplicationTask));
                Ok(())
            }
        }
    }

    /// The timer of a task that is pending or processing; none if it may take forever.
    pub(super) fn task_timer(&self, task: &Task) -> Option<(Tick, u64)> {
        let (since, ms) = match task.status {
            TaskStatus::Pending => (task.created, self.config.pending_task_ms),
            TaskStatus::Processing => (task.updated, self.config.processing_task_ms),
            TaskStatus::Failed | TaskStatus::Success => return None,
        };
        (ms > 0).then(|| (since.after_ms(ms), Tasks::number(task.id)))
    }

    pub(super) fn set_task_timer(&mut self, number: u64) {
        if let Some((due, number)) = self.task_timer(&self.tasks.known[&number]) {
            self.timers.insert((due, Timer::Task(number)));
        }
    }

    pub(super) fn clear_task_timer(&mut self, number: u64) {
        if let Some((due, number)) = self.task_timer(&self.tasks.known[&number]) {
            self.timers.remove(&(due, Timer::Task(number)));
        }
    }

    /// Ends a task, and tells who wanted it. Its copy must be gone already. Its object may be about to go.
    pub(crate) fn finish_task(&mut self, number: u64, ending: Ending) {
        self.clear_task_timer(number);
        let task = self.tasks.end(number);
        assert_eq!(task.copy, NONE, "the new replicas of a finished task have gone their way");
        let (origin, object) = (task.origin, std::mem::replace(&mut task.object, NONE));
        (task.status, task.updated, task.message) = (ending.status(), self.now, ending.message());
        task.targets = Vec::new();
        match ending {
            Ending::Success => self.counters.tasks_succeeded += 1,
            _ => self.counters.tasks_failed += 1,
        }
        self.tasks.remember(number, origin, self.config.max_finished_tasks);
        self.tell_origin(origin, number, object, ending);
    }

    /// What the end of a task means to who wanted it. The object may be about to go: it is looked at again later, never
    /// changed here.
    fn tell_origin(&mut self, origin: Origin, number: u64, object: u32, ending: Ending) {
        let made = || (ending == Ending::Success).then(|| self.objects[object].len);
        match origin {
            Origin::Caller => {}
            Origin::Drain(job) => self.drain_task_ended(job, (number, object), ending),
            Origin::Repair => self.end_repair(made()),
            Origin::Replication => self.end_replication(made()),
            Origin::Offload | Origin::Sink => self.end_offload(origin, object, ending),
            Origin::Promotion => self.end_promotion(made()),
        }
    }
}
