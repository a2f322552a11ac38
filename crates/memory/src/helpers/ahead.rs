use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::WAITERS;
use super::pool::{HelperPool, Posted};

/// As [`with_waiting_helpers`](super::with_waiting_helpers), for items of which more come while the first results are
/// used. `consume` runs on this thread: it queues items, and takes their results in the same order, while at most
/// `helpers` threads work on queued items. Once it returns, no further item begins.
///
/// # Panics
/// If `consume` panics, or `work` does on an item whose result is taken.
pub fn with_helpers_ahead<T: Send, R: Send, U>(
    helpers: usize,
    work: impl Fn(T) -> R + Sync,
    consume: impl FnOnce(&mut WorkAhead<'_, T, R>) -> U,
) -> U {
    let (queue, arrived) = (Mutex::new(AheadQueue::default()), Condvar::new());
    let begin = || lock(&queue).begin();
    let help = || {
        while let Some((number, item)) = begin() {
            let result = catch_unwind(AssertUnwindSafe(|| work(item)));
            lock(&queue).end(number, result);
            arrived.notify_one();
        }
    };
    let posted = HelperPool::of_process(&WAITERS).post(0, &help);
    let helpers = helpers.min(WAITERS.most);
    let mut ahead = WorkAhead { queue: &queue, arrived: &arrived, work: &work, posted, helpers };
    consume(&mut ahead)
}

/// Work that helpers do ahead of the thread that uses the results. See [`with_helpers_ahead`].
pub struct WorkAhead<'a, T, R> {
    queue: &'a Mutex<AheadQueue<T, R>>,
    arrived: &'a Condvar,
    work: &'a dyn Fn(T) -> R,
    posted: Posted,
    helpers: usize,
}

/// Items in the order in which they were queued.
struct AheadQueue<T, R> {
    items: VecDeque<AheadItem<T, R>>,
    /// Number of the first of them.
    first: u64,
}

enum AheadItem<T, R> {
    Queued(T),
    Begun,
    /// The panic of the work is a result as well.
    Done(thread::Result<R>),
}

impl<T, R> Default for AheadQueue<T, R> {
    fn default() -> Self {
        Self { items: VecDeque::new(), first: 0 }
    }
}

impl<T, R> AheadQueue<T, R> {
    /// Takes the first queued item, which no thread has begun, and its number.
    fn begin(&mut self) -> Option<(u64, T)> {
        let is_queued = |item: &AheadItem<T, R>| matches!(item, AheadItem::Queued(_));
        let index = self.items.iter().position(is_queued)?;
        match std::mem::replace(&mut self.items[index], AheadItem::Begun) {
            AheadItem::Queued(item) => Some((self.first + index as u64, item)),
            AheadItem::Begun | AheadItem::Done(_) => None,
        }
    }

    fn end(&mut self, number: u64, result: thread::Result<R>) {
        let index = number.checked_sub(self.first).map(|index| index as usize);
        if let Some(item) = index.and_then(|index| self.items.get_mut(index)) {
            *item = AheadItem::Done(result);
        }
    }
}

impl<T: Send, R: Send> WorkAhead<'_, T, R> {
    /// Queues items.
    pub fn queue(&mut self, items: impl IntoIterator<Item = T>) {
        let mut queue = lock(self.queue);
        queue.items.extend(items.into_iter().map(AheadItem::Queued));
        let waiting = queue.items.iter().filter(|item| matches!(item, AheadItem::Queued(_)));
        // This thread does one of them itself if it needs the result before a helper comes.
        let wanted = waiting.count().saturating_sub(1);
        drop(queue);
        self.posted.invite(wanted, self.helpers);
    }

    /// The result for the next item; `None` if no item is queued. This thread does the work if no helper has begun it.
    pub fn take(&mut self) -> Option<R> {
        let is_begun =
            |queue: &mut AheadQueue<T, R>| matches!(queue.items.front(), Some(AheadItem::Begun));
        let waited = self.arrived.wait_while(lock(self.queue), is_begun);
        let mut queue = waited.unwrap_or_else(PoisonError::into_inner);
        let item = queue.items.pop_front()?;
        queue.first += 1;
        drop(queue);
        match item {
            AheadItem::Queued(item) => Some((self.work)(item)),
            AheadItem::Done(Ok(result)) => Some(result),
            AheadItem::Done(Err(panic)) => resume_unwind(panic),
            AheadItem::Begun => unreachable!("it was waited for"),
        }
    }
}

impl<T, R> Drop for WorkAhead<'_, T, R> {
    /// Runs before the job ends, which waits for its helpers.
    fn drop(&mut self) {
        lock(self.queue).items.clear();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    #[test]
    fn later_items_are_worked_on_while_earlier_results_are_used() {
        let begun = AtomicUsize::new(0);
        let work = |item: usize| {
            begun.fetch_add(1, Ordering::SeqCst);
            item * 3
        };
        let taken = with_helpers_ahead(3, work, |ahead| {
            assert_eq!(ahead.take(), None);
            let mut taken = Vec::new();
            for from in [0, 50] {
                ahead.queue(from..from + 50);
                taken.extend(ahead.take());
                // This thread takes no other item here, so helpers must have begun them.
                while begun.load(Ordering::SeqCst) < from + 50 {
                    thread::yield_now();
                }
            }
            taken.extend(std::iter::from_fn(|| ahead.take()));
            taken
        });
        assert_eq!(taken, (0..300).step_by(3).collect::<Vec<_>>());
    }

    #[test]
    fn no_more_helpers_than_allowed_work_ahead() {
        let (now, peak) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let work = |()| {
            peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(1));
            now.fetch_sub(1, Ordering::SeqCst);
        };
        with_helpers_ahead(2, work, |ahead| {
            for _ in 0..20 {
                ahead.queue([(); 5]);
                ahead.take();
            }
            while ahead.take().is_some() {}
        });
        assert!((2..=3).contains(&peak.into_inner()), "two helpers, and this thread");
    }

    #[test]
    fn nothing_begins_after_the_consumer_has_ended() {
        let begun = AtomicUsize::new(0);
        let work = |()| {
            begun.fetch_add(1, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(1));
        };
        with_helpers_ahead(3, work, |ahead| {
            ahead.queue([(); 10_000]);
            ahead.take()
        });
        let seen = begun.load(Ordering::SeqCst);
        assert!(seen < 1000, "{seen} of 10,000 began");
        thread::sleep(Duration::from_millis(20));
        assert_eq!(begun.load(Ordering::SeqCst), seen);
    }

    #[test]
    fn a_panic_is_that_of_whoever_takes_the_result() {
        let fails = |item| assert!(item != 3, "no threes");
        let take = |count: usize| {
            with_helpers_ahead(2, fails, |ahead| {
                ahead.queue([0, 1, 2, 3, 4]);
                (0..count).filter_map(|_| ahead.take()).count()
            })
        };
        assert_eq!(take(3), 3, "the panic is of no concern to who does not take the result");
        assert!(catch_unwind(|| take(4)).is_err());
    }
}
