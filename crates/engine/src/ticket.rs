use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The state of a submitted transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchStatus {
    /// It waits for a thread, or a thread runs it.
    Running,
    /// All bytes were moved.
    Done,
    /// It failed, and no byte of it is in flight. Also the answer for a number that is unknown or forgotten.
    Failed,
    /// It failed because its time was over.
    TimedOut,
}

/// A transfer in the background, whose state its holder may ask for at any time and as often as it likes.
#[derive(Clone, Debug)]
pub struct Ticket(Arc<TicketState>);

#[derive(Debug)]
struct TicketState {
    status: Mutex<BatchStatus>,
    ended: Condvar,
}

impl TicketState {
    fn status(&self) -> MutexGuard<'_, BatchStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, status: BatchStatus) {
        *self.status() = status;
        self.ended.notify_all();
    }
}

impl Ticket {
    pub(crate) fn new() -> (Ticket, TicketEnd) {
        let (status, ended) = (Mutex::new(BatchStatus::Running), Condvar::new());
        let state = Arc::new(TicketState { status, ended });
        (Ticket(Arc::clone(&state)), TicketEnd(Some(state)))
    }

    /// The ticket of a transfer that never began.
    #[must_use]
    pub fn failed() -> Ticket {
        // Dropping the end tells of the failure.
        Self::new().0
    }

    /// The state of the transfer.
    #[must_use]
    pub fn status(&self) -> BatchStatus {
        *self.0.status()
    }

    /// Waits until the transfer has ended, at most until the limit. Returns its state.
    #[must_use]
    pub fn wait(&self, limit: Duration) -> BatchStatus {
        let deadline = Instant::now().checked_add(limit);
        let mut status = self.0.status();
        while *status == BatchStatus::Running {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            status = match left {
                Some(Duration::ZERO) => break,
                Some(left) => {
                    let waited = self.0.ended.wait_timeout(status, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.0.ended.wait(status).unwrap_or_else(PoisonError::into_inner),
            };
        }
        *status
    }
}

/// The other side of a ticket. If it is dropped before it has told an end, the transfer has failed.
#[derive(Debug)]
pub(crate) struct TicketEnd(Option<Arc<TicketState>>);

impl TicketEnd {
    pub(crate) fn tell(mut self, status: BatchStatus) {
        if let Some(state) = self.0.take() {
            state.end(status);
        }
    }
}

impl Drop for TicketEnd {
    fn drop(&mut self) {
        if let Some(state) = self.0.take() {
            state.end(BatchStatus::Failed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_tells_its_end_as_often_as_it_is_asked() {
        let (ticket, end) = Ticket::new();
        assert_eq!(ticket.wait(Duration::ZERO), BatchStatus::Running);
        assert_eq!(ticket.wait(Duration::from_millis(1)), BatchStatus::Running);
        let waiting = ticket.clone();
        let waiter = std::thread::spawn(move || waiting.wait(Duration::MAX));
        end.tell(BatchStatus::Done);
        assert_eq!(waiter.join().expect("no panic"), BatchStatus::Done);
        assert_eq!((ticket.status(), ticket.status()), (BatchStatus::Done, BatchStatus::Done));
        assert_eq!(Ticket::failed().wait(Duration::MAX), BatchStatus::Failed);
    }
}
