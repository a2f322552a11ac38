//! Creates copy and move tasks.

use mooncake_types::{
    ClientId, CreateTask, ErrorCode, Medium, TaskId, TaskKind, TaskStatus, limits,
};

use super::task::{Ending, NewTask, Origin, Task, Tasks};
use crate::Meta;
use crate::objects::check_key;
use crate::slab::NONE;

impl Meta {
    pub(crate) fn create_task(&mut self, wanted: &CreateTask<'_>) -> Result<TaskId, ErrorCode> {
        check_key(wanted.key)?;
        let mut targets: Vec<&str> = Vec::new();
        for target in wanted.targets.iter().take(limits::MAX_REPLICAS as usize + 1) {
            if !targets.contains(target) {
                targets.push(target);
            }
        }
        if targets.is_empty() || targets.len() > limits::MAX_REPLICAS as usize {
            return Err(ErrorCode::InvalidParams);
        }
        let object = self.find_finished(wanted.key)?;
        if wanted.kind == TaskKind::Move && (targets.len() != 1 || targets[0] == wanted.source) {
            return Err(ErrorCode::InvalidParams);
        }
        self.ensure_no_callers_task(object)?;
        for target in &targets {
            self.ensure_grantable(target)?;
        }
        if wanted.kind == TaskKind::Move && self.segments.named(wanted.source).is_empty() {
            return Err(ErrorCode::InvalidParams);
        }
        let assigned = match wanted.kind {
            TaskKind::Copy => self.copy_source(object, None),
            TaskKind::Move => self.move_source(object, wanted.source, targets[0])?,
        };
        let (_, assigned) = assigned.ok_or(ErrorCode::ReplicaNotFound)?;
        targets.retain(|target| self.replicas_on(object, target) == 0);
        if targets.len() > self.free_replica_numbers(object).count() {
            return Err(ErrorCode::InvalidParams);
        }
        if self.tasks.load(Origin::Caller).pending >= self.config.max_pending_tasks {
            return Err(ErrorCode::TaskPendingLimitExceeded);
        }
        self.give_way(object)?;
        let source = if wanted.kind == TaskKind::Move { wanted.source } else { "" };
        Ok(self.submit_task(NewTask {
            origin: Origin::Caller,
            object,
            kind: wanted.kind,
            source,
            targets: &targets,
            assigned,
        }))
    }

    /// Adds a pending task. A task of a caller without targets ends at once.
    pub(crate) fn submit_task(&mut self, new: NewTask<'_>) -> TaskId {
        let id = self.next_task_id();
        let number = Tasks::number(id);
        self.tasks.insert(Task {
            id,
            origin: new.origin,
            kind: new.kind,
            status: TaskStatus::Pending,
            object: new.object,
            source: new.source.into(),
            targets: new.targets.iter().map(|&target| target.into()).collect(),
            assigned: new.assigned,
            created: self.now,
            updated: self.now,
            attempts: 0,
            retry_at: self.now,
            copy: NONE,
            moved: None,
            message: String::new(),
        });
        self.count_task_in_group(new.object, true);
        self.set_task_timer(number);
        if new.targets.is_empty() && new.origin == Origin::Caller {
            // Every target already holds a replica.
            self.finish_task(number, Ending::Success);
        }
        id
    }

    /// Refuses a target name if no segment of this name takes new replicas.
    pub(crate) fn ensure_grantable(&self, name: &str) -> Result<(), ErrorCode> {
        let slots = self.segments.named(name);
        if slots.is_empty() {
            return Err(ErrorCode::InvalidParams);
        }
        let is_disk = |&slot: &u32| self.segments[slot].medium != Medium::Memory;
        match slots.iter().any(|&slot| self.segments[slot].takes_puts()) {
            true => Ok(()),
            // Only its own node puts replicas on a disk, by offloads.
            false if slots.iter().all(is_disk) => Err(ErrorCode::NotSupported),
            false => Err(ErrorCode::UnavailableInCurrentStatus),
        }
    }

    /// The first readable replica, and its host. Prefers replicas on `host`.
    pub(crate) fn copy_source(
        &self,
        object: u32,
        host: Option<ClientId>,
    ) -> Option<(u8, ClientId)> {
        let dead = self.unreadable_replicas(object);
        let living = || {
            self.ranges_of(object)
                .filter(|(_, range)| dead & 1 << range.replica == 0)
                .map(|(_, range)| (range.replica, self.segments[range.segment].client))
        };
        living().find(|&(_, client)| Some(client) == host).or_else(|| living().next())
    }

    /// The replica to move away from a segment, and its host. `None` if the replica cannot be read.
    pub(super) fn move_source(
        &self,
        object: u32,
        source: &str,
        target: &str,
    ) -> Result<Option<(u8, ClientId)>, ErrorCode> {
        let set = self.replicas_on(object, source);
        if set == 0 {
            return Err(ErrorCode::ReplicaNotFound);
        }
        if self.replicas_on(object, target) != 0 {
            return Err(ErrorCode::ReplicaAlreadyExists);
        }
        let living = set & !self.unreadable_replicas(object);
        let mut there =
            self.ranges_of(object).filter(|(_, range)| living & 1 << range.replica != 0);
        Ok(there
            .find(|(_, range)| &*self.segments[range.segment].name == source)
            .map(|(_, range)| (range.replica, self.segments[range.segment].client)))
    }
}
