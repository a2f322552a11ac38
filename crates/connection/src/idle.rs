use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Connection;

/// Open connections to one peer that no call uses now.
#[derive(Debug)]
pub struct IdleConnections {
    most: usize,
    /// The most recently used connection is last. `None` once closed.
    idle: Mutex<Option<Vec<Connection>>>,
}

impl IdleConnections {
    /// Keeps at most `most` connections.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { most, idle: Mutex::new(Some(Vec::new())) }
    }

    /// Takes the most recently used connection that is still open. With `may_fail`, it does not check a connection
    /// that [was used lately](Connection::was_used_lately).
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

    /// Closes all idle connections.
    pub fn clear(&self) {
        let closed = self.lock().as_mut().map(std::mem::take);
        drop(closed);
    }

    /// Closes all idle connections, and each connection that is given back later.
    pub fn close(&self) {
        let closed = self.lock().take();
        drop(closed);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Vec<Connection>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
