//! Tasks: copies and moves of replicas that clients carry out in the background. This file holds their records.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use mooncake_types::{ClientId, ErrorCode, TaskId, TaskKind, TaskStatus, Tick};

use crate::slab::NONE;

/// The low bits of a task's id are its number. The bits above are random, and the upper half is the epoch.
pub(super) const NUMBER_BITS: u32 = 40;

/// How many ended tasks of the master itself are remembered, so that a client whose reply was lost may report again.
const MAX_OWN_FINISHED: usize = 1_024;

/// The part of the system that wants a task. [`finish_task`](crate::Meta::finish_task) tells it when the task has
/// ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A client or an operator; both may query the task. Only these tasks count against `max_pending_tasks`,
    /// `max_processing_tasks` and `max_finished_tasks`.
    Caller,
    /// A drain job, by its number.
    Drain(u32),
    /// The repair of an object that lost replicas.
    Repair,
    /// Replication: one more replica of an object that is read often.
    Replication,
    /// A replica on a disk, of an object that was put.
    Offload,
    /// A replica on a disk, of an object that eviction chose in memory.
    Sink,
    /// A replica in memory, of an object whose replicas all lie on disks.
    Promotion,
}

impl Origin {
    /// Number of kinds. All drains are of one kind.
    pub(super) const KINDS: usize = 7;

    /// A number below [`Origin::KINDS`].
    pub(super) fn kind(self) -> usize {
        match self {
            Origin::Caller => 0,
            Origin::Drain(_) => 1,
            Origin::Repair => 2,
            Origin::Replication => 3,
            Origin::Offload => 4,
            Origin::Sink => 5,
            Origin::Promotion => 6,
        }
    }

    /// Whether the new replicas lie on disks.
    pub(super) fn is_to_disk(self) -> bool {
        matches!(self, Origin::Offload | Origin::Sink)
    }
}

/// How a task has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The new replicas are complete, or none were needed.
    Success,
    /// Its object was removed, replaced or evicted, or is lost.
    ObjectGone,
    /// The task could not begin, or its client reported this error.
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

    /// The reason of a failure; empty on success.
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

/// One task. While it is pending or processing, its object exists and [`Tasks::by_object`] names the task.
#[derive(Debug)]
pub(crate) struct Task {
    pub(super) id: TaskId,
    pub(super) origin: Origin,
    pub(super) kind: TaskKind,
    pub(super) status: TaskStatus,
    /// Its object; [`NONE`] once the task has ended.
    pub(super) object: u32,
    /// The name of the segment to move from; empty for a copy.
    pub(super) source: Box<str>,
    /// Names of the segments that are to hold a replica.
    pub(super) targets: Vec<Box<str>>,
    pub(super) assigned: ClientId,
    pub(super) created: Tick,
    pub(super) updated: Tick,
    /// How often the task could not begin, for lack of room or of a segment in sight.
    pub(super) attempts: u32,
    /// The next attempt comes no earlier than this.
    pub(super) retry_at: Tick,
    /// While the task is processing: the record of the new replicas, and the replica that a move drops.
    pub(super) copy: u32,
    pub(super) moved: Option<u8>,
    pub(super) message: String,
}

/// The moment from which a pending task may be fetched, and its number.
pub(super) type Due = (Tick, u64);

/// All tasks, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    pub(super) known: BTreeMap<u64, Task>,
    /// Tasks that no client has fetched. For each client they are in the order in which they may be fetched, then by
    /// age.
    pub(super) pending: BTreeSet<(ClientId, Due)>,
    /// Tasks that a client has fetched and that have not ended.
    pub(super) processing: BTreeSet<(ClientId, u64)>,
    /// The numbers of both, by the kind of origin.
    pub(super) loads: [Load; Origin::KINDS],
    /// Ended tasks of callers, oldest first.
    pub(super) finished: VecDeque<u64>,
    /// Ended tasks of the master itself, oldest first.
    pub(super) own_finished: VecDeque<u64>,
    /// The task of each object that has one.
    pub(super) by_object: HashMap<u32, u64, FixedState>,
    /// Dead clients that may have tasks left.
    pub(super) dead_clients: BTreeSet<ClientId>,
    /// Clients that have got tasks to fetch: see
    /// [`take_clients_with_new_tasks`](crate::Meta::take_clients_with_new_tasks).
    pub(super) new_for: BTreeSet<ClientId>,
    pub(super) created: u64,
}

/// Number of tasks that are pending, and that are processing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    pub(super) pending: usize,
    pub(super) processing: usize,
}

impl Tasks {
    /// Whether tasks of dead clients wait to be ended.
    pub(crate) fn has_work(&self) -> bool {
        !self.dead_clients.is_empty()
    }

    /// Number of tasks that no client has fetched.
    pub(crate) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Number of tasks that clients work on.
    pub(crate) fn processing(&self) -> usize {
        self.processing.len()
    }

    /// Number of pending and processing tasks of this origin.
    pub(super) fn load(&self, origin: Origin) -> Load {
        self.loads[origin.kind()]
    }

