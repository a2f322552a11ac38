use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Connection;

/// Connections to one peer that nobody uses now, the one that was used last at the end.
#[derive(Debug)]
pub struct IdleConnections {
    most: usize,
    /// `None` once it is closed.
    idle: Mutex<Option<Vec<Connection>>>,
}

impl IdleConnections {
    /// Keeps so many at most.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { most, idle: Mutex::new(Some(Vec::new())) }
    }

    /// The connection that was used last, of those that are still open. With `may_fail`, one that was used lately is taken to
    /// be open.
    pub fn take(&self, may_fail: bool) -> Option<Connection> {
        loop {
            // The lock is not held during the system call that checks the socket.
            let connection = self.lock().as_mut()?.pop()?;
            if may_fail && connection.was_used_lately() || connection.is_quiet() {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection that is between two calls, if there is room.
    pub fn give_back(&self, connection: Connection) {
        let mut idle = self.lock();
        if let Some(idle) = idle.as_mut().filter(|idle| idle.len() < self.most) {
            idle.push(connection);
        }
    }

    /// Closes those that are idle now.
    pub fn clear(&self) {
        let closed = self.lock().as_mut().map(std::mem::take);
        drop(closed);
    }

    /// Closes those that are idle now, and each that is given back.
    pub fn close(&self) {
        let closed = self.lock().take();
        drop(closed);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Vec<Connection>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
