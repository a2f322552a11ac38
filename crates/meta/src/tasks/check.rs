use mooncake_types::TaskStatus;

use super::{Load, Origin, Task, Tasks};
use crate::Meta;
use crate::check::{Check, ensure};
use crate::objects::{ObjectState, Range};
use crate::slab::NONE;
use crate::timer::Timer;

impl Meta {
    pub(crate) fn every_task_is_where_its_status_says(&self) -> Check {
        let tasks = &self.tasks;
        let mut copies = 0;
        for (&number, task) in &tasks.known {
            copies += usize::from(task.copy != NONE);
            let pending = (task.assigned, (task.retry_at, number));
            let processing = (task.assigned, number);
            let at = (tasks.pending.contains(&pending), tasks.processing.contains(&processing));
            let right = match task.status {
                TaskStatus::Pending => at == (true, false) && task.copy == NONE,
                TaskStatus::Processing => {
                    let source_stays = task.moved.is_some();
                    at == (false, true) && (task.copy != NONE || source_stays)
                }
                TaskStatus::Failed | TaskStatus::Success => {
                    at == (false, false) && task.copy == NONE
                }
            };
            let named = number == Tasks::number(task.id);
            ensure("a task is listed by its number under its status", right && named, || {
                format!("task {number}: {task:?}")
            })?;
            let timed = self
                .task_timer(task)
                .is_none_or(|(due, number)| self.timers.contains(&(due, Timer::Task(number))));
            ensure("a task that is under way has its timer", timed, || format!("{task:?}"))?;
            if task.object != NONE {
                self.check_object_of(number, task)?;
            }
        }
        let ended = tasks.known.len() - tasks.pending.len() - tasks.processing.len();
        let (kept, own) = (tasks.finished.len(), tasks.own_finished.len());
        ensure(
            "ended tasks are kept up to the limit",
            ended == kept + own && kept <= self.config.max_finished_tasks,
            || format!("{ended} ended, {kept} of callers and {own} others kept"),
        )?;
        let mut loads = [Load::default(); Origin::KINDS];
        for (_, (_, number)) in &tasks.pending {
            loads[tasks.known[number].origin.kind()].pending += 1;
        }
        for (_, number) in &tasks.processing {
            loads[tasks.known[number].origin.kind()].processing += 1;
        }
        ensure("tasks are counted by their origins", loads == tasks.loads, || {
            format!("{loads:?}, counted {:?}", tasks.loads)
        })?;
        let under_way = tasks.pending.len() + tasks.processing.len();
        ensure("every task under way has an object", under_way == tasks.by_object.len(), || {
            format!("{under_way} under way, {} objects", tasks.by_object.len())
        })?;
        let copying = |object: &&crate::objects::Object| object.state == ObjectState::Copying;
        let records = self.objects.iter().map(|(_, object)| object).filter(copying).count();
        ensure("every copy belongs to a task", records == copies, || {
            format!("{records} copies, {copies} of tasks")
        })
    }

    fn check_object_of(&self, number: u64, task: &Task) -> Check {
        let object = self.objects.get(task.object);
        let complete = object.is_some_and(|object| object.state == ObjectState::Complete);
        let mutual = self.tasks.by_object.get(&task.object) == Some(&number);
        ensure("a task under way is about a finished object", complete && mutual, || {
            format!("task {number}: {task:?}, {object:?}")
        })?;
        if task.copy == NONE {
            return Ok(());
        }
        let held = |record: u32| self.ranges_of(record).map(|(_, range)| range).collect::<Vec<_>>();
        let (old, new) = (held(task.object), held(task.copy));
        let apart = new.iter().all(|new| {
            // A drain may move a replica to a segment that already holds a part of it.
            let is_moved = |old: &Range| Some(old.replica) == task.moved;
            old.iter().all(|old| {
                (old.segment != new.segment || is_moved(old)) && old.replica != new.replica
            })
        });
        ensure("new replicas differ from old ones in number and segment", apart, || {
            format!("task {number}: {old:?}, {new:?}")
        })
    }
}
