//! Clients fetch their tasks.

use mooncake_types::{
    ClientId, ErrorCode, PutMode, Reply, TaskKind, TaskOrder, TaskOrders, TaskStatus, limits,
};
use smallvec::{SmallVec, smallvec};

use super::task::{Ending, Origin};
use crate::Meta;
use crate::objects::{Asked, Object, ObjectState, Pin};
use crate::segments::{AddressTable, Closed};
use crate::segments::{Piece, Pieces};
use crate::slab::NONE;
use crate::timer::Timer;

/// The ranges of each new replica.
type Replicas = SmallVec<[Pieces; 1]>;

/// Why a pending task cannot begin now.
enum NotBegun {
    /// There is no room for its replicas, or a segment is out of sight. A later attempt may succeed.
    Later(ErrorCode),
    /// The task can never be carried out.
    Hopeless(ErrorCode),
    /// There is nothing left to do.
    Done,
}

/// How long a task waits for its next attempt.
const RETRY_MS: u64 = 500;
/// How long a promotion waits for its next attempt while objects are copied to disks and make room.
const MAKING_ROOM_MS: u64 = 10;

/// Number of tasks that one request tries.
const MOST_TASKS: usize = limits::MAX_FETCHED_TASKS as usize;

impl Meta {
    pub(crate) fn fetch_tasks(&mut self, from: ClientId, limit: u32) -> Reply {
        let mut orders = Vec::new();
        let mut table = AddressTable::default();
        let mut last = None;
        for _ in 0..MOST_TASKS {
            if orders.len() >= limit as usize {
                break;
            }
            // Tasks that were put off come last, so that they delay no other task.
            let next = self.tasks.next_pending(from, last).filter(|(due, _)| *due <= self.now);
            let Some((_, number)) = next else { break };
            last = next;
            let task = &self.tasks.known[&number];
            let callers = self.tasks.load(Origin::Caller).processing;
            let is_full =
                task.origin == Origin::Caller && callers >= self.config.max_processing_tasks;
            if is_full {
                continue;
            }
            match self.begin_task(number, &mut table) {
                Ok(order) => orders.push(order),
                Err(not_begun) => self.put_off_task(number, not_begun),
            }
        }
        Reply::TasksFetched(TaskOrders { orders, segments: table.into_addresses() })
    }

    fn put_off_task(&mut self, number: u64, not_begun: NotBegun) {
        let room_comes = self.tasks.to_disks() > 0;
        // The task may have ended while room was made for it.
        let Some(task) = self.tasks.known.get_mut(&number) else { return };
        if task.status != TaskStatus::Pending {
            return;
        }
        let code = match not_begun {
            NotBegun::Done => return self.finish_task(number, Ending::Success),
            NotBegun::Hopeless(code) => {
                self.counters.of_tasks(task.kind).not_begun += 1;
                code
            }
            NotBegun::Later(code) => {
                self.counters.of_tasks(task.kind).not_begun += 1;
                let is_promotion = task.origin == Origin::Promotion;
                let is_promised = room_comes && is_promotion;
                task.attempts += u32::from(!is_promised);
                let ms = if is_promised { MAKING_ROOM_MS } else { RETRY_MS };
                let is_tried_again = task.attempts <= self.config.max_task_retries;
                if is_promotion {
                    self.pause_prefetches();
                }
                if is_tried_again {
                    let retry_at = self.now.after_ms(ms);
                    self.timers.insert((retry_at, Timer::Retry(number)));
                    return self.tasks.put_off(number, retry_at);
                }
                code
            }
        };
        self.finish_task(number, Ending::Refused(code));
    }

    fn begin_task(&mut self, number: u64, table: &mut AddressTable) -> Result<TaskOrder, NotBegun> {
        let task = &self.tasks.known[&number];
        let (object, kind, assigned) = (task.object, task.kind, task.assigned);
        if task.origin == Origin::Repair && !self.objects[object].asked.is_short() {
            return Err(NotBegun::Hopeless(ErrorCode::ReplicaAlreadyExists));
        }
        let source = self.task_source(number)?;
        let replicas = match self.tasks.known[&number].origin {
            Origin::Drain(job) => smallvec![self.place_moved(job, number, source)?],
            Origin::Promotion => smallvec![self.place_in_memory(number, source)?],
            _ => self.place_targets(number)?,
        };
        let copy = self.insert_copy(object, assigned, &replicas);
        self.clear_task_timer(number);
        self.counters.of_tasks(kind).begun += 1;
        let task = self.tasks.begin(number, self.now);
        task.copy = copy;
        task.moved = (kind == TaskKind::Move).then_some(source);
        let id = task.id;
        self.set_task_timer(number);
        let record = &self.objects[object];
        let (key, version, len) = (record.key.to_string(), record.version, record.len);
        let read = self.ranges_of(object).filter(|(_, range)| range.replica == source);
        let source = read.map(|(_, range)| self.placement(range, table)).collect();
        let written = self.ranges_of(copy);
        let targets = written.map(|(_, range)| self.placement(range, table)).collect();
        let grant = self.term.next_version();
        let attributes = self.attributes_of(object);
        Ok(TaskOrder { id, key, version, len, grant, source, targets, attributes })
    }

