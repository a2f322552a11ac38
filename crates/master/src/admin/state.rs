use std::sync::Arc;

use mooncake_kv_events::Publisher;
use tokio::sync::watch;

use crate::ask::Asker;
use crate::following::Followed;
use crate::leadership::RoleStatus;

/// The state that all handlers share.
#[derive(Clone, Debug)]
pub(crate) struct AdminState {
    pub(crate) asker: Asker,
    pub(crate) status: watch::Receiver<RoleStatus>,
    /// How much this master knows as a standby.
    pub(crate) following: watch::Receiver<Followed>,
    pub(crate) kv_events: Option<Arc<Publisher>>,
}
