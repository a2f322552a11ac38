use std::sync::Arc;

use mooncake_kv_events::Publisher;
use tokio::sync::watch;

use super::page::Frames;
use crate::ask::Asker;
use crate::following::Followed;
use crate::leadership::RoleStatus;
use crate::scan::Matcher;
use crate::tenants::QuotaBook;

/// The state that all handlers share.
#[derive(Clone, Debug)]
pub(crate) struct AdminState {
    pub(crate) asker: Asker,
    pub(crate) status: watch::Receiver<RoleStatus>,
    /// How much this master knows as a standby.
    pub(crate) following: watch::Receiver<Followed>,
    pub(crate) kv_events: Option<Arc<Publisher>>,
    /// The quotas of tenants, if they are enforced.
    pub(crate) quotas: Option<Arc<QuotaBook>>,
    /// Matches the keys of one page at a time, for all requests of operators.
    pub(crate) matcher: Matcher,
    /// What viewers of the page see.
    pub(crate) frames: Arc<Frames>,
}
