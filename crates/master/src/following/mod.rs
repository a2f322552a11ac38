//! What a master does while it stands by, so that it leads sooner: it asks the leader which segments there are, and each
//! node what its segment holds and what changes there.
//!
//! `leader` asks for the segments and has each followed by a task of its own (`segment`), over a connection (`link.rs`). What is known
//! lies in a `pool`, as one shadow for each segment. Whatever goes wrong costs that shadow at most: a master that could
//! not follow a segment is told all of it when it leads.

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
use pool::Pool;

/// Follows until it is dropped or ended.
pub(crate) struct Following {
    pool: Rc<Pool>,
    /// The one that has all others.
    _task: JoinSet<()>,
}

impl Following {
    pub(crate) fn start(
        config: &Rc<Config>,
        status: watch::Receiver<RoleStatus>,
        followed: Rc<watch::Sender<Followed>>,
    ) -> Following {
        let pool = Rc::new(Pool::new(followed));
        let mut task = JoinSet::new();
        task.spawn_local(leader::run(Rc::clone(config), Rc::clone(&pool), status));
        Following { pool, _task: task }
    }

    /// Gives all that is known.
    pub(crate) fn end(self) -> BTreeMap<SegmentId, Shadow> {
        self.pool.end()
    }
}
