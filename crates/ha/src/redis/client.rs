use std::fmt;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::connection::Connection;
use super::reply::Reply;
use crate::location::RedisServer;

/// Most connections that are kept for further calls.
const MAX_IDLE: usize = 4;

/// Sends commands to a Redis server.
pub(crate) struct RedisClient {
    server: RedisServer,
    idle: Mutex<Vec<Connection>>,
    within: Duration,
}

impl fmt::Debug for RedisClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.server.fmt(f)
    }
}

impl RedisClient {
    /// `within` is how long one command may take, connecting included.
    pub(crate) fn new(server: RedisServer, within: Duration) -> Self {
        Self { server, idle: Mutex::default(), within }
    }

    /// Sends a command over an idle connection, or a new one.
    pub(crate) fn call(&self, words: &[&str]) -> io::Result<Reply> {
        let kept = self.idle().pop();
        match kept.map(|connection| self.call_over(connection, words, self.within)) {
            Some(Ok(reply)) => Ok(reply),
            // The server may have closed it meanwhile, or have been replaced.
            Some(Err(_)) | None => self.call_anew(words),
        }
    }

    fn call_anew(&self, words: &[&str]) -> io::Result<Reply> {
        let deadline = Instant::now() + self.within;
        let connection = Connection::open(&self.server, self.within)?;
        self.call_over(connection, words, deadline.saturating_duration_since(Instant::now()))
    }

    fn call_over(
        &self,
        mut connection: Connection,
        words: &[&str],
        within: Duration,
    ) -> io::Result<Reply> {
        let reply = connection.call(words, within)?;
        let mut idle = self.idle();
        if idle.len() < MAX_IDLE {
            idle.push(connection);
        }
        Ok(reply)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
