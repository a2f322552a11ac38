use std::sync::Arc;

use mooncake_kv_events::Publisher;
use tokio::sync::watch;

use crate::ask::Asker;
use crate::following::Followed;
use crate::leadership::RoleStatus;

/// What every handler sees.
#[derive(Clone, Debug)]
pub(crate) struct AdminState {
    pub(crate) asker: Asker,
    pub(crate) status: watch::Receiver<RoleStatus>,
    /// What this master knows while it stands by.
    pub(crate) following: watch::Receiver<Followed>,
    pub(crate) kv_events: Option<Arc<Publisher>>,
}
