//! What a standby does to take over sooner: it asks the leader for its segments, and follows their ledgers at the
//! nodes.
//!
//! `leader` asks for the segments and starts a task for each (`segment`), which has a connection of its own
//! (`link.rs`). A `pool` holds one shadow of the ledger for each segment. A failure costs at most that shadow: the
//! node of a segment that could not be followed tells all of it after the takeover.

mod leader;
mod pool;
mod segment;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::rc::Rc;

use mooncake_meta::Shadow;
use mooncake_types::SegmentId;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::config::Config;
use crate::leadership::RoleStatus;
pub(crate) use pool::Followed;
use pool::FollowedPool;

/// Follows the ledgers until it is dropped or ended.
pub(crate) struct Following {
    pool: Rc<FollowedPool>,
    /// The task that owns all others.
    _task: JoinSet<()>,
}

impl Following {
    pub(crate) fn start(
        config: &Rc<Config>,
        status: watch::Receiver<RoleStatus>,
        followed: Rc<watch::Sender<Followed>>,
    ) -> Following {
        let pool = Rc::new(FollowedPool::new(followed));
        let mut task = JoinSet::new();
        task.spawn_local(leader::run(Rc::clone(config), Rc::clone(&pool), status));
        Following { pool, _task: task }
    }

    /// Ends it, and returns all shadows.
    pub(crate) fn end(self) -> BTreeMap<SegmentId, Shadow> {
        self.pool.end()
    }
}
