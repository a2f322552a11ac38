//! Calls that got no answer in time. The host may still touch their memory, until it answers or ends the connection: it
//! does neither before the call is over.

use std::sync::{Mutex, MutexGuard, PoisonError};

use mooncake_client::{MemPool, SetAside};
use mooncake_connection::Connection;

/// Most calls whose end is awaited. Each takes a descriptor. The ranges of further ones are lost to the pool.
const MOST_CALLS: usize = 256;

#[derive(Default)]
pub(super) struct OverdueCalls(Mutex<Vec<OverdueCall>>);

struct OverdueCall {
    connection: Connection,
    /// The ranges of the pool through which its bytes pass.
    ranges: Vec<SetAside>,
}

impl OverdueCalls {
    /// Keeps the connection of a call, with its ranges, until the call is over.
    pub(super) fn keep(&self, connection: Connection, ranges: Vec<SetAside>) {
        let mut calls = self.lock();
        if calls.len() < MOST_CALLS {
            calls.push(OverdueCall { connection, ranges });
        } else {
            tracing::warn!("memory of calls that the host process does not answer is lost");
        }
    }

    /// Gives the ranges of those calls back to the pool that are over by now.
    pub(super) fn end_answered(&self, pool: &MemPool) {
        let mut calls = self.lock();
        for call in calls.extract_if(.., |call| !call.connection.is_quiet()) {
            call.ranges.into_iter().for_each(|range| pool.take_back(range));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<OverdueCall>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
