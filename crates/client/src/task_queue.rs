//! Fetched tasks, and the threads that carry them out.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use mooncake_types::{TaskOrder, TaskOrders};

/// Tasks that no thread has begun yet. Threads exist only while there are tasks.
#[derive(Default)]
pub(crate) struct TaskQueue {
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    waiting: VecDeque<FetchedTask>,
    threads: usize,
}

/// One of the tasks in a reply of the master.
pub(crate) struct FetchedTask {
    pub(crate) fetched: Arc<TaskOrders>,
    number: usize,
}

impl FetchedTask {
    pub(crate) fn order(&self) -> &TaskOrder {
        &self.fetched.orders[self.number]
    }
}

impl TaskQueue {
    /// Adds tasks. Returns how many more threads the caller must start on [`Self::work`], so that there are up to
    /// `most`.
    pub(crate) fn push(&self, fetched: TaskOrders, most: usize) -> usize {
        let fetched = Arc::new(fetched);
        let mut state = self.lock();
        for number in 0..fetched.orders.len() {
            state.waiting.push_back(FetchedTask { fetched: Arc::clone(&fetched), number });
        }
        let missing = state.waiting.len().min(most.saturating_sub(state.threads));
        state.threads += missing;
        missing
    }

    /// Carries out one task after the other until none waits.
    pub(crate) fn work(&self, carry_out: impl Fn(&FetchedTask)) {
        let mut thread = CountedThread { queue: self, is_counted: true };
        while let Some(task) = thread.next_task() {
            carry_out(&task);
        }
    }

    /// Waits until fewer than `count` tasks wait, or no thread is left.
    pub(crate) fn wait_for_fewer(&self, count: usize) {
        let are_many = |state: &mut QueueState| state.waiting.len() >= count && state.threads > 0;
        drop(self.changed.wait_while(self.lock(), are_many));
    }

    /// Waits until no thread is left. Returns whether none was left already.
    pub(crate) fn wait_until_idle(&self) -> bool {
        let state = self.lock();
        let is_idle = state.threads == 0;
        drop(self.changed.wait_while(state, |state| state.threads > 0));
        is_idle
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.lock().threads == 0
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread of a queue, which counts until it finds no task, or panics.
struct CountedThread<'q> {
    queue: &'q TaskQueue,
    is_counted: bool,
}

impl CountedThread<'_> {
    /// Takes a task, or stops counting this thread, under one lock. So a caller that adds a task afterwards starts
    /// another thread.
    fn next_task(&mut self) -> Option<FetchedTask> {
        let mut state = self.queue.lock();
        let task = state.waiting.pop_front();
        if task.is_none() {
            (state.threads, self.is_counted) = (state.threads - 1, false);
        }
        self.queue.changed.notify_all();
        task
    }
}

impl Drop for CountedThread<'_> {
    fn drop(&mut self) {
        if self.is_counted {
            self.queue.lock().threads -= 1;
            self.queue.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use mooncake_types::{Epoch, TaskId, Version};

    use super::*;

    #[test]
    fn threads_are_there_while_tasks_wait_and_no_more_than_wanted() {
        let queue = &TaskQueue::default();
        assert_eq!(queue.push(tasks(2), 4), 2, "no more than there are tasks");
        assert_eq!(queue.push(tasks(5), 4), 2);
        assert_eq!(queue.push(tasks(1), 4), 0);
        let done = &AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                let count = |_: &FetchedTask| {
                    done.fetch_add(1, Ordering::Relaxed);
                };
                scope.spawn(move || queue.work(count));
            }
            queue.wait_until_idle();
        });
        assert_eq!(done.load(Ordering::Relaxed), 8);
        assert!(queue.is_idle() && queue.wait_until_idle());
        assert_eq!(queue.push(tasks(1), 4), 1);
    }

    #[test]
    fn a_thread_that_panics_keeps_nobody_waiting() {
        let queue = TaskQueue::default();
        assert_eq!(queue.push(tasks(3), 1), 1);
        let panicked = thread::scope(|scope| {
            scope.spawn(|| queue.work(|_| panic!("as this test wants it"))).join().is_err()
        });
        assert!(panicked);
        queue.wait_for_fewer(1);
        assert!(queue.wait_until_idle());
        assert_eq!(queue.push(tasks(0), 4), 2, "two tasks wait yet");
    }

    fn tasks(count: u64) -> TaskOrders {
        let order = |number: u64| TaskOrder {
            id: TaskId(number.into()),
            key: "k".to_owned(),
            version: Version { epoch: Epoch(1), counter: 1 },
            len: 1,
            grant: Version { epoch: Epoch(1), counter: 2 },
            source: vec![],
            targets: vec![],
            attributes: vec![],
        };
        TaskOrders { orders: (0..count).map(order).collect(), segments: vec![] }
    }
}
