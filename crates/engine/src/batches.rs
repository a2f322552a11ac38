use std::collections::{BTreeSet, HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use mooncake_memory::spawn_unpinned;

use crate::MoveError;
use crate::ticket::{BatchStatus, Ticket, TicketEnd};

/// Most threads that run submitted transfers.
const MAX_THREADS: usize = 4;

/// Most batches in the table: those that run, and those whose end no caller has asked about yet.
pub(crate) const MAX_BATCHES: usize = 65_536;

/// Stack size of a thread. The bytes of transfers are not on it.
const STACK_BYTES: usize = 512 << 10;

/// The work of a batch, which a thread of the engine runs.
pub(crate) type Work = Box<dyn FnOnce() -> Result<(), MoveError> + Send>;

/// Submitted transfers, by number.
#[derive(Default)]
pub(crate) struct Batches {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<BatchesState>,
    /// Signals new work, and the closing of the table.
    called: Condvar,
    /// Signals that a batch has ended.
    ended: Condvar,
}

#[derive(Default)]
struct BatchesState {
    closed: bool,
    last_number: u64,
    idle: usize,
    queue: VecDeque<Job>,
    batches: HashMap<u64, BatchStatus>,
    /// Numbers of batches that have ended, oldest first. Some of them are forgotten already.
    history: VecDeque<u64>,
}

struct Job {
    end: JobEnd,
    deadline: Instant,
    work: Work,
}

/// Where the end of a job is told.
enum JobEnd {
    /// In the table, under this number.
    Number(u64),
    /// To the holder of the ticket.
    Ticket(TicketEnd),
}

impl BatchesState {
    fn tell(&mut self, end: JobEnd, status: BatchStatus) {
        match end {
            JobEnd::Number(number) => self.end(number, status),
            JobEnd::Ticket(ticket) => ticket.tell(status),
        }
    }

    fn end(&mut self, number: u64, status: BatchStatus) {
        self.batches.insert(number, status);
        self.history.push_back(number);
    }

    /// Makes room for another batch by forgetting the oldest ended ones. False if all batches run.
    fn has_room(&mut self) -> bool {
        while self.batches.len() >= MAX_BATCHES || self.history.len() >= 2 * MAX_BATCHES {
            let Some(oldest) = self.history.pop_front() else { return false };
            self.batches.remove(&oldest);
        }
        true
    }

    /// The state of a batch. A batch that has ended is forgotten once its end was reported.
    fn report(&mut self, number: u64) -> BatchStatus {
        match self.batches.get(&number) {
            None => BatchStatus::Failed,
            Some(BatchStatus::Running) => BatchStatus::Running,
            Some(_) => self.batches.remove(&number).unwrap_or(BatchStatus::Failed),
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, BatchesState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self) {
        while let Some(Job { end, deadline, work }) = self.next() {
            let result = catch_unwind(AssertUnwindSafe(|| match Instant::now() < deadline {
                true => work(),
                false => {
                    // Dropping the work releases its memory before callers can see that the batch has ended.
                    drop(work);
                    Err(MoveError::TimedOut)
                }
            }));
            let status = match result {
                Ok(Ok(())) => BatchStatus::Done,
                Ok(Err(error)) => {
                    tracing::warn!(%error, "a submitted transfer has failed");
                    if error.is_timeout() { BatchStatus::TimedOut } else { BatchStatus::Failed }
                }
                // The panic hook has reported it. The thread continues, since `spawn` counts it as alive.
                Err(_) => BatchStatus::Failed,
            };
            self.lock().tell(end, status);
            self.ended.notify_all();
        }
    }

    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.queue.pop_front() {
                return Some(job);
            }
            if state.closed {
                return None;
            }
            state.idle += 1;
            state = self.called.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }
}

impl Batches {
    /// Queues the work for a thread. If none is free within `patience`, the batch times out. The table keeps its state
    /// under the number that this returns.
    pub(crate) fn submit(&self, patience: Duration, work: Work) -> Result<u64, MoveError> {
        let number = {
            let mut state = self.shared.lock();
            if !state.has_room() {
                return Err(MoveError::TooMany { limit: MAX_BATCHES });
            }
            state.last_number += 1;
            let number = state.last_number;
            state.batches.insert(number, BatchStatus::Running);
            number
        };
        self.queue(patience, work, JobEnd::Number(number)).inspect_err(|_| {
            self.shared.lock().batches.remove(&number);
        })?;
        Ok(number)
    }

    /// As [`Batches::submit`]. The ticket keeps the state.
    pub(crate) fn start(&self, patience: Duration, work: Work) -> Result<Ticket, MoveError> {
        let (ticket, end) = Ticket::new();
        self.queue(patience, work, JobEnd::Ticket(end)).map(|()| ticket)
    }

    fn queue(&self, patience: Duration, work: Work, end: JobEnd) -> Result<(), MoveError> {
        let deadline = Instant::now() + patience;
        let mut state = self.shared.lock();
        if state.closed {
            return Err(MoveError::Closed);
        }
        if state.queue.len() >= MAX_BATCHES {
            return Err(MoveError::TooMany { limit: MAX_BATCHES });
        }
        let wants_thread = state.queue.len() >= state.idle;
        if wants_thread {
            drop(state);
            // Without any thread the work would never run.
            if !self.spawn() {
                return Err(MoveError::NoThread);
            }
            state = self.shared.lock();
            if state.closed {
                return Err(MoveError::Closed);
            }
        }
        state.queue.push_back(Job { end, deadline, work });
        drop(state);
        self.shared.called.notify_one();
        Ok(())
    }

    /// Starts another thread, unless there are enough. False if there is no thread at all.
    fn spawn(&self) -> bool {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.retain(|thread| !thread.is_finished());
        if threads.len() >= MAX_THREADS {
            return true;
        }
        let shared = Arc::clone(&self.shared);
        let thread = Builder::new().name("engine".into()).stack_size(STACK_BYTES);
        match spawn_unpinned(thread, move || shared.serve()) {
            Ok(thread) => threads.push(thread),
            Err(error) => tracing::error!(%error, "there is no thread for a transfer"),
        }
        !threads.is_empty()
    }

    /// The state of a batch. A batch that has ended is forgotten once its end was reported.
    pub(crate) fn status(&self, number: u64) -> BatchStatus {
        self.shared.lock().report(number)
    }

    /// Waits until all these batches have ended, and forgets them. True if all of them are done.
    pub(crate) fn wait(&self, numbers: &[u64]) -> bool {
        let numbers: BTreeSet<u64> = numbers.iter().copied().collect();
        let mut state = self.shared.lock();
        let mut all_done = true;
        for number in numbers {
            loop {
                match state.report(number) {
                    BatchStatus::Running => {}
                    status => {
                        all_done &= status == BatchStatus::Done;
                        break;
                    }
                }
                state = self.shared.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
        all_done
    }

    /// Fails all queued batches, and returns when no thread runs any more.
    pub(crate) fn close(&self) {
        let waiting = {
            let mut state = self.shared.lock();
            state.closed = true;
            std::mem::take(&mut state.queue)
        };
        for Job { end, work, .. } in waiting {
            // Before callers can see that the batch has ended, its memory is released.
            drop(work);
            self.shared.lock().tell(end, BatchStatus::Failed);
        }
        self.shared.called.notify_all();
        self.shared.ended.notify_all();
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // A panic of the thread was reported when it happened.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn an_end_is_told_once() {
        let batches = Batches::default();
        let cases: [(Result<(), MoveError>, BatchStatus); 3] = [
            (Ok(()), BatchStatus::Done),
            (Err(MoveError::Closed), BatchStatus::Failed),
            (Err(MoveError::TimedOut), BatchStatus::TimedOut),
        ];
        for (result, expected) in cases {
            let (go, wait) = mpsc::channel::<()>();
            let work = move || {
                wait.recv().expect("the test lets it go");
                result
            };
            let number = batches.submit(LONG, Box::new(work)).expect("there is room");
            assert_ne!(number, 0);
            assert_eq!(batches.status(number), BatchStatus::Running);
            go.send(()).expect("the work waits");
            let mut status = BatchStatus::Running;
            while status == BatchStatus::Running {
                status = batches.status(number);
            }
            assert_eq!((status, batches.status(number)), (expected, BatchStatus::Failed));
        }
        assert_eq!(batches.status(0), BatchStatus::Failed);
    }

    #[test]
    fn waiting_is_for_all_of_them() {
        let batches = Batches::default();
        let submit = |result| batches.submit(LONG, Box::new(move || result)).expect("room");
        let done: Vec<u64> = (0..100).map(|_| submit(Ok(()))).collect();
        let twice = [done.clone(), done.clone()].concat();
        assert!(batches.wait(&twice));
        assert!(!batches.wait(&done), "they are forgotten");
        assert!(batches.wait(&[]));
        let (good, bad) = (submit(Ok(())), submit(Err(MoveError::Closed)));
        assert!(!batches.wait(&[bad, good]));
        assert_eq!(batches.status(good), BatchStatus::Failed, "it was forgotten with the other");
    }

    #[test]
    fn work_that_panics_has_failed() {
        let batches = Batches::default();
        for _ in 0..2 * MAX_THREADS {
            let number = batches.submit(LONG, Box::new(|| panic!("a bug"))).expect("there is room");
            assert!(!batches.wait(&[number]));
        }
    }

    #[test]
    fn work_that_waited_too_long_is_not_done() {
        let batches = Batches::default();
        let (go, wait) = mpsc::channel::<()>();
        let wait = Arc::new(Mutex::new(wait));
        for _ in 0..MAX_THREADS {
            let wait = Arc::clone(&wait);
            let work = move || {
                let _ = wait.lock().expect("no panic").recv();
                Ok(())
            };
            batches.submit(LONG, Box::new(work)).expect("there is room");
        }
        let late = batches.submit(Duration::ZERO, Box::new(|| Ok(()))).expect("there is room");
        assert_eq!(batches.status(late), BatchStatus::Running);
        drop(go);
        let mut status = BatchStatus::Running;
        while status == BatchStatus::Running {
            status = batches.status(late);
        }
        assert_eq!(status, BatchStatus::TimedOut);
    }

    #[test]
    fn ends_that_nobody_asks_about_are_forgotten_oldest_first() {
        let mut state = BatchesState::default();
        for number in 0..MAX_BATCHES as u64 {
            state.end(number, BatchStatus::Done);
        }
        assert!(state.has_room());
        let told = [state.report(0), state.report(1)];
        assert_eq!(told, [BatchStatus::Failed, BatchStatus::Done]);
        let running = |number| (number, BatchStatus::Running);
        let mut full = BatchesState {
            batches: (0..MAX_BATCHES as u64).map(running).collect(),
            ..BatchesState::default()
        };
        assert!(!full.has_room());
    }

    #[test]
    fn a_closed_table_takes_nothing_in() {
        let batches = Batches::default();
        batches.close();
        let refused = batches.submit(LONG, Box::new(|| Ok(())));
        assert_eq!(refused, Err(MoveError::Closed));
    }
}
