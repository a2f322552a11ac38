//! Requests that wait for tasks; they are answered once their client has some.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use mooncake_types::ClientId;
use tokio::sync::Notify;

/// For each client that waits, how to wake its requests.
#[derive(Debug, Default)]
pub(crate) struct TaskWaiters(RefCell<HashMap<ClientId, Rc<Notify>>>);

impl TaskWaiters {
    /// A request of a client begins to wait. The result wakes it, until it [leaves](Self::leave).
    pub(crate) fn join(&self, client: ClientId) -> Rc<Notify> {
        Rc::clone(self.0.borrow_mut().entry(client).or_default())
    }

    /// Wakes all requests of a client.
    pub(crate) fn tell(&self, client: ClientId) {
        if let Some(waiting) = self.0.borrow().get(&client) {
            waiting.notify_waiters();
        }
    }

    /// A request has stopped waiting.
    pub(crate) fn leave(&self, client: ClientId, told: Rc<Notify>) {
        drop(told);
        let mut waiting = self.0.borrow_mut();
        if waiting.get(&client).is_some_and(|told| Rc::strong_count(told) == 1) {
            waiting.remove(&client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_waits_no_more_is_forgotten() {
        let (waiters, client) = (TaskWaiters::default(), ClientId(1));
        let (first, second) = (waiters.join(client), waiters.join(client));
        waiters.tell(ClientId(2));
        waiters.leave(client, first);
        assert_eq!(waiters.0.borrow().len(), 1, "one request still waits");
        waiters.leave(client, second);
        assert!(waiters.0.borrow().is_empty());
    }
}