    /// Chooses the replica that a task reads.
    fn task_source(&mut self, number: u64) -> Result<u8, NotBegun> {
        let task = &self.tasks.known[&number];
        let object = task.object;
        let source = match (task.origin, task.kind) {
            (Origin::Drain(job), _) => {
                let replica = self.drained_replica(job, object).ok_or(NotBegun::Done)?;
                let is_readable = self.unreadable_replicas(object) & 1 << replica == 0;
                is_readable.then_some(replica)
            }
            (_, TaskKind::Copy) => {
                self.copy_source(object, Some(task.assigned)).map(|(replica, _)| replica)
            }
            (_, TaskKind::Move) => {
                let source = self.move_source(object, &task.source, &task.targets[0]);
                source.map_err(NotBegun::Hopeless)?.map(|(replica, _)| replica)
            }
        };
        source.ok_or_else(|| match self.lives(object) {
            true => NotBegun::Later(ErrorCode::ReplicaNotFound),
            false => NotBegun::Hopeless(ErrorCode::ReplicaNotFound),
        })
    }

    /// Reserves ranges for a replica that a drain moves. If there is no room and another replica stays, drops the
    /// replica instead.
    fn place_moved(&mut self, job: u32, number: u64, replica: u8) -> Result<Pieces, NotBegun> {
        let object = self.tasks.known[&number].object;
        // The drain of a disk drops a replica whose object is in memory too: memory need not hold two.
        let in_memory = self.memory_replicas(object);
        if in_memory != 0 && in_memory & 1 << replica == 0 {
            match self.release_drained(job, object, replica) {
                Ok(()) => return Err(NotBegun::Done),
                Err(ErrorCode::NoAvailableHandle) => {}
                Err(code) => return Err(NotBegun::Hopeless(code)),
            }
        }
        if let Some(pieces) = self.place_drained(job, object, replica) {
            let target = self.segments[pieces[0].segment].id;
            self.drains.note_target(job, number, target);
            return Ok(pieces);
        }
        Err(match self.release_drained(job, object, replica) {
            Ok(()) => NotBegun::Done,
            Err(code) => NotBegun::Hopeless(code),
        })
    }

    /// Reserves ranges for a replica in memory, unless the object got there by another way.
    fn place_in_memory(&mut self, number: u64, source: u8) -> Result<Pieces, NotBegun> {
        let object = self.tasks.known[&number].object;
        if self.is_in_memory(object) {
            return Err(NotBegun::Done);
        }
        if self.free_replica_numbers(object).next().is_none() {
            return Err(NotBegun::Hopeless(ErrorCode::InvalidParams));
        }
        let read = self.ranges_of(object).find(|(_, range)| range.replica == source);
        let (_, read) = read.ok_or(NotBegun::Hopeless(ErrorCode::ReplicaIsGone))?;
        let near = read.segment;
        let pieces = self.place_promoted(object, near);
        match (self.is_about(number, object), pieces) {
            (true, Some(pieces)) => Ok(pieces),
            (true, None) => Err(NotBegun::Later(ErrorCode::NoAvailableHandle)),
            // The eviction removed the object itself.
            (false, pieces) => {
                self.unreserve(&pieces.unwrap_or_default());
                Err(NotBegun::Hopeless(ErrorCode::ReplicaIsGone))
            }
        }
    }

    /// Reserves one range for each target name whose segments hold no replica.
    fn place_targets(&mut self, number: u64) -> Result<Replicas, NotBegun> {
        let mut pieces = Vec::new();
        match self.try_to_place_targets(number, &mut pieces) {
            Ok(()) => Ok(pieces.into_iter().map(|piece| smallvec![piece]).collect()),
            Err(not_begun) => {
                self.unreserve(&pieces);
                Err(not_begun)
            }
        }
    }

    fn try_to_place_targets(
        &mut self,
        number: u64,
        pieces: &mut Vec<Piece>,
    ) -> Result<(), NotBegun> {
        let task = &self.tasks.known[&number];
        let (object, names, origin) = (task.object, task.targets.clone(), task.origin);
        let most = self.free_replica_numbers(object).count();
        for name in names {
            let slots: Vec<u32> = self.segments.named(&name).to_vec();
            let is_there = match origin.is_to_disk() {
                true => slots.iter().any(|&slot| self.lies_on(object, self.segments[slot].medium)),
                false => self.replicas_on(object, &name) != 0,
            };
            if is_there {
                continue;
            }
            if pieces.len() == most {
                return Err(NotBegun::Hopeless(ErrorCode::InvalidParams));
            }
            pieces.push(self.place_target(object, origin, &slots)?);
            // An eviction for this target may have removed the object itself.
            if !self.is_about(number, object) {
                return Err(NotBegun::Hopeless(ErrorCode::ReplicaIsGone));
            }
        }
        if pieces.is_empty() { Err(NotBegun::Done) } else { Ok(()) }
    }

