//! Tasks: copies and moves of replicas that clients carry out in the background. This file keeps them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use mooncake_types::{ClientId, ErrorCode, TaskId, TaskKind, TaskStatus, Tick};

use crate::slab::NONE;

/// The low bits of a task's id are its number; those above it are drawn at random, and the upper half is the epoch.
pub(super) const NUMBER_BITS: u32 = 40;

/// Ended tasks of the master's own that are remembered, so that a client whose answer was lost may report twice.
const MAX_OWN_FINISHED: usize = 1_024;

/// Who wants a task: told when it has ended, by [`finish_task`](crate::Meta::finish_task).
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
    /// Kinds that there are; all drains are of one.
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
    /// How many there are of both, by the kind of their origins.
    pub(super) loads: [Load; Origin::KINDS],
    /// Callers' that have ended, oldest first.
    pub(super) finished: VecDeque<u64>,
    /// The master's own that have ended, oldest first.
    pub(super) own_finished: VecDeque<u64>,
    /// The tasks of objects that have one.
    pub(super) by_object: HashMap<u32, u64, FixedState>,
    /// Clients that died and may have left tasks.
    pub(super) dead_clients: BTreeSet<ClientId>,
    /// Clients for which tasks became pending: see [`take_clients_with_new_tasks`](crate::Meta::take_clients_with_new_tasks).
    pub(super) new_for: BTreeSet<ClientId>,
    pub(super) created: u64,
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
        !self.dead_clients.is_empty()
    }

    /// Tasks that no client has fetched.
    pub(crate) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Tasks that clients work on.
    pub(crate) fn processing(&self) -> usize {
        self.processing.len()
    }

    /// Tasks of an origin that wait or are worked on.
    pub(super) fn load(&self, origin: Origin) -> Load {
        self.loads[origin.kind()]
    }

    /// Tasks of an origin that have not ended.
    pub(crate) fn under_way(&self, origin: Origin) -> usize {
        let Load { pending, processing } = self.load(origin);
        pending + processing
    }

    /// Copies to disks that have not ended.
    pub(crate) fn to_disks(&self) -> usize {
        self.under_way(Origin::Offload) + self.under_way(Origin::Sink)
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
    pub(crate) fn note_dead(&mut self, client: ClientId) {
        self.dead_clients.insert(client);
    }

    /// A task is pending from now on.
    pub(crate) fn insert(&mut self, task: Task) {
        let number = Self::number(task.id);
        self.by_object.insert(task.object, number);
        self.pending.insert((task.assigned, (task.retry_at, number)));
        self.new_for.insert(task.assigned);
        self.loads[task.origin.kind()].pending += 1;
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
        let load = &mut self.loads[task.origin.kind()];
        load.pending -= 1;
        load.processing += 1;
        task
    }

    /// A task is under way no longer.
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

    /// Remembers a task that has ended, and forgets the oldest.
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

/// A task of an object that has none yet.
pub(crate) struct NewTask<'a> {
    pub(crate) origin: Origin,
    pub(crate) object: u32,
    pub(crate) kind: TaskKind,
    /// The name of the segment to move from; empty for a copy.
    pub(crate) source: &'a str,
    /// Names of the segments to hold a replica, none of which does; empty if that is chosen when the task is begun.
    pub(crate) targets: &'a [&'a str],
    /// The client that hosts the source.
    pub(crate) assigned: ClientId,
}

impl<'a> NewTask<'a> {
    /// A copy to these segments, which the client that hosts its source makes.
    pub(crate) fn copy(
        origin: Origin,
        object: u32,
        targets: &'a [&'a str],
        assigned: ClientId,
    ) -> Self {
        Self { origin, object, kind: TaskKind::Copy, source: "", targets, assigned }
    }
}