    /// Number of tasks of this origin that have not ended.
    pub(crate) fn under_way(&self, origin: Origin) -> usize {
        let Load { pending, processing } = self.load(origin);
        pending + processing
    }

    /// Number of copies to disks that have not ended.
    pub(crate) fn to_disks(&self) -> usize {
        self.under_way(Origin::Offload) + self.under_way(Origin::Sink)
    }

    /// The records of replicas that clients are making.
    pub(crate) fn copies(&self) -> impl Iterator<Item = u32> {
        let copies = self.processing.iter().map(|(_, number)| self.known[number].copy);
        copies.filter(|&copy| copy != NONE)
    }

    /// Whether no client has fetched a task yet.
    pub(crate) fn is_pending(&self, number: u64) -> bool {
        self.known[&number].status == TaskStatus::Pending
    }

    /// Whether a task that has begun is a move.
    pub(crate) fn is_move(&self, number: u64) -> bool {
        self.known[&number].moved.is_some()
    }

    /// Notes a dead client, which may have tasks left.
    pub(crate) fn note_dead(&mut self, client: ClientId) {
        self.dead_clients.insert(client);
    }

    /// Adds a pending task.
    pub(crate) fn insert(&mut self, task: Task) {
        let number = Self::number(task.id);
        self.by_object.insert(task.object, number);
        self.pending.insert((task.assigned, (task.retry_at, number)));
        self.new_for.insert(task.assigned);
        self.loads[task.origin.kind()].pending += 1;
        self.known.insert(number, task);
    }

    /// Notes that a client may fetch a pending task again.
    pub(crate) fn note_retry(&mut self, number: u64) {
        let task = self.known.get(&number).filter(|task| task.status == TaskStatus::Pending);
        self.new_for.extend(task.map(|task| task.assigned));
    }

    /// A client has fetched a pending task: it is processing from now on.
    pub(crate) fn begin(&mut self, number: u64, now: Tick) -> &mut Task {
        let task = self.known.get_mut(&number).expect("the task is known");
        (task.status, task.updated) = (TaskStatus::Processing, now);
        self.pending.remove(&(task.assigned, (task.retry_at, number)));
        self.processing.insert((task.assigned, number));
        let load = &mut self.loads[task.origin.kind()];
        load.pending -= 1;
        load.processing += 1;
        task
    }

    /// Takes a task from the pending or processing ones.
    pub(super) fn end(&mut self, number: u64) -> &mut Task {
        let task = self.known.get_mut(&number).expect("the task is known");
        let was_pending = self.pending.remove(&(task.assigned, (task.retry_at, number)));
        let was_processing = self.processing.remove(&(task.assigned, number));
        let load = &mut self.loads[task.origin.kind()];
        load.pending -= usize::from(was_pending);
        load.processing -= usize::from(was_processing);
        self.by_object.remove(&task.object);
        task
    }

    /// Remembers an ended task, and forgets the oldest ones above the limit.
    pub(super) fn remember(&mut self, number: u64, origin: Origin, max_finished: usize) {
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

    /// The number in a task id, whether or not there is such a task.
    pub(crate) fn number(id: TaskId) -> u64 {
        id.0 as u64 & ((1 << NUMBER_BITS) - 1)
    }

    pub(crate) fn get(&self, id: TaskId) -> Option<&Task> {
        self.known.get(&Self::number(id)).filter(|task| task.id == id)
    }

    /// Lets no client fetch a pending task before this moment.
    pub(super) fn put_off(&mut self, number: u64, until: Tick) {
        let task = self.known.get_mut(&number).expect("the task is known");
        self.pending.remove(&(task.assigned, (task.retry_at, number)));
        task.retry_at = until;
        self.pending.insert((task.assigned, (until, number)));
    }

    /// The first pending task of a client after this one.
    pub(super) fn next_pending(&self, client: ClientId, after: Option<Due>) -> Option<Due> {
        let from = after.map_or((Tick::ZERO, 0), |(due, number)| (due, number + 1));
        let last = (Tick(u64::MAX), u64::MAX);
        self.pending.range((client, from)..=(client, last)).next().map(|&(_, due)| due)
    }

    /// Whether a client has pending tasks.
    pub(crate) fn has_pending(&self, client: ClientId) -> bool {
        self.next_pending(client, None).is_some()
    }
}

/// A task to submit, of an object that has none yet.
pub(crate) struct NewTask<'a> {
    pub(crate) origin: Origin,
    pub(crate) object: u32,
    pub(crate) kind: TaskKind,
    /// The name of the segment to move from; empty for a copy.
    pub(crate) source: &'a str,
    /// Names of the segments that are to hold a replica, none of which has one. Empty if the targets are chosen when
    /// the task begins.
    pub(crate) targets: &'a [&'a str],
    /// The client that hosts the source.
    pub(crate) assigned: ClientId,
}

impl<'a> NewTask<'a> {
    /// A copy to these segments. `assigned` hosts the source and makes the copy.
    pub(crate) fn copy(
        origin: Origin,
        object: u32,
        targets: &'a [&'a str],
        assigned: ClientId,
    ) -> Self {
        Self { origin, object, kind: TaskKind::Copy, source: "", targets, assigned }
    }
}