    /// Reserves a range on one of the segments of a name.
    fn place_target(
        &mut self,
        object: u32,
        origin: Origin,
        slots: &[u32],
    ) -> Result<Piece, NotBegun> {
        let takes = |slot: &u32| match origin.is_to_disk() {
            true => self.segments[*slot].takes_offloads(),
            false => self.segments[*slot].takes_puts(),
        };
        let usable: Vec<u32> = slots.iter().copied().filter(takes).collect();
        if usable.is_empty() {
            return Err(self.why_unusable(slots));
        }
        let len = self.objects[object].len;
        self.admit_target(object, origin)?;
        if !matches!(origin, Origin::Caller | Origin::Offload | Origin::Sink) {
            // Repair and replication evict nothing. They choose another segment later.
            let placed = self.place_without_eviction(len, &usable);
            return placed.ok_or(NotBegun::Hopeless(ErrorCode::NoAvailableHandle));
        }
        let evicts = |&slot: &u32| self.config.evicts_from(self.segments[slot].medium);
        // Where nothing is evicted, only removals make room. The task fails, since its object stays in memory while
        // the task waits.
        let not_begun = match usable.iter().any(evicts) {
            true => NotBegun::Later(ErrorCode::NoAvailableHandle),
            false => NotBegun::Hopeless(ErrorCode::NoAvailableHandle),
        };
        self.place_on(len, &usable).ok_or(not_begun)
    }

    /// Admits a further replica by the quota of the tenant. A move adds none.
    fn admit_target(&mut self, object: u32, origin: Origin) -> Result<(), NotBegun> {
        if origin.is_to_disk() || matches!(origin, Origin::Drain(_)) {
            return Ok(());
        }
        // An eviction within the tenant might take the object itself.
        self.admit_copy(object, false).map_err(NotBegun::Hopeless)
    }

    /// Why no segment of a name takes a replica.
    fn why_unusable(&self, slots: &[u32]) -> NotBegun {
        let hidden = |&slot: &u32| self.segments[slot].is(Closed::OutOfSight);
        match slots.iter().any(hidden) {
            _ if slots.is_empty() => NotBegun::Hopeless(ErrorCode::SegmentNotFound),
            true => NotBegun::Later(ErrorCode::UnavailableInCurrentStatus),
            false => NotBegun::Hopeless(ErrorCode::UnavailableInCurrentStatus),
        }
    }

    /// Whether a task has not ended and is about this object.
    fn is_about(&self, number: u64, object: u32) -> bool {
        self.tasks.known.get(&number).is_some_and(|task| task.object == object)
    }

    /// The numbers that further replicas of an object may have.
    pub(crate) fn free_replica_numbers(&self, object: u32) -> impl Iterator<Item = usize> + use<> {
        let set = |of: u32| self.replica_set(of);
        let taken = set(object) | self.copy_of(object).map_or(0, set);
        (0..limits::MAX_REPLICAS as usize).filter(move |&number| taken & 1 << number == 0)
    }

    /// The record of the replicas that a task is making of an object, if there is one.
    pub(crate) fn copy_of(&self, object: u32) -> Option<u32> {
        let number = self.tasks.by_object.get(&object)?;
        Some(self.tasks.known[number].copy).filter(|&copy| copy != NONE)
    }

    /// Inserts a record that holds the new replicas of an object until all are written.
    fn insert_copy(&mut self, object: u32, writer: ClientId, replicas: &[Pieces]) -> u32 {
        let numbered: Vec<(usize, &[Piece])> = self
            .free_replica_numbers(object)
            .zip(replicas.iter().map(|pieces| &pieces[..]))
            .collect();
        assert_eq!(numbered.len(), replicas.len(), "each new replica has a number");
        let record = &self.objects[object];
        let copy = Object {
            key: record.key.clone(),
            version: record.version,
            len: record.len,
            time: self.now,
            first_range: NONE,
            writer: self.number_of(writer),
            group: NONE,
            state: ObjectState::Copying,
            pin: Pin::None,
            data_type: record.data_type,
            asked: Asked::new(PutMode::Insert, 1),
        };
        let copy = self.insert_object(copy, self.class_of(object), numbered.into_iter());
        self.remove_tombstones_of_copy(copy);
        copy
    }
}
